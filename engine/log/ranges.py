"""Records of a partition between two offsets, and how those of several partitions are put in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Final

from engine.log.port import Log, Partition, Record

__all__ = ["RECORDED", "records_between"]

_READ: Final = 500

RECORDED: Final[Callable[[Record], int]] = attrgetter("message.recordedtime")
"""When a record's message was recorded (microseconds): a key to merge partitions by."""


def records_between(log: Log, partition: Partition, offset: int, end: int, batch: int = _READ) -> Iterator[Record]:
    """Yield the records of a partition from an offset up to before another; offsets may have gaps.

    Args:
        log: the log.
        partition: the partition.
        offset: of the first record.
        end: offset before which the last one lies.
        batch: records per read.

    Raises:
        LogError: the log cannot be read.
    """
    while offset < end and (found := log.read(partition, offset, min(batch, end - offset))):
        yield from (record for record in found if record.offset < end)
        offset = found[-1].offset + 1
