"""Processor observers (metrics, traces); they must not raise or block.

All calls about a shard come from the thread that works on it; several shards may call at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from engine.log.errors import LogError
from engine.log.port import Log, Partition, Position, ShardId
from engine.processor.stage import Figure


class Watched(Protocol):
    """State of a processor, readable at any time from any thread."""

    @property
    def shard(self) -> ShardId:
        """The shard that it runs."""

    @property
    def log(self) -> Log:
        """The log on which it runs."""

    @property
    def reads(self) -> Sequence[Partition]:
        """Its input partitions, in the order of its vector."""

    @property
    def writes(self) -> Sequence[Partition]:
        """Its output partitions."""

    @property
    def can_work(self) -> bool:
        """True if it holds its shard and its last read of inputs succeeded."""

    @property
    def moved(self) -> float | None:
        """Start of its last step (seconds of `time.monotonic`); `None` while its shard is being opened, which may take long."""

    # The members below raise `LogError` while the shard is not open.

    @property
    def committed(self) -> dict[str, int]:
        """Inputs by outcome."""

    @property
    def received(self) -> int:
        """Number of inputs processed."""

    @property
    def figures(self) -> Sequence[Figure]:
        """Counters of its stage."""

    @property
    def position(self) -> Position:
        """Its committed position."""

    @property
    def waiting_since(self) -> Sequence[int | None]:
        """Append time of the oldest uncommitted input of each input partition (microseconds)."""

    @property
    def parked_jobs(self) -> int:
        """Number of parked jobs."""

    @property
    def state_subjects(self) -> int:
        """Number of subjects in its state."""

    @property
    def snapshot_low(self) -> Position:
        """Position of its snapshot."""

    @property
    def snapshot_dirty(self) -> int:
        """Number of subjects to be written to the snapshot."""

    @property
    def timer_due(self) -> int | None:
        """Due time of its earliest timer (microseconds); `None`: no timer."""


class Batch(NamedTuple):
    """A committed transaction."""

    shard: ShardId
    seconds: float
    """From the first input to the end of the commit (seconds)."""
    commit_seconds: float
    """Duration of the commit alone (seconds)."""
    inputs: int
    """Number of inputs processed."""
    timers: int
    """Number of timers fired. Without inputs and timers, only a part of the snapshot was written."""
    outputs: int
    """Events written."""
    position: Position
    """The shard's current position."""


class Observer(Protocol):
    """Processor observer: called after each step; must not raise or block."""

    def opening(self, processor: Watched) -> None:
        """Called when a processor begins to open its shard, for the first time or again."""

    def opened(self, processor: Watched, seconds: float, events: int) -> None:
        """Called when a shard is open.

        Args:
            processor: processor of the shard.
            seconds: duration of the opening.
            events: number of events folded on top of the snapshot.
        """

    def committed(self, batch: Batch) -> None:
        """Called after a committed transaction."""

    def commit_failed(self, shard: ShardId, error: LogError) -> None:
        """Called after a failed commit. The shard is closed, unless a record was too large: its input becomes a dead letter."""

    def closed(self, shard: ShardId) -> None:
        """Called when a shard was closed; this process no longer runs it."""


class Observers:
    """Several observers, called in order."""

    def __init__(self, *observers: Observer) -> None:
        """Combine observers."""
        self._observers = observers

    def opening(self, processor: Watched) -> None:
        """Call all."""
        for observer in self._observers:
            observer.opening(processor)

    def opened(self, processor: Watched, seconds: float, events: int) -> None:
        """Call all."""
        for observer in self._observers:
            observer.opened(processor, seconds, events)

    def committed(self, batch: Batch) -> None:
        """Call all."""
        for observer in self._observers:
            observer.committed(batch)

    def commit_failed(self, shard: ShardId, error: LogError) -> None:
        """Call all."""
        for observer in self._observers:
            observer.commit_failed(shard, error)

    def closed(self, shard: ShardId) -> None:
        """Call all."""
        for observer in self._observers:
            observer.closed(shard)
