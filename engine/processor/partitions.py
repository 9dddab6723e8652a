"""Input and output partitions of a stage's shards, derived from the stage's declaration.

A stage with *own* partitions has one shard per partition: shard p reads partition p of each input and writes to partition p,
where its subjects' keys belong. A stage with *all* partitions has one shard, which writes each event to the partition of the
event's key.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from engine.events import Topic
from engine.events.vocabulary import INPUT_TOPICS
from engine.log.port import Log, Partition
from engine.processor.stage import Reads, Stage


def sharded_by(stage: Stage[Any]) -> Topic | None:
    """Return the input topic with one shard per partition; `None`: the stage has one shard."""
    return next((topic for topic, partitions in stage.inputs if partitions == "own"), None)


def takes_inputs(stage: Stage[Any]) -> bool:
    """Return true if a stage has one shard per partition of a topic that producers write, not of another stage's outputs."""
    return sharded_by(stage) in INPUT_TOPICS


def single_shard(stage: Stage[Any]) -> bool:
    """Return true if a stage has one shard, regardless of the partition count."""
    return sharded_by(stage) is None


def shard_count(log: Log, stage: Stage[Any]) -> int:
    """Return the number of a stage's shards on a log."""
    topic = sharded_by(stage)
    return 1 if topic is None else log.partitions(topic)


def partition_count(log: Log) -> int:
    """Return the partition count of a log's partitioned topics."""
    return log.partitions("pods")


def input_partitions(log: Log, stage: Stage[Any], number: int) -> tuple[Partition, ...]:
    """Return the input partitions of a shard."""
    return read_partitions(log, stage.inputs, number)


def read_partitions(log: Log, inputs: Iterable[Reads], number: int) -> tuple[Partition, ...]:
    """Return the input partitions of a shard of a stage with these inputs."""
    return tuple(
        Partition(topic, found)
        for topic, partitions in inputs
        for found in ((number,) if partitions == "own" else range(log.partitions(topic)))
    )


def output_partitions(log: Log, stage: Stage[Any], number: int) -> tuple[Partition, ...]:
    """Return the partitions that a shard writes, dead letters included."""
    single = single_shard(stage)
    return tuple(
        Partition(topic, found)
        for topic in dict.fromkeys((*stage.outputs, "dead-letters"))
        for found in (range(log.partitions(topic)) if single else (number % log.partitions(topic),))
    )
