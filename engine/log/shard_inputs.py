"""The inputs that a shard was run on, compared with those that it is opened with."""

from __future__ import annotations

from collections.abc import Sequence

from engine.log.errors import LayoutError
from engine.log.port import Partition, Position, ShardId, Vector

__all__ = ["extended", "resume"]


def extended(vector: Vector, inputs: int) -> Vector:
    """Return a vector over so many inputs: what was not yet an input when it was written has been taken up to its beginning."""
    return vector + (0,) * (inputs - len(vector))


def resume(shard: ShardId, before: Sequence[Partition], now: Sequence[Partition], position: Position) -> Position:
    """Return where a shard stands on the inputs that it is opened with.

    A release may add inputs behind those that its stage has: the shard takes them from their beginning.

    Args:
        shard: the shard.
        before: the inputs that `position` is on.
        now: those that it is opened with.
        position: what is committed.

    Raises:
        LayoutError: it has taken some of other inputs.
    """
    if tuple(now[: len(before)]) == tuple(before):
        return position._replace(vector=extended(position.vector, len(now)))
    if any(position.vector) or position.shardsequence:
        raise LayoutError.of_inputs(shard, before, now)
    return Position((0,) * len(now))
