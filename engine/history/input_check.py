"""One pass over a log's inputs: checks that each can be decoded, and counts them per shard."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from engine.events import Topic, decode
from engine.events.errors import EventError
from engine.history.dead_letters import dead_lettered
from engine.history.readable_records import Damage, readable_records
from engine.log.port import Partition, Searchable, Vector

_NAMED: Final = 20
"""Maximum number of faults listed per shard; the rest is counted."""


class InputCheck:
    """Offsets and faults of the records of some input topics.

    Args:
        log: log to read.
        topics: input topics.

    Raises:
        LogDamagedError: records are damaged and it is unknown which.
    """

    def __init__(self, log: Searchable, topics: Sequence[Topic]) -> None:
        self._offsets: dict[Partition, array[int]] = {}
        """Offsets of all readable records, 8 bytes each."""
        self._damaged: dict[Partition, int] = {}
        """Offset of the first damaged record."""
        self._faults: dict[Partition, list[tuple[int, str]]] = {}
        letters = {topic: dead_lettered(log, topic) for topic in topics}
        for record in readable_records(log, topics):
            partition, offset = record.partition, record.offset
            if isinstance(record, Damage):
                self._damaged.setdefault(partition, offset)
                self._fault(partition, offset, record.reason)
                continue
            offsets = self._offsets.setdefault(partition, array("q"))
            if offsets and offset <= offsets[-1]:
                self._fault(partition, offset, f"its offset does not exceed the one before it, {offsets[-1]}")
            offsets.append(offset)
            try:
                decode(record.message)
            except EventError as error:
                if (partition.number, offset) not in letters[partition.topic]:
                    self._fault(partition, offset, f"cannot be decoded and has no dead letter: {error}")

    def _fault(self, partition: Partition, offset: int, why: str) -> None:
        self._faults.setdefault(partition, []).append((offset, why))

    def taken(self, inputs: Sequence[Partition], vector: Vector) -> int | None:
        """Return the number of records that a shard has processed; `None` if some were deleted by retention or are damaged."""
        count = 0
        for partition, end in zip(inputs, vector, strict=True):
            offsets = self._offsets.get(partition, array("q"))
            if end and (not offsets or offsets[0] or self._damaged.get(partition, end) < end):
                return None
            count += bisect_left(offsets, end)
        return count

    def faults(self, inputs: Sequence[Partition], vector: Vector) -> list[str]:
        """Return the faults of the records that a shard has processed."""
        found = [
            f"{partition.topic}/{partition.number} at {offset}: {why}"
            for partition, end in zip(inputs, vector, strict=True)
            for offset, why in self._faults.get(partition, ())
            if offset < end
        ]
        return [*found[:_NAMED], *([f"{len(found) - _NAMED:,} more"] if len(found) > _NAMED else [])]
