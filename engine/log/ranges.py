"""Iteration over the records between two offsets, and the sort key that merges partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Final

from engine.log.port import Log, Partition, Record

_READ: Final = 500

RECORDED: Final[Callable[[Record], int]] = attrgetter("message.recordedtime")
"""Recorded time of a record's message (microseconds), the key by which partitions are merged."""


def records_between(log: Log, partition: Partition, offset: int, end: int, batch: int = _READ) -> Iterator[Record]:
    """Yield the records of a partition at offsets from `offset` up to, not including, `end`; offsets may have gaps.

    Args:
        log: log to read.
        partition: partition to read.
        offset: first offset.
        end: end offset, exclusive.
        batch: maximum number of records per read.

    Raises:
        LogError: the log cannot be read.
    """
    while offset < end and (found := log.read(partition, offset, min(batch, end - offset))):
        yield from (record for record in found if record.offset < end)
        offset = found[-1].offset + 1
