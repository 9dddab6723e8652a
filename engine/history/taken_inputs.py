"""The inputs of a shard, taken again as far as its outputs show that it had taken them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from engine.events import Data, Event, decode
from engine.events.outcomes import DeadLettered
from engine.log.port import SearchableLog, ShardId
from engine.log.ranges import records_between
from engine.processor.partitions import input_partitions
from engine.processor.stage import Stage


class TakenInputs:
    """Reads a shard's inputs partition by partition; those that it dead-lettered are left out."""

    def __init__(self, log: SearchableLog, stage: Stage[Any], number: int, absorb: Callable[[Event[Data]], object]) -> None:
        """Read nothing yet.

        Args:
            log: has the inputs.
            stage: the stage.
            number: number of the shard, from 0.
            absorb: called with each input.
        """
        self._log = log
        self._absorb = absorb
        self._partitions = list(input_partitions(log, stage, number))
        self._offsets = [0] * len(self._partitions)
        shard = str(ShardId(stage.name, number))
        letters = (decode(record.message).data for record in log.scan(("dead-letters",)) if record.shard == shard)
        self._dead = {(data.topic, data.partition, data.offset) for data in letters if isinstance(data, DeadLettered)}

    @property
    def are_all(self) -> bool:
        """Whether no input is left to take."""
        return not any(
            (*partition, record.offset) not in self._dead
            for partition, offset in zip(self._partitions, self._offsets, strict=True)
            for record in self._log.read(partition, offset, 500)
        )

    def up_to(self, vector: Iterable[int]) -> None:
        """Take the inputs before these offsets, one for each partition, that were not taken yet.

        Raises:
            LogError: they cannot be read.
        """
        for place, end in enumerate(vector):
            partition = self._partitions[place]
            for record in records_between(self._log, partition, self._offsets[place], end):
                if (*partition, record.offset) not in self._dead:
                    self._absorb(decode(record.message, bounded=False))
            self._offsets[place] = max(end, self._offsets[place])
