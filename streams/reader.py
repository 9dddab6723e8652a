"""Reads of partitions in chunks, without gaps or repetitions, for callers outside the event loop.

Records that a fetch returns beyond the caller's limit are buffered for its next call.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final, cast

from aiokafka.errors import CorruptRecordException
from aiokafka.structs import TopicPartition

from engine.events import Message
from engine.events.vocabulary import INPUT_TOPICS
from engine.log.errors import LogDamagedError
from engine.log.port import READ_BYTES, Partition, Record, Vector, size_of
from engine.log.producer_time import capped
from streams.client.broker_requests import Wire
from streams.client.loop import BackgroundLoop
from streams.client.record_batches import Chunk, CorruptBatchError, RawRecord
from streams.codec import decode
from streams.errors import unavailable_if

_VISIBLE_SECONDS: Final = 5.0
"""Time limit until this process's own commit is readable: usually some milliseconds, longer if another producer's transaction is
open before it in the same partition."""
_PAUSE_SECONDS: Final = 0.002
_new_record: Final = cast(
    "Callable[[tuple[Partition, int, Message, str, int, Vector, int, int]], Record]", partial(tuple.__new__, Record)
)
"""Constructor without checks, as `engine.events.envelope.new_message`."""


class _Buffer:
    """Fetched records that were not returned yet."""

    __slots__ = ("at", "behind", "records")

    def __init__(self, chunk: Chunk) -> None:
        self.records = chunk.records
        self.behind = chunk.behind
        self.at = 0
        """Next offset."""


class Reader:
    """Reads committed records; waits for this process's own ones, unless another transaction blocks them."""

    def __init__(self, background: BackgroundLoop, wire: Wire, name: Callable[[Partition], TopicPartition], where: str) -> None:
        """Read over open connections.

        Args:
            background: thread of their event loop.
            wire: open connections.
            name: returns a partition's name in the cluster.
            where: name of the cluster, for messages.
        """
        self._background = background
        self._wire = wire
        self._name = name
        self._where = where
        self._lock = threading.Lock()
        self._buffers: dict[Partition, _Buffer] = {}
        self._written: dict[TopicPartition, int] = {}
        self._held_up: set[TopicPartition] = set()
        """Partitions where the wait for own records timed out; there is no further wait until these are readable."""
        self._gone: dict[Partition, tuple[int, int]] = {}
        """Number of skipped offsets, and the end of the last gap, by partition."""

    def wrote(self, ends: Mapping[TopicPartition, int]) -> None:
        """Record the end offsets of this process's writes."""
        with self._lock:
            for partition, end in ends.items():
                if end > self._written.get(partition, 0):
                    self._written[partition] = end

    def read(self, partition: Partition, start: int, limit: int) -> list[Record]:
        """Return `limit` records at offsets ≥ `start`, in order; fewer only at the end of the partition, or if they are large.

        Raises:
            LogUnavailableError: no broker answers.
            LogDamagedError: a checksum does not match.
        """
        return self._read(partition, start, limit, self._at_hand(partition, start), None)

    def read_each(self, places: Sequence[tuple[Partition, int]], limit: int) -> list[list[Record]]:
        """Return the result of `read` for several distinct partitions; all missing records are fetched together.

        Raises:
            LogUnavailableError: no broker answers.
            LogDamagedError: a checksum does not match.
        """
        at_hand = [self._at_hand(partition, start) for partition, start in places]
        bare = {
            self._name(partition): start if buffer is None else buffer.behind
            for (partition, start), buffer in zip(places, at_hand, strict=True)
            if buffer is None or not buffer.records
        }
        chunks: dict[TopicPartition, Chunk] = {}
        if len(bare) > 1:
            with self._reading("new records"):
                chunks = self._background.run(self._fetch_each(bare))
        return [
            self._read(partition, start, limit, buffer, chunks.get(self._name(partition)))
            for (partition, start), buffer in zip(places, at_hand, strict=True)
        ]

    def _at_hand(self, partition: Partition, start: int) -> _Buffer | None:
        """Take the buffered chunk out of the buffer, if it begins at `start`."""
        with self._lock:
            buffer = self._buffers.pop(partition, None)
        return buffer if buffer is not None and buffer.at == start else None

    def _read(self, partition: Partition, start: int, limit: int, buffer: _Buffer | None, chunk: Chunk | None) -> list[Record]:
        """Read, beginning with the buffered records.

        Args:
            partition: partition to read.
            start: first offset.
            limit: maximum number of records.
            buffer: chunk left from an earlier call; `None`: none.
            chunk: chunk behind the buffer that this call has already fetched; `None`: none.
        """
        found: list[Record] = []
        size = 0
        at_end = False
        while len(found) < limit and size < READ_BYTES and not at_end:
            if buffer is None or not buffer.records:
                if chunk is None:
                    begin = start if buffer is None else buffer.behind
                    chunk = self._chunk(partition, begin)
                    self._note_gone(partition, begin, chunk.first)
                buffer = _Buffer(chunk)
                # Fewer than `limit` records mean the end of the partition; merging readers rely on it.
                at_end = chunk.behind >= chunk.stable
                chunk = None
            if buffer.records:
                with self._reading(f"{partition.topic}/{partition.number}"):
                    made = buffer.records.take(limit - len(found), partial(record_of, partition))
                found += made
                size += sum(record.size for record in made)
        if buffer is not None:
            buffer.at = found[-1].offset + 1 if found else start
            with self._lock:
                self._buffers[partition] = buffer
        return found

    def gone(self, partition: Partition) -> int:
        """Return the number of offsets skipped because retention had deleted their records; each counts once."""
        with self._lock:
            return self._gone.get(partition, (0, 0))[0]

    def _note_gone(self, partition: Partition, start: int, first: int) -> None:
        with self._lock:
            count, behind = self._gone.get(partition, (0, 0))
            # Uncommitted inputs are read again, and must not be counted twice.
            if first > (start := max(start, behind)):
                self._gone[partition] = count + first - start, first

    def chunks(self, partition: Partition, start: int, end: int) -> Iterator[list[RawRecord]]:
        """Yield the records at offsets from `start` up to, not including, `end`, one fetch at a time.

        Raises:
            LogUnavailableError: no broker answers.
            LogDamagedError: a checksum does not match.
        """
        while start < end:
            chunk = self._chunk(partition, start)
            start = chunk.behind
            if not chunk.records:
                return
            yield list(chunk.records) if chunk.behind <= end else [raw for raw in chunk.records if raw.offset < end]

    def ends(self, partitions: list[Partition]) -> list[int]:
        """Return the end offset of the readable records of each partition.

        Raises:
            LogUnavailableError: no broker answers.
        """
        names = [self._name(partition) for partition in partitions]
        with self._reading("the ends of partitions"):
            found = self._background.run(self._ends(names))
        return [found[name] for name in names]

    def _chunk(self, partition: Partition, start: int) -> Chunk:
        what = f"{partition.topic}/{partition.number}"
        try:
            with self._reading(what):
                return self._background.run(self._fetch(self._name(partition), start))
        except LogDamagedError as error:
            if not isinstance(error.__cause__, CorruptBatchError):
                raise
            batch = error.__cause__
            first = max(batch.offset, start)
            raise LogDamagedError(str(error), (*partition, first), batch.behind - first) from batch

    @contextmanager
    def _reading(self, what: str) -> Iterator[None]:
        try:
            with unavailable_if(f"{what} of {self._where} cannot be read"):
                yield
        except Exception as error:
            if isinstance(error.__cause__, CorruptRecordException):
                raise LogDamagedError(
                    f"{what} of {self._where}: {error.__cause__}. Let another broker lead that has a sound copy, or save what can "
                    "still be read with `lahar export` and `lahar import` it into a new log"
                ) from error.__cause__
            raise

    async def _fetch(self, partition: TopicPartition, start: int) -> Chunk:
        chunk = await self._wire.fetch(partition, start)
        deadline = time.monotonic() + _VISIBLE_SECONDS
        while self._hides(partition, chunk.stable) and not chunk.records and start < self._written[partition]:
            if time.monotonic() > deadline:
                self._held_up.add(partition)
            else:
                await asyncio.sleep(_PAUSE_SECONDS)
                chunk = await self._wire.fetch(partition, start)
        return chunk

    def _hides(self, partition: TopicPartition, end: int) -> bool:
        """Return true if the read up to `end` misses records that this process has written, and must wait for them."""
        if end >= self._written.get(partition, 0):
            self._held_up.discard(partition)
            return False
        return partition not in self._held_up

    async def _fetch_each(self, places: Mapping[TopicPartition, int]) -> dict[TopicPartition, Chunk]:
        """Fetch some partitions; those that need a wait or a retry are left out."""
        found = await self._wire.fetch_each(places)
        return {partition: chunk for partition, chunk in found.items() if not self._hides(partition, chunk.stable) or chunk.records}

    async def _ends(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        found = await self._wire.ends(partitions)
        deadline = time.monotonic() + _VISIBLE_SECONDS
        while hiding := [partition for partition, end in found.items() if self._hides(partition, end)]:
            if time.monotonic() > deadline:
                self._held_up.update(hiding)
            else:
                await asyncio.sleep(_PAUSE_SECONDS)
                found = await self._wire.ends(partitions)
        return found


def record_of(partition: Partition, raw: RawRecord) -> Record:
    """Decode a record for readers of the log; its timestamp in Kafka is the append time (`streams.topics`)."""
    message, (shard, shardsequence, basis) = decode(raw.key, raw.value, raw.headers, raw.timestamp)
    appended = raw.timestamp * 1_000
    if partition.topic in INPUT_TOPICS:
        # Capped here, not by `append`, so that inputs of other producers are capped too.
        message = capped(message, appended)
    return _new_record((partition, raw.offset, message, shard, shardsequence, basis, appended, size_of(message)))
