"""The log in memory: for tests, simulations and questions that leave nothing behind."""

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

__all__ = ["MemoryLog"]


class _Shard:
    """What is durable of a shard, as far as memory is."""

    __slots__ = ("epoch", "inputs", "mark", "position", "snapshot")

    def __init__(self, inputs: tuple[Partition, ...]) -> None:
        self.epoch = 0
        self.inputs = inputs
        self.position = Position((0,) * len(inputs))
        self.snapshot: dict[str, bytes] = {}
        self.mark = ""


class MemoryLog:
    """A log in the memory of one process, for one writer a shard and any number of appenders and readers, in any threads."""

    finds_by_key: Final = False
    """It looks at all records."""

    def __init__(self, partitions: int = 1, largest: int | None = None, clock: Callable[[], int] = wall_clock) -> None:
        """Make an empty log.

        Args:
            partitions: of each topic, except of those in `SINGLE_TOPICS`, which have one.
            largest: bytes that a record may have (`size_of`), to stand for a log with such a limit; `None`: any number.
            clock: gives the time at which something is appended (microseconds).
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
        # Held without the condition, whose methods for that are in Python.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._seen = threading.local()

    def partitions(self, topic: Topic) -> int:
        """Return the number of partitions of a topic."""
        return self._counts[topic]

    def append(self, topic: Topic, messages: Sequence[Message]) -> None:
        """Append inputs, in order; each goes to the partition that its key chooses.

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
        """Return up to `limit` records at offsets ≥ `start`, in order; fewer where they are large."""
        with self._lock:
            found = self.records[partition][start : start + limit]
        if not found:
            return found
        sizes = list(accumulate(record.size or size_of(record.message) for record in found))
        return found[: bisect_left(sizes, READ_BYTES) + 1]

    def end(self, partition: Partition) -> int:
        """Return the offset behind the last record."""
        with self._lock:
            return len(self.records[partition])

    def open(self, shard: ShardId, inputs: Sequence[Partition]) -> MemoryShard:
        """Take over a shard, fencing whoever holds it.

        Raises:
            LayoutError: the shard was run before with other inputs.
        """
        with self._lock:
            held = self.shards.setdefault(shard, _Shard(tuple(inputs)))
            held.inputs, held.position = tuple(inputs), resume(shard, held.inputs, inputs, held.position)
            held.epoch += 1
            return MemoryShard(self, shard, held)

    def look(self, shard: ShardId) -> ShardView | None:
        """Return how a shard stands, without taking it over; `None` if it was never opened."""
        with self._lock:
            held = self.shards.get(shard)
            return None if held is None else ShardView(held.position, list(held.snapshot.items()))

    def cursor(self, name: str) -> dict[Partition, int]:
        """Return a consumer's position: partition → next offset."""
        with self._lock:
            return dict(self._cursors.get(name, {}))

    def move_cursor(self, name: str, positions: Mapping[Partition, int]) -> None:
        """Store a consumer's next offsets in some partitions."""
        with self._lock:
            self._cursors.setdefault(name, {}).update(positions)

    def wait(self, timeout: float, partitions: Collection[Partition] = ()) -> Collection[Partition]:
        """Return as soon as something was written since this thread's last call, after `timeout` seconds at the latest."""
        with self._lock:
            seen = getattr(self._seen, "written", 0)
            self._changed.wait_for(lambda: self._written != seen, timeout)
            self._seen.written = self._written
        return partitions

    def records_of(self, key: str, topics: Sequence[Topic]) -> Iterator[Record]:
        """Yield all records with this key on some topics, in commit order."""
        return (record for record in self.scan(topics) if record.message.key == key)

    def scan(
        self, topics: Sequence[Topic], types: Collection[str] | None = None, start: Mapping[Partition, int] | None = None
    ) -> Iterator[Record]:
        """Yield the records of some topics in commit order, up to what is committed when the iteration begins."""
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
        """Do nothing: there is nothing to release."""

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
        # As `new_message` does.
        records.append(tuple.__new__(Record, (partition, len(records), message, shard, shardsequence, basis, 0, size)))


class MemoryShard:
    """The right to process one shard of a `MemoryLog`."""

    def __init__(self, log: MemoryLog, shard: ShardId, held: _Shard) -> None:
        self._log = log
        self._shard = shard
        self._held = held
        self._epoch = held.epoch
        self._closed = False

    @property
    def position(self) -> Position:
        """What is committed, by this holder or the ones before it."""
        return self._held.position

    def snapshot(self) -> Iterator[tuple[str, bytes]]:
        """Yield every snapshot record of the shard as of `position`."""
        with self._log._lock:  # noqa: SLF001  the two classes are one thing
            return iter(list(self._held.snapshot.items()))

    def commit(self, commit: Commit) -> Position:
        """Write a transaction and return the new position.

        Raises:
            FencedError: another holder has opened the shard; nothing was written.
            RecordTooLargeError: an output is larger than the log takes; nothing was written.
        """
        log, held = self._log, self._held
        with log._lock:  # noqa: SLF001  the two classes are one thing
            if self._closed:
                raise LogError(f"shard {self._shard} was given back; open it again")
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

    marks_are_free: Final = False  # nothing here outlives a process

    def mark(self, text: str) -> None:
        """Write a mark, outside of all transactions."""
        self._held.mark = text

    def marked(self) -> str:
        """Return the last mark of an earlier holder."""
        return self._held.mark

    def close(self) -> None:
        """Give the right back."""
        self._closed = True
