"""Replay of a shard's inputs, up to the offsets that its outputs show as processed."""

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
    """Replays a shard's inputs partition by partition, without those that it dead-lettered."""

    def __init__(self, log: SearchableLog, stage: Stage[Any], number: int, absorb: Callable[[Event[Data]], object]) -> None:
        """Start before the first input.

        Args:
            log: log with the inputs.
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
        """True if no input is left to replay."""
        return not any(
            (*partition, record.offset) not in self._dead
            for partition, offset in zip(self._partitions, self._offsets, strict=True)
            for record in self._log.read(partition, offset, 500)
        )

    def up_to(self, vector: Iterable[int]) -> None:
        """Replay further inputs, up to these offsets (exclusive), one offset per partition.

        Raises:
            LogError: the inputs cannot be read.
        """
        for place, end in enumerate(vector):
            partition = self._partitions[place]
            for record in records_between(self._log, partition, self._offsets[place], end):
                if (*partition, record.offset) not in self._dead:
                    self._absorb(decode(record.message, bounded=False))
            self._offsets[place] = max(end, self._offsets[place])
