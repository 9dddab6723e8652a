"""Merged reads of several partitions: in append order, causes before effects.

Each broker stamps appends with its own clock, so times alone may put an output before the input that caused it, or reorder one
transaction's outputs on several topics. A record's predecessors (by its shard's sequence numbers and its basis) take precedence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import Final, NamedTuple

from engine.events.vocabulary import INPUT_TOPICS
from engine.log.errors import LogDamagedError
from engine.log.port import Partition, Record
from streams.client.record_batches import RawRecord
from streams.position import Stored
from streams.reader import Reader, record_of

Wanted = Callable[[RawRecord], bool]


class Placed(NamedTuple):
    """A record with its sort key."""

    time: int
    """Append time (milliseconds), never less than that of earlier records in its partition."""
    follows: bool
    """True if a stage wrote it: within one millisecond, inputs come before outputs."""
    record: Record


def scan(
    reader: Reader,
    partitions: Sequence[Partition],
    wanted: Wanted | None,
    start: Mapping[Partition, int],
    positions: Callable[[], Mapping[str, Stored]],
) -> Iterator[Record]:
    """Yield the records of some partitions, up to the readable end at the first iteration.

    If several topics of stages are read, each shard's outputs end with a complete transaction.

    Args:
        reader: reader of the log.
        partitions: partitions to read.
        wanted: filter for records, called before they are decoded; `None`: all.
        start: first offset by partition; a partition without an entry is read from its beginning.
        positions: returns the shards' positions by name, once all outputs up to them are readable; shards without one are read as
            far as possible.
    """
    # The ends of outputs are fetched first, so that their inputs are below the ends of inputs.
    inputs = [partition for partition in partitions if partition.topic in INPUT_TOPICS]
    outputs = [partition for partition in partitions if partition.topic not in INPUT_TOPICS]
    shards: Mapping[str, Stored] = {}
    if outputs and len({partition.topic for partition in partitions}) > 1:
        shards = positions()
    ends = dict(zip(outputs, reader.ends(outputs), strict=True)) if outputs else {}
    ends |= zip(inputs, reader.ends(inputs), strict=True) if inputs else ()
    runs = {partition: _run(reader, partition, start.get(partition, 0), ends[partition], wanted) for partition in partitions}
    return merged(runs, shards)


def _run(reader: Reader, partition: Partition, start: int, end: int, wanted: Wanted | None) -> Iterator[Placed]:
    """Yield the records of a partition with their sort keys."""
    latest = 0
    follows = partition.topic not in INPUT_TOPICS
    for chunk in reader.chunks(partition, start, end):
        for raw in chunk:
            # A broker's clock may be set back; the order within a partition is kept.
            latest = max(latest, raw.timestamp)
            if wanted is None or wanted(raw):
                yield Placed(latest, follows, record_of(partition, raw))


def merged(runs: Mapping[Partition, Iterator[Placed]], shards: Mapping[str, Stored]) -> Iterator[Record]:
    """Yield the records of several partitions by time, causes first.

    Each partition and each shard keeps its order, and an output comes after all inputs in its basis.

    Args:
        runs: records of each partition.
        shards: positions of shards by name; their later outputs are left out.
    """
    merge = _Merge(runs, shards)
    while (partition := merge.earliest()) is not None:
        before: list[Partition] = [partition]
        while before:
            cause = merge.cause_of(before[-1])
            # Records of other programs with Lahar's metadata may form a cycle.
            if cause is None or cause in before:
                record = merge.take(before.pop())
                if record is not None:
                    yield record
            else:
                before.append(cause)


class _Merge:
    """Next record of each partition."""

    def __init__(self, runs: Mapping[Partition, Iterator[Placed]], shards: Mapping[str, Stored]) -> None:
        self._runs: Final = runs
        self._shards: Final = shards
        self._heads: dict[Partition, Placed] = {}
        self._by_shard: dict[str, dict[Partition, int]] = {}
        """Shard → partition → sequence number, of the next records."""
        self._queue: list[tuple[int, bool, int, int]] = []
        """Sort keys (time, follows, index of the partition, offset) of the next records, and of records taken early as causes."""
        self._partitions: Final = list(runs)
        self._places: Final = {partition: place for place, partition in enumerate(runs)}
        self._damage: LogDamagedError | None = None
        """Error to raise once all earlier records of its partition have been taken."""
        for partition in runs:
            self._advance(partition)

    def earliest(self) -> Partition | None:
        """Return the partition with the earliest next record; `None` if there is none.

        Raises:
            LogDamagedError: the next record of a partition cannot be read.
        """
        if self._damage is not None:
            raise self._damage
        while self._queue:
            _, _, place, offset = self._queue[0]
            partition = self._partitions[place]
            head = self._heads.get(partition)
            if head is not None and head.record.offset == offset:
                return partition
            heappop(self._queue)
        return None

    def cause_of(self, partition: Partition) -> Partition | None:
        """Return a partition whose next record must come before this one's; `None` if there is none."""
        record = self._heads[partition].record
        if not record.shard:
            return None
        others = self._by_shard[record.shard]
        if len(others) > 1:
            first = min(others, key=others.__getitem__)
            if others[first] < record.shardsequence:
                return first
        stored = self._shards.get(record.shard)
        if stored is not None:
            for given, end in zip(stored.inputs, record.basis, strict=False):  # inputs may have been added since
                head = self._heads.get(given)
                if head is not None and head.record.offset < end:
                    return given
        return None

    def take(self, partition: Partition) -> Record | None:
        """Return and consume the next record of a partition; `None` if it is left out."""
        record = self._heads.pop(partition).record
        if record.shard:
            del self._by_shard[record.shard][partition]
        self._advance(partition)
        stored = self._shards.get(record.shard)
        return record if stored is None or record.shardsequence <= stored.position.shardsequence else None

    def _advance(self, partition: Partition) -> None:
        try:
            head = next(self._runs[partition], None)
        except LogDamagedError as damage:
            self._damage = damage
            return
        if head is None:
            return
        record = head.record
        self._heads[partition] = head
        if record.shard:
            self._by_shard.setdefault(record.shard, {})[partition] = record.shardsequence
        heappush(self._queue, (head.time, head.follows, self._places[partition], record.offset))
