"""Comparison of a shard's stored inputs with the inputs that it is opened with."""

from __future__ import annotations

from collections.abc import Sequence

from engine.log.errors import LayoutError
from engine.log.port import Partition, Position, ShardId, Vector


def extended(vector: Vector, inputs: int) -> Vector:
    """Return a vector extended to `inputs` entries; added inputs begin at offset 0."""
    return vector + (0,) * (inputs - len(vector))


def resume(shard: ShardId, before: Sequence[Partition], now: Sequence[Partition], position: Position) -> Position:
    """Return the position at which a shard continues on the inputs that it is opened with.

    A release may add inputs behind a stage's earlier ones; the shard reads them from the beginning.

    Args:
        shard: shard to open.
        before: inputs of `position`.
        now: inputs that the shard is opened with.
        position: committed position.

    Raises:
        LayoutError: the shard has processed records of other inputs.
    """
    if tuple(now[: len(before)]) == tuple(before):
        return position._replace(vector=extended(position.vector, len(now)))
    if any(position.vector) or position.shardsequence:
        raise LayoutError.of_inputs(shard, before, now)
    return Position((0,) * len(now))
