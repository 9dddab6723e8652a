"""Transactions of a shard's producer, driven step by step by a test."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from engine.log.port import Partition
from streams.shard import KafkaShard


def within(shard: KafkaShard, *work: Coroutine[Any, Any, Any]) -> None:
    """Run coroutines with the shard's own producer, as `commit` does."""
    for coroutine in work:
        shard.cluster.background.run(coroutine, shard.producer.owner)


def write_half(shard: KafkaShard, *partitions: Partition) -> None:
    """Begin a transaction, write a record to some partitions, and do not commit."""
    batches = shard.producer.batches()
    for partition in partitions:
        batches.add_state(shard.cluster.name(partition), b"half", b"half")
    within(shard, shard.producer.aiokafka.begin_transaction(), shard.producer.send_in_loop(batches))
