"""One shard in a SQLite log: its row, snapshot and commits."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, cast
from zlib import crc32

from engine.events import Message, Topic
from engine.log.errors import FencedError, LogError, LogUnavailableError
from engine.log.failures import damaged
from engine.log.mark_file import MarkFile
from engine.log.port import Commit, Partition, Position, ShardId, ShardView, Vector
from engine.log.rows import Metadata, Row, checksum, insertion, parse_vector, row, write_vector
from engine.log.schema import table
from engine.log.shard_inputs import resume
from engine.log.sqlite_file import SqliteFile

_CHUNK: Final = 2_000
"""Snapshot records per read."""

_COLUMNS: Final = "crc, id, name, epoch, inputs, vector, now, shardsequence"
_BY_NAME: Final = f"SELECT {_COLUMNS} FROM shards WHERE name = ?"  # noqa: S608  columns
_REPLACE: Final = f"INSERT OR REPLACE INTO shards ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?)"  # noqa: S608  columns


class SqliteShard:
    """Write access to one shard of a SQLite log."""

    def __init__(self, file: SqliteFile, counts: Mapping[Topic, int], shard: ShardId, inputs: Sequence[Partition]) -> None:
        """Open the shard and fence its earlier holder.

        Args:
            file: open log file.
            counts: number of partitions by topic.
            shard: shard to open.
            inputs: partitions that it reads.

        Raises:
            LogUnavailableError: the log cannot be written.
            LayoutError: the shard ran before with other inputs.
            LogDamagedError: the shard's row does not match its checksum.
        """
        self._file = file
        self._counts = counts
        self._shard = shard
        self._inputs = " ".join(f"{topic}/{number}" for topic, number in inputs)
        self._closed = False
        with file.transaction() as connection:
            held = connection.execute(_BY_NAME, (str(shard),)).fetchone()
            if held is None:
                (self._number,) = connection.execute("SELECT coalesce(max(id), 0) + 1 FROM shards").fetchone()
                epoch, known, position = 0, self._inputs, Position((0,) * len(inputs))
            else:
                self._number, epoch, known, position = _parse(file.path, held)
            if known != self._inputs:
                taken = (name.split("/") for name in known.split())
                before = [Partition(cast("Topic", topic), int(number)) for topic, number in taken]
                position = resume(shard, before, inputs, position)
            self._epoch = epoch + 1
            self._position = position
            self._store(connection, position)
        self._marks = MarkFile(file.path, self._number, self._epoch)

    @staticmethod
    def look(file: SqliteFile, shard: ShardId) -> ShardView | None:
        """Return position and snapshot of a shard without opening it; `None` if it was never opened.

        Raises:
            LogDamagedError: a stored row does not match its checksum.
        """
        with file.moment() as connection:
            held = connection.execute(_BY_NAME, (str(shard),)).fetchone()
            if held is None:
                return None
            number, _, _, position = _parse(file.path, held)
            rows = connection.execute("SELECT subject, crc, state FROM subjects WHERE shard = ? ORDER BY subject", (number,))
            return ShardView(position, list(_subjects(file.path, rows)))

    @property
    def position(self) -> Position:
        """Committed position, by this or an earlier holder."""
        return self._position

    def snapshot(self) -> Iterator[tuple[str, bytes]]:
        """Yield every snapshot record of the shard at `position`.

        Raises:
            LogDamagedError: a record does not match its checksum.
        """
        query = "SELECT subject, crc, state FROM subjects WHERE shard = ? AND subject > ? ORDER BY subject LIMIT ?"
        last = ""
        while True:
            rows = self._file.all(query, (self._number, last, _CHUNK))
            yield from _subjects(self._file.path, rows)
            if len(rows) < _CHUNK:
                return
            last = rows[-1][0]

    def commit(self, commit: Commit) -> Position:
        """Write a transaction and return the new position.

        Raises:
            FencedError: another holder has opened the shard; nothing was written.
            LogUnavailableError: the log cannot be written. Open the shard again; its position shows if the commit was written.
        """
        if self._closed:
            raise LogError(f"shard {self._shard} was released; open it again")
        with self._file.transaction() as connection:
            _, epoch, _, known = _parse(self._file.path, connection.execute(_BY_NAME, (str(self._shard),)).fetchone())
            if epoch != self._epoch:
                raise FencedError(str(self._shard), self._epoch, epoch)
            if known != self._position:
                # An earlier commit raised although SQLite had written it.
                raise LogUnavailableError(
                    f"{self._file.path}: an earlier commit of {self._shard} was written though it failed; open the shard again"
                )
            write = RecordWriter(connection)
            for shardsequence, output in enumerate(commit.outputs, known.shardsequence + 1):
                partition = output.partition(self._shard.number, self._counts[output.topic])
                write.add(partition, output.message, (self._number, shardsequence, output.basis))
            write.finish()
            position = Position(commit.vector, commit.now, known.shardsequence + len(commit.outputs))
            self._store(connection, position)
            self._write_snapshot(connection, commit.snapshot)
        self._position = position
        return position

    marks_are_free: Final = True

    def mark(self, text: str) -> None:
        """Store a mark outside of any transaction.

        Raises:
            LogUnavailableError: the mark file cannot be written.
        """
        self._marks.write(text)

    def marked(self) -> str:
        """Return the last mark of an earlier holder.

        Raises:
            LogUnavailableError: the mark file cannot be read.
        """
        return self._marks.read()

    def close(self) -> None:
        """Release the shard."""
        self._closed = True
        self._marks.close()

    def _write_snapshot(self, connection: sqlite3.Connection, changes: Sequence[tuple[str, bytes | None]]) -> None:
        kept = [
            (self._number, subject, crc32(state, crc32(subject.encode())), state) for subject, state in changes if state is not None
        ]
        gone = [(self._number, subject) for subject, state in changes if state is None]
        connection.executemany("INSERT OR REPLACE INTO subjects (shard, subject, crc, state) VALUES (?,?,?,?)", kept)
        connection.executemany("DELETE FROM subjects WHERE shard = ? AND subject = ?", gone)

    def _store(self, connection: sqlite3.Connection, position: Position) -> None:
        vector = write_vector(position.vector)
        covered = (self._number, str(self._shard), self._epoch, self._inputs, vector, position.now, position.shardsequence)
        connection.execute(_REPLACE, (checksum(covered), *covered))


class RecordWriter:
    """Collects the records of one transaction by partition and inserts them."""

    __slots__ = ("_bases", "_connection", "_first", "_next", "_position", "_rows")

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Read the last position, within a transaction."""
        self._connection = connection
        (self._first,) = connection.execute("SELECT position FROM log").fetchone()
        self._position: int = self._first
        self._next: dict[Partition, int] = {}
        self._rows: defaultdict[Partition, list[Row]] = defaultdict(list)
        self._bases: tuple[Vector, str] = ((), "")

    def add(self, partition: Partition, message: Message, origin: tuple[int, int, Vector] | None = None) -> None:
        """Add one record at the end of its partition; `origin` is the shard id, shard sequence number and basis of an output."""
        offset = self._next.get(partition)
        if offset is None:
            query = f'SELECT max("offset") FROM {table(partition)}'  # noqa: S608  a name from a closed list
            (last,) = self._connection.execute(query).fetchone()
            offset = 0 if last is None else last + 1
        self._next[partition] = offset + 1
        self._position += 1
        metadata: Metadata = (None, None, None)
        if origin is not None:
            shard, shardsequence, basis = origin
            if basis != self._bases[0]:
                self._bases = basis, write_vector(basis)
            metadata = shard, shardsequence, self._bases[1]
        self._rows[partition].append(row(offset, self._position, message, metadata))

    def finish(self) -> None:
        """Insert all rows and store the last position."""
        for partition, rows in self._rows.items():
            self._connection.executemany(insertion(partition), rows)
        if self._position != self._first:
            self._connection.execute("UPDATE log SET position = ?", (self._position,))


def _parse(path: Path, held: Row) -> tuple[int, int, str, Position]:
    """Return id, epoch, inputs and position from a shard's row."""
    crc, number, name, epoch, inputs, vector, now, shardsequence = held
    if crc != checksum(held[1:]):
        raise damaged(path, f"the row of shard {name} does not match its checksum")
    return number, epoch, inputs, Position(parse_vector(vector), now, shardsequence)


def _subjects(path: Path, rows: Iterable[Row]) -> Iterator[tuple[str, bytes]]:
    """Yield snapshot records from rows of subject, checksum and state."""
    for subject, crc, state in rows:
        if not isinstance(state, bytes) or crc != crc32(state, crc32(subject.encode())):
            raise damaged(path, f"the snapshot of {subject} does not match its checksum")
        yield subject, state
