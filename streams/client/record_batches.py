"""Record batches of a fetch, as stored in the log; committed records are taken from them one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from aiokafka.errors import CorruptRecordException
from aiokafka.record.control_record import ABORT_MARKER, ControlRecord
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import MemoryRecords

from streams.codec import Header

__all__ = ["Chunk", "CorruptBatchError", "RawRecord", "RawRecords", "committed"]

_HEAD_BYTES: Final = 12

T = TypeVar("T")


class CorruptBatchError(CorruptRecordException):  # type: ignore[misc]  # aiokafka has no types
    """Raised when the first batch of a fetch does not match its checksum."""

    def __init__(self, offset: int, behind: int) -> None:
        """Say where it stands.

        Args:
            offset: of its first record.
            behind: of the first record of the next batch.
        """
        super().__init__(f"the batch at {offset} does not match its checksum")
        self.offset = offset
        self.behind = behind


class RawRecord(Protocol):
    """A record as aiokafka's parser gives it."""

    offset: int
    timestamp: int
    """When it was appended (milliseconds)."""
    key: bytes | None
    value: bytes | None
    headers: list[Header]


class RawRecords:
    """Records that are decoded from their batches on demand, once.

    A fetch brings thousands, each made of a dozen objects; the garbage collector would look at all that wait.
    """

    def __init__(self, batches: Iterable[Batch], start: int) -> None:
        """Hold some batches, of which records before `start` are of no interest."""
        self._rest = _records(batches, start)
        self._head = list(islice(self._rest, 1))

    def __bool__(self) -> bool:
        """Return whether there are more."""
        return bool(self._head)

    def take(self, limit: int, make: Callable[[RawRecord], T]) -> list[T]:
        """Apply a function to the next records, at most so many and at least one; each record is freed before the next one.

        Not to be used again after an error: the current record is lost.
        """
        found = [make(raw) for raw in chain(self._head, islice(self._rest, limit - 1))]
        self._head = list(islice(self._rest, 1))
        return found

    def __iter__(self) -> Iterator[RawRecord]:
        """Yield all that are left."""
        yield from self._head
        self._head = []
        yield from self._rest


class Batch(NamedTuple):
    """Some records that were written together."""

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
            # Brokers take names of headers that are no UTF-8, aiokafka does not.
            for record in _LenientBatch(raw):
                if record.offset >= start:
                    start = record.offset + 1
                    yield record


class Chunk(NamedTuple):
    """What one fetch brought."""

    records: RawRecords
    """Committed ones, at or behind the offset asked for."""
    behind: int
    """Next offset. Larger than the last record's offset + 1 where markers and aborted records follow."""
    stable: int
    """Behind the last record that is committed or aborted; nothing at or behind it may be read yet."""
    first: int = 0
    """First retained offset, if records from the requested offset on were deleted; 0: none were."""


def committed(content: bytes, aborted: Iterable[tuple[int, int]] | None, start: int) -> tuple[RawRecords, int]:
    """Return the records of committed transactions, and of producers without one, and the offset behind what was seen.

    Raises:
        CorruptBatchError: the first batch is damaged; before another one that is, what was seen ends.
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
            # How many records it has is among what may be damaged; where the next one begins is not.
            following = int.from_bytes(whole[place : place + 8], "big") if batches.has_next() else batch.next_offset
            raise CorruptBatchError(batch.base_offset, max(following, batch.base_offset + 1))
        while waiting and waiting[-1][1] <= batch.base_offset:
            given_up.add(waiting.pop()[0])
        if batch.is_control_batch:
            # A log that is compacted may keep the batch of a marker without the marker.
            if any(ControlRecord.parse(marker.key) == ABORT_MARKER for marker in batch):
                given_up.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in given_up):
            found.append(Batch(batch, raw))
        behind = max(batch.next_offset, behind)
    return RawRecords(found, start), behind


def _size(content: memoryview, place: int) -> int:
    """Return how many bytes the batch takes that begins at a place: its base offset, its length, and what that counts."""
    return _HEAD_BYTES + int.from_bytes(content[place + 8 : place + _HEAD_BYTES], "big")


class _Lenient(bytearray):
    """Bytes that give a text for whatever they are; aiokafka's parser takes texts from them only for names of headers."""

    def __getitem__(self, place: Any) -> Any:  # noqa: ANN401  as of a bytearray
        found = super().__getitem__(place)
        return _Lenient(found) if isinstance(place, slice) else found

    def decode(self, encoding: str = "utf-8", _errors: str = "") -> str:
        return bytes(self).decode(encoding, "backslashreplace")


class _LenientBatch(_DefaultRecordBatchPy):  # type: ignore[misc]  # aiokafka has no types
    """A batch as aiokafka parses it in Python; in names of headers, bytes that are no UTF-8 stand as escapes.

    Kafka's protocol calls a header's name a string, and brokers do not look at it. aiokafka refuses the whole batch; one such
    record of another producer would hold up for good whatever reads its partition.
    """

    _buffer: bytearray

    def _maybe_uncompress(self) -> None:
        super()._maybe_uncompress()
        if not isinstance(self._buffer, _Lenient):
            self._buffer = _Lenient(self._buffer)
