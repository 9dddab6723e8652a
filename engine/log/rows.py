"""Records as rows of a SQLite log, and the checksum that each row carries.

The checksum covers every other column. It is the CRC-32 of the row in Python's marshal format 2, which writes equal values of
these types as equal bytes in every release; a test pins it. Measured on rows of 450 B: marshal and CRC 0.6 to 0.8 µs, joining the
columns as text and CRC 0.9 µs.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterable
from typing import Any, Final
from zlib import crc32

from msgspec.json import Decoder

from engine.events import Message
from engine.log.port import READ_BYTES, Partition, Record, Vector
from engine.log.schema import table

__all__ = ["Metadata", "Row", "checksum", "insertion", "parse_vector", "records", "row", "selection", "write_vector"]

Metadata = tuple[int | None, int | None, str | None]
"""Shard (its number in the file), shardsequence, basis (as `write_vector` gives it); all `None` for inputs."""

Row = tuple[Any, ...]
"""crc, then what it covers: offset, position, shard, shardsequence, basis, and the fields of `Message` in their order."""

_COLUMNS: Final = 'crc, "offset", position, shard, shardsequence, basis, key, id, source, type'
_SELECTED: Final = (
    f"{_COLUMNS}, coalesce(subject, key), time, recordedtime, sequence, coalesce(correlationid, key), causationid, clusterid, data"
)
_INSERTED: Final = f"{_COLUMNS}, subject, time, recordedtime, sequence, correlationid, causationid, clusterid, data"
_VALUES: Final = "?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,nullif(?11,?7),?12,?13,?14,nullif(?15,?7),?16,?17,?18"


_OFFSETS: Final = Decoder(Vector).decode


def insertion(partition: Partition) -> str:
    """Return the statement that inserts one row into a partition."""
    return f"INSERT INTO {table(partition)} ({_INSERTED}) VALUES ({_VALUES})"  # noqa: S608  names from a closed list


def selection(partition: Partition, condition: str) -> str:
    """Return the query for the rows of a partition, with parameters for the condition and the greatest number of rows."""
    return f'SELECT {_SELECTED} FROM {table(partition)} WHERE {condition} ORDER BY "offset" LIMIT ?'  # noqa: S608  the same


def checksum(covered: Row) -> int:
    """Return the checksum of a row, given all that it covers."""
    return crc32(marshal.dumps(covered, 2))


def row(offset: int, position: int, message: Message, metadata: Metadata) -> Row:
    """Return a record as it is inserted."""
    covered = (offset, position, *metadata, *message)
    return (checksum(covered), *covered)


def records(
    rows: Iterable[Row], partition: Partition, shards: Callable[[int], str], fault: Callable[[int], Exception]
) -> tuple[list[Row], list[Record], bool]:
    """Return rows and what they hold as records, up to the one with which they reach `READ_BYTES`, and whether that cut them off.

    Args:
        rows: as `selection` gives them.
        partition: where they stand.
        shards: name of a shard by its number in the file.
        fault: makes the error to be raised for the row at an offset that does not match its checksum.
    """
    # 3.1 to 3.7 µs a row, SQLite's own 1.5 included; `tuple.__new__` instead of the classes' constructors saves 0.8 of them.
    new, dumps, crc = tuple.__new__, marshal.dumps, crc32
    read: list[Row] = []
    found: list[Record] = []
    add = found.append
    held = 0
    # Neighbours mostly share shard and basis.
    written: str | None = None
    basis: Vector = ()
    number: int | None = None
    shard = ""
    for line in rows:
        covered = dumps(line[1:], 2)
        if crc(covered) != line[0]:
            raise fault(line[1])
        message = new(Message, line[6:])
        if line[3] is None:
            add(new(Record, (partition, line[1], message, "", 0, (), 0, len(covered))))
        else:
            if line[5] != written:
                written = line[5]
                basis = parse_vector(written)
            if line[3] != number:
                number = line[3]
                shard = shards(number)
            add(new(Record, (partition, line[1], message, shard, line[4], basis, 0, len(covered))))
        read.append(line)
        held += len(covered)  # the message, and some hundred bytes; its `size_of` would cost as much as all of this
        if held >= READ_BYTES:
            return read, found, True
    return read, found, False


def write_vector(vector: Vector) -> str:
    """Return offsets as text."""
    return ",".join(map(str, vector))


def parse_vector(text: str) -> Vector:
    """Return the offsets that `write_vector` wrote."""
    return _OFFSETS(f"[{text}]")  # a third of what splitting it takes, once a row
