"""In-memory log for tests, simulations and queries that store nothing."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import accumulate, islice
from operator import itemgetter
from typing import Final, get_args

from engine.events import Message, Topic
from engine.events.vocabulary import SINGLE_TOPICS
from engine.log.errors import FencedError, LogError, RecordTooLargeError
from engine.log.partitioner import partition_of
from engine.log.port import READ_BYTES, Commit, Partition, Position, Record, ShardId, ShardView, size_of
from engine.log.producer_time import capped, wall_clock
from engine.log.shard_inputs import resume


class _Shard:
    """State of a shard that outlives its holder."""

    __slots__ = ("epoch", "inputs", "mark", "position", "snapshot")

    def __init__(self, inputs: tuple[Partition, ...]) -> None:
        self.epoch = 0
        self.inputs = inputs
        self.position = Position((0,) * len(inputs))
        self.snapshot: dict[str, bytes] = {}
        self.mark = ""


class MemoryLog:
    """Log in the memory of one process, with one holder per shard and any number of appenders and readers; thread-safe."""

    finds_by_key: Final = False
    """`records_of` scans all records."""

    def __init__(self, partitions: int = 1, largest: int | None = None, clock: Callable[[], int] = wall_clock) -> None:
        """Create an empty log.

        Args:
            partitions: partitions per topic; topics in `SINGLE_TOPICS` have one.
            largest: maximum size of a record in bytes (`size_of`), as on Kafka; `None`: unlimited.
            clock: returns the append time (microseconds).
        """
        self.largest = largest
        """Bytes that a record may have; may be changed at any time."""
        self._clock = clock
        self._counts: dict[Topic, int] = {topic: 1 if topic in SINGLE_TOPICS else partitions for topic in get_args(Topic)}
        self.records: dict[Partition, list[Record]] = {
            Partition(topic, number): [] for topic, count in self._counts.items() for number in range(count)
        }
        """All records, for tests that damage a log."""
        self._positions: dict[Partition, list[int]] = {partition: [] for partition in self.records}
        self._written = 0
        self.shards: dict[ShardId, _Shard] = {}
        """Position and snapshot of each shard, for tests that damage them."""
        self._cursors: dict[str, dict[Partition, int]] = {}
        # Taken directly on hot paths: the condition's own methods are slower, written in Python.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._seen = threading.local()

    def partitions(self, topic: Topic) -> int:
        """Return the number of partitions of a topic."""
        return self._counts[topic]

    def append(self, topic: Topic, messages: Sequence[Message]) -> None:
        """Append inputs in order; each goes to the partition of its key.

        Raises:
            RecordTooLargeError: a message is larger than `largest`.
        """
        self._must_fit(messages)
        count, now = self._counts[topic], self._clock()
        with self._lock:
            for message in messages:
                self._write(Partition(topic, partition_of(message.key, count)), capped(message, now), size=size_of(message))
            self._changed.notify_all()

    def read(self, partition: Partition, start: int, limit: int) -> list[Record]:
        """Return up to `limit` records at offsets ≥ `start`, in order; fewer if together they exceed `READ_BYTES`."""
        with self._lock:
            found = self.records[partition][start : start + limit]
        if not found:
            return found
        sizes = list(accumulate(record.size or size_of(record.message) for record in found))
        return found[: bisect_left(sizes, READ_BYTES) + 1]

    def end(self, partition: Partition) -> int:
        """Return the end offset: the offset of the next record."""
        with self._lock:
            return len(self.records[partition])

    def open(self, shard: ShardId, inputs: Sequence[Partition]) -> MemoryShard:
        """Open a shard and fence its earlier holder.

        Raises:
            LayoutError: the shard ran before with other inputs.
        """
        with self._lock:
            held = self.shards.setdefault(shard, _Shard(tuple(inputs)))
            held.inputs, held.position = tuple(inputs), resume(shard, held.inputs, inputs, held.position)
            held.epoch += 1
            return MemoryShard(self, shard, held)

    def look(self, shard: ShardId) -> ShardView | None:
        """Return position and snapshot of a shard without opening it; `None` if it was never opened."""
        with self._lock:
            held = self.shards.get(shard)
            return None if held is None else ShardView(held.position, list(held.snapshot.items()))

    def cursor(self, name: str) -> dict[Partition, int]:
        """Return a consumer's next offset by partition."""
        with self._lock:
            return dict(self._cursors.get(name, {}))

    def move_cursor(self, name: str, positions: Mapping[Partition, int]) -> None:
        """Store a consumer's next offsets of some partitions."""
        with self._lock:
            self._cursors.setdefault(name, {}).update(positions)

    def wait(self, timeout: float, partitions: Collection[Partition] = ()) -> Collection[Partition]:
        """Block until a record was written since this thread's last call, for at most `timeout` seconds."""
        with self._lock:
            seen = getattr(self._seen, "written", 0)
            self._changed.wait_for(lambda: self._written != seen, timeout)
            self._seen.written = self._written
        return partitions

    def records_of(self, key: str, topics: Sequence[Topic]) -> Iterator[Record]:
        """Yield all records of some topics with this key, in commit order."""
        return (record for record in self.scan(topics) if record.message.key == key)

    def scan(
        self, topics: Sequence[Topic], types: Collection[str] | None = None, start: Mapping[Partition, int] | None = None
    ) -> Iterator[Record]:
        """Yield the records of some topics in commit order, up to the end offsets at the first iteration."""
        with self._lock:
            ends = {partition: len(found) for partition, found in self.records.items() if partition.topic in topics}
        runs = [
            islice(zip(self._positions[partition], self.records[partition], strict=False), (start or {}).get(partition, 0), end)
            for partition, end in ends.items()
        ]
        for _, record in merge(*runs, key=itemgetter(0)):
            if types is None or record.message.type in types:
                yield record

    def close(self) -> None:
        """Do nothing; memory needs no release."""

    def _must_fit(self, messages: Iterable[Message]) -> None:
        if self.largest is None:
            return
        for place, message in enumerate(messages):
            if size_of(message) > self.largest:
                raise RecordTooLargeError(place, f"a record of {size_of(message)} bytes: the log takes {self.largest}")

    def _write(
        self,
        partition: Partition,
        message: Message,
        shard: str = "",
        shardsequence: int = 0,
        basis: tuple[int, ...] = (),
        size: int = 0,
    ) -> None:
        records = self.records[partition]
        self._written += 1
        self._positions[partition].append(self._written)
        # Bypasses the constructor for speed, as `new_message` does.
        records.append(tuple.__new__(Record, (partition, len(records), message, shard, shardsequence, basis, 0, size)))


class MemoryShard:
    """Write access to one shard of a `MemoryLog`."""

    def __init__(self, log: MemoryLog, shard: ShardId, held: _Shard) -> None:
        self._log = log
        self._shard = shard
        self._held = held
        self._epoch = held.epoch
        self._closed = False

    @property
    def position(self) -> Position:
        """Committed position, by this or an earlier holder."""
        return self._held.position

    def snapshot(self) -> Iterator[tuple[str, bytes]]:
        """Yield every snapshot record of the shard at `position`."""
        with self._log._lock:  # noqa: SLF001  the log and its shards share one lock
            return iter(list(self._held.snapshot.items()))

    def commit(self, commit: Commit) -> Position:
        """Write a transaction and return the new position.

        Raises:
            FencedError: another holder has opened the shard; nothing was written.
            RecordTooLargeError: an output exceeds the log's size limit; nothing was written.
        """
        log, held = self._log, self._held
        with log._lock:  # noqa: SLF001  the log and its shards share one lock
            if self._closed:
                raise LogError(f"shard {self._shard} was released; open it again")
            if held.epoch != self._epoch:
                raise FencedError(str(self._shard), self._epoch, held.epoch)
            log._must_fit(output.message for output in commit.outputs)  # noqa: SLF001
            shard, sequence = str(self._shard), held.position.shardsequence
            number, counts = self._shard.number, log._counts  # noqa: SLF001
            for output in commit.outputs:
                sequence += 1
                log._write(output.partition(number, counts[output.topic]), output.message, shard, sequence, output.basis)  # noqa: SLF001
            for subject, state in commit.snapshot:
                if state is None:
                    held.snapshot.pop(subject, None)
                else:
                    held.snapshot[subject] = state
            held.position = Position(commit.vector, commit.now, sequence)
            log._changed.notify_all()  # noqa: SLF001
            return held.position

    marks_are_free: Final = False  # a mark is for the next process; a memory log has none

    def mark(self, text: str) -> None:
        """Store a mark outside of any transaction."""
        self._held.mark = text

    def marked(self) -> str:
        """Return the last mark of an earlier holder."""
        return self._held.mark

    def close(self) -> None:
        """Release the shard."""
        self._closed = True
