"""The inputs of a log, gone through once: can each be read, and what became of it?"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from engine.events import Topic, decode
from engine.events.errors import EventError
from engine.history.letters import set_aside
from engine.history.readable_records import Damage, readable_records
from engine.log.port import Partition, Searchable, Vector

__all__ = ["Census"]

_NAMED: Final = 20
"""Faults of a shard that are named."""


class Census:
    """What stands on some input topics.

    Args:
        log: any log; it is only read.
        topics: the topics.

    Raises:
        LogDamagedError: more than single records cannot be read.
    """

    def __init__(self, log: Searchable, topics: Sequence[Topic]) -> None:
        self._offsets: dict[Partition, array[int]] = {}
        """Of all records that can be read, 8 bytes each."""
        self._damaged: dict[Partition, int] = {}
        """The first one that cannot be read."""
        self._faults: dict[Partition, list[tuple[int, str]]] = {}
        letters = {topic: set_aside(log, topic) for topic in topics}
        for record in readable_records(log, topics):
            partition, offset = record.partition, record.offset
            if isinstance(record, Damage):
                self._damaged.setdefault(partition, offset)
                self._fault(partition, offset, record.reason)
                continue
            offsets = self._offsets.setdefault(partition, array("q"))
            if offsets and offset <= offsets[-1]:
                self._fault(partition, offset, f"it stands behind {offsets[-1]}")
            offsets.append(offset)
            try:
                decode(record.message)
            except EventError as error:
                if (partition.number, offset) not in letters[partition.topic]:
                    self._fault(partition, offset, f"it cannot be decoded and is no dead letter: {error}")

    def _fault(self, partition: Partition, offset: int, why: str) -> None:
        self._faults.setdefault(partition, []).append((offset, why))

    def taken(self, inputs: Sequence[Partition], vector: Vector) -> int | None:
        """Return how many records a shard has taken; `None` if nobody can say, as some are gone (retention) or damaged."""
        count = 0
        for partition, end in zip(inputs, vector, strict=True):
            offsets = self._offsets.get(partition, array("q"))
            if end and (not offsets or offsets[0] or self._damaged.get(partition, end) < end):
                return None
            count += bisect_left(offsets, end)
        return count

    def faults(self, inputs: Sequence[Partition], vector: Vector) -> list[str]:
        """Return what is wrong with the records that a shard has taken."""
        found = [
            f"{partition.topic}/{partition.number} at {offset}: {why}"
            for partition, end in zip(inputs, vector, strict=True)
            for offset, why in self._faults.get(partition, ())
            if offset < end
        ]
        return [*found[:_NAMED], *([f"{len(found) - _NAMED:,} more"] if len(found) > _NAMED else [])]
