"""Parsing of a fetch's record batches; the committed records are decoded one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from aiokafka.errors import CorruptRecordException
from aiokafka.record.control_record import ABORT_MARKER, ControlRecord
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import MemoryRecords

from streams.codec import Header

_HEAD_BYTES: Final = 12

T = TypeVar("T")


class CorruptBatchError(CorruptRecordException):  # type: ignore[misc]  # aiokafka has no types
    """Raised when the checksum of a fetch's first batch does not match."""

    def __init__(self, offset: int, behind: int) -> None:
        """Store the location of the batch.

        Args:
            offset: first offset of the batch.
            behind: first offset of the next batch.
        """
        super().__init__(f"the batch at {offset} does not match its checksum")
        self.offset = offset
        self.behind = behind


class RawRecord(Protocol):
    """A record from aiokafka's parser."""

    offset: int
    timestamp: int
    """Append time (milliseconds)."""
    key: bytes | None
    value: bytes | None
    headers: list[Header]


class RawRecords:
    """Records that are decoded from their batches once, on demand.

    A fetch returns thousands of records of a dozen objects each, which the garbage collector would otherwise traverse while they
    wait.
    """

    def __init__(self, batches: Iterable[Batch], start: int) -> None:
        """Store batches; records before offset `start` are skipped."""
        self._rest = _records(batches, start)
        self._head = list(islice(self._rest, 1))

    def __bool__(self) -> bool:
        """Return true if records are left."""
        return bool(self._head)

    def take(self, limit: int, make: Callable[[RawRecord], T]) -> list[T]:
        """Apply a function to the next records, at least one and at most `limit`.

        Each record is freed before the next one is decoded. Not usable after an error: the current record is lost.
        """
        found = [make(raw) for raw in chain(self._head, islice(self._rest, limit - 1))]
        self._head = list(islice(self._rest, 1))
        return found

    def __iter__(self) -> Iterator[RawRecord]:
        """Yield all remaining records."""
        yield from self._head
        self._head = []
        yield from self._rest


class Batch(NamedTuple):
    """Records that were written together."""

    parsed: Iterable[RawRecord]
    raw: memoryview


def _records(batches: Iterable[Batch], start: int) -> Iterator[RawRecord]:
    for parsed, raw in batches:
        try:
            for record in parsed:
                if record.offset >= start:
                    start = record.offset + 1
                    yield record
        except UnicodeDecodeError:
            # aiokafka rejects header names that are not UTF-8, which brokers accept.
            for record in _LenientBatch(raw):
                if record.offset >= start:
                    start = record.offset + 1
                    yield record


class Chunk(NamedTuple):
    """Result of one fetch."""

    records: RawRecords
    """Committed records at or behind the requested offset."""
    behind: int
    """Next offset to fetch; beyond the last record's offset + 1 if markers or aborted records follow."""
    stable: int
    """Last stable offset; records from there on are not readable yet."""
    first: int = 0
    """First retained offset, if retention deleted records from the requested offset on; otherwise 0."""


def committed(content: bytes, aborted: Iterable[tuple[int, int]] | None, start: int) -> tuple[RawRecords, int]:
    """Return the committed and non-transactional records, and the next offset to fetch.

    Raises:
        CorruptBatchError: the first batch is damaged. A later damaged batch ends the result before it.
    """
    waiting = sorted(aborted or (), key=lambda transaction: transaction[1], reverse=True)
    given_up: set[int] = set()
    found: list[Batch] = []
    behind, place, whole = start, 0, memoryview(content)
    batches = MemoryRecords(content)
    while batches.has_next():
        batch = batches.next_batch()
        raw = whole[place : place + _size(whole, place)]
        place += len(raw)
        if not batch.validate_crc():
            if place > len(raw):
                break
            # The damage may affect the record count, but not the offset of the next batch.
            following = int.from_bytes(whole[place : place + 8], "big") if batches.has_next() else batch.next_offset
            raise CorruptBatchError(batch.base_offset, max(following, batch.base_offset + 1))
        while waiting and waiting[-1][1] <= batch.base_offset:
            given_up.add(waiting.pop()[0])
        if batch.is_control_batch:
            # Compaction may keep a marker's batch without the marker.
            if any(ControlRecord.parse(marker.key) == ABORT_MARKER for marker in batch):
                given_up.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in given_up):
            found.append(Batch(batch, raw))
        behind = max(batch.next_offset, behind)
    return RawRecords(found, start), behind


def _size(content: memoryview, place: int) -> int:
    """Return the size of the batch at a position in bytes: base offset, length field and content."""
    return _HEAD_BYTES + int.from_bytes(content[place + 8 : place + _HEAD_BYTES], "big")


class _Lenient(bytearray):
    """Bytes that decode without errors; aiokafka's parser decodes only header names from them."""

    def __getitem__(self, place: Any) -> Any:  # noqa: ANN401  as of a bytearray
        found = super().__getitem__(place)
        return _Lenient(found) if isinstance(place, slice) else found

    def decode(self, encoding: str = "utf-8", _errors: str = "") -> str:
        return bytes(self).decode(encoding, "backslashreplace")


class _LenientBatch(_DefaultRecordBatchPy):  # type: ignore[misc]  # aiokafka has no types
    """aiokafka's Python batch parser with escapes for header names that are not UTF-8.

    Kafka's protocol defines header names as strings, but brokers do not check them. aiokafka rejects the whole batch, so one such
    record of another producer would block its partition's readers forever.
    """

    _buffer: bytearray

    def _maybe_uncompress(self) -> None:
        super()._maybe_uncompress()
        if not isinstance(self._buffer, _Lenient):
            self._buffer = _Lenient(self._buffer)
