"""Which partitions a shard of a stage takes and writes: they follow from what the stage declares.

A stage that takes *own* partitions has as many shards as its topics have partitions: shard p takes partition p of each, and
writes to partition p, where the keys of its subjects belong. A stage that takes *all* partitions of each of its inputs has one
shard, which writes each event to the partition that the event's key chooses.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from engine.events import Topic
from engine.log.port import Log, Partition
from engine.processor.stage import Reads, Stage

__all__ = ["input_partitions", "is_whole", "output_partitions", "read_partitions", "shard_count", "sharded_by", "width"]


def sharded_by(stage: Stage[Any]) -> Topic | None:
    """Return the topic whose partitions the shards of a stage share out; `None`: the stage has one shard."""
    return next((topic for topic, partitions in stage.inputs if partitions == "own"), None)


def is_whole(stage: Stage[Any]) -> bool:
    """Tell whether a stage has one shard a deployment."""
    return sharded_by(stage) is None


def shard_count(log: Log, stage: Stage[Any]) -> int:
    """Return how many shards a stage has on a log."""
    topic = sharded_by(stage)
    return 1 if topic is None else log.partitions(topic)


def width(log: Log) -> int:
    """Return how many partitions the topics of a log have that have several."""
    return log.partitions("pods")


def input_partitions(log: Log, stage: Stage[Any], number: int) -> tuple[Partition, ...]:
    """Return what a shard takes."""
    return read_partitions(log, stage.inputs, number)


def read_partitions(log: Log, inputs: Iterable[Reads], number: int) -> tuple[Partition, ...]:
    """Return what the shard of a number takes of a stage that declares some inputs."""
    return tuple(
        Partition(topic, found)
        for topic, partitions in inputs
        for found in ((number,) if partitions == "own" else range(log.partitions(topic)))
    )


def output_partitions(log: Log, stage: Stage[Any], number: int) -> tuple[Partition, ...]:
    """Return what a shard writes, dead letters included."""
    whole = is_whole(stage)
    return tuple(
        Partition(topic, found)
        for topic in dict.fromkeys((*stage.outputs, "dead-letters"))
        for found in (range(log.partitions(topic)) if whole else (number % log.partitions(topic),))
    )
