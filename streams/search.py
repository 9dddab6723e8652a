"""Reading many partitions as one, in the order in which brokers appended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import merge
from operator import itemgetter
from typing import Final

from engine.events.topics import INPUT_TOPICS
from engine.log.port import Partition, Record
from streams.reader import Reader, record_of
from streams.wire import RawRecord

__all__ = ["scan"]

_BY_TIME: Final = itemgetter(0)

Wanted = Callable[[RawRecord], bool]
Placed = tuple[tuple[int, bool], Record]


def scan(
    reader: Reader, partitions: Sequence[Partition], wanted: Wanted | None, start: Mapping[Partition, int]
) -> Iterator[Record]:
    """Yield the records of some partitions, up to what may be read when the iteration begins.

    Args:
        reader: over the log's connections.
        partitions: to be read.
        wanted: which records; `None`: all. It is asked before a record is decoded.
        start: first offset of each; a partition that is not named is read from its beginning.
    """
    # What follows from inputs is looked at first: then its inputs are below their ends for sure.
    inputs = [partition for partition in partitions if partition.topic in INPUT_TOPICS]
    outputs = [partition for partition in partitions if partition.topic not in INPUT_TOPICS]
    ends = dict(zip(outputs, reader.ends(outputs), strict=True)) if outputs else {}
    ends |= zip(inputs, reader.ends(inputs), strict=True) if inputs else ()
    runs = [_run(reader, partition, start.get(partition, 0), ends[partition], wanted) for partition in partitions]
    return (record for _, record in merge(*runs, key=_BY_TIME))


def _run(reader: Reader, partition: Partition, start: int, end: int, wanted: Wanted | None) -> Iterator[Placed]:
    """Yield the records of a partition with their place in commit order."""
    latest = 0
    # Of one millisecond, inputs come before what follows from them.
    follows = partition.topic not in INPUT_TOPICS
    for chunk in reader.chunks(partition, start, end):
        for raw in chunk:
            # A broker's clock may be set back; the order within a partition stays.
            latest = max(latest, raw.timestamp)
            if wanted is None or wanted(raw):
                yield (latest, follows), record_of(partition, raw)
