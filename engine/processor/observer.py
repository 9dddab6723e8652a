"""Processor observers (metrics, traces); they must not raise or block.

All calls about a shard come from the thread that works on it; several shards may call at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from engine.log.errors import LogError
from engine.log.port import Log, Partition, Position, ShardId

__all__ = ["Batch", "Observer", "Observers", "Watched"]


class Watched(Protocol):
    """What may be asked of a processor at any time, from any thread."""

    @property
    def shard(self) -> ShardId:
        """Which shard it runs."""

    @property
    def log(self) -> Log:
        """On which log."""

    @property
    def reads(self) -> Sequence[Partition]:
        """Its input partitions, in the order of its vector."""

    @property
    def writes(self) -> Sequence[Partition]:
        """Its output partitions."""

    @property
    def can_work(self) -> bool:
        """Whether it holds its shard and can read its inputs, as far as it has tried."""

    @property
    def moved(self) -> float | None:
        """When it last began a step (seconds of `time.monotonic`); `None` while it is being opened, which takes its time."""

    # What follows raises `LogError` while it does not hold its shard.

    @property
    def committed(self) -> dict[str, int]:
        """Inputs by outcome."""

    @property
    def received(self) -> int:
        """Inputs taken."""

    @property
    def position(self) -> Position:
        """How far it has come."""

    @property
    def waiting_since(self) -> Sequence[int | None]:
        """Append time of the oldest uncommitted input (microseconds), of each input partition."""

    @property
    def parked_jobs(self) -> int:
        """Jobs on which nothing is decided."""

    @property
    def state_subjects(self) -> int:
        """Subjects of its state."""

    @property
    def snapshot_low(self) -> Position:
        """How far its snapshot has come."""

    @property
    def snapshot_dirty(self) -> int:
        """Subjects that wait to be written to it."""

    @property
    def timer_due(self) -> int | None:
        """When its earliest timer fires (microseconds)."""


class Batch(NamedTuple):
    """A transaction that was committed, and what went before it."""

    shard: ShardId
    seconds: float
    """From the first input to the end of the commit."""
    commit_seconds: float
    """Of the commit alone."""
    inputs: int
    """Inputs taken."""
    timers: int
    """Timers fired. If neither was, only a part of the snapshot was written."""
    outputs: int
    """Events written."""
    position: Position
    """The shard's current position."""


class Observer(Protocol):
    """Processor observer: called after each step; must not raise or block."""

    def opening(self, processor: Watched) -> None:
        """A processor begins to open its shard, for the first time or again."""

    def opened(self, processor: Watched, seconds: float, events: int) -> None:
        """A shard is open.

        Args:
            processor: that runs it.
            seconds: that it took.
            events: folded on top of the snapshot.
        """

    def committed(self, batch: Batch) -> None:
        """A transaction is committed."""

    def commit_failed(self, shard: ShardId, error: LogError) -> None:
        """A transaction was aborted. The shard is closed, unless a record was too large: then its input becomes a dead letter."""

    def closed(self, shard: ShardId) -> None:
        """A shard was given back and is no more this process's business."""


class Observers:
    """Several observers, called in order."""

    def __init__(self, *observers: Observer) -> None:
        """Name them."""
        self._observers = observers

    def opening(self, processor: Watched) -> None:
        """Tell all."""
        for observer in self._observers:
            observer.opening(processor)

    def opened(self, processor: Watched, seconds: float, events: int) -> None:
        """Tell all."""
        for observer in self._observers:
            observer.opened(processor, seconds, events)

    def committed(self, batch: Batch) -> None:
        """Tell all."""
        for observer in self._observers:
            observer.committed(batch)

    def commit_failed(self, shard: ShardId, error: LogError) -> None:
        """Tell all."""
        for observer in self._observers:
            observer.commit_failed(shard, error)

    def closed(self, shard: ShardId) -> None:
        """Tell all."""
        for observer in self._observers:
            observer.closed(shard)
