"""Status of a shard for the process that runs it: availability, position, counters."""

from __future__ import annotations

from collections.abc import Sequence
from operator import gt
from typing import Final, Generic, TypeVar

from engine.log.errors import LogError
from engine.log.port import Log, Partition, Position, ShardId
from engine.processor.accounts import Accounts
from engine.processor.partitions import input_partitions, output_partitions
from engine.processor.shard_logging import ShardLogger
from engine.processor.shard_run import ShardRun
from engine.processor.stage import Figure, Stage

S = TypeVar("S")


class ShardView(Generic[S]):
    """Read-only part of a processor. Counters and positions are as of the last commit.

    Unless documented otherwise, its members raise `LogError` while the shard is not open.
    """

    def __init__(self, log: Log, stage: Stage[S], number: int) -> None:
        """Configure the shard without reading the log.

        Args:
            log: log with inputs, outputs and snapshots.
            stage: stage to run.
            number: number of the shard, from 0.
        """
        self.shard: Final = ShardId(stage.name, number)
        self.stage: Final[Stage[S]] = stage
        self.log: Final = log
        self.reads: Final[Sequence[Partition]] = input_partitions(log, stage, number)
        self.writes: Final[Sequence[Partition]] = output_partitions(log, stage, number)
        self._opened: ShardRun[S] | None = None
        self._logger = ShardLogger(self.shard)

    @property
    def is_open(self) -> bool:
        """True if it holds its shard. After a log error it does not, and must be opened again.

        If only the read of inputs failed, it still holds the shard and can be stepped again.
        """
        return self._opened is not None

    @property
    def can_work(self) -> bool:
        """True if it holds its shard and its last read of inputs succeeded."""
        run = self._opened
        return run is not None and not run.inputs.out_of_reach

    @property
    def state(self) -> S:
        """The stage's state."""
        return self._run.state

    @property
    def accounts(self) -> Accounts:
        """Inputs by outcome."""
        return self._run.accounts

    @property
    def committed(self) -> dict[str, int]:
        """Inputs by outcome, as of the last commit."""
        return self._run.committed

    @property
    def received(self) -> int:
        """Number of inputs processed, as of the last commit; counted separately as a check of the sum of `committed`."""
        return self._run.received

    @property
    def figures(self) -> tuple[Figure, ...]:
        """Counters of the stage, as of the last commit; empty for a shard without an observer."""
        return self._run.figures

    @property
    def position(self) -> Position:
        """The committed position."""
        return self._run.held.position

    @property
    def waiting_since(self) -> Sequence[int | None]:
        """Append time of the oldest uncommitted input (microseconds), for each of `reads`."""
        run = self._run
        return run.inputs.oldest(run.held.position.vector)

    @property
    def parked_jobs(self) -> int:
        """Number of parked jobs, as of the last commit."""
        return self._logger.parked_jobs

    @property
    def state_subjects(self) -> int:
        """Number of subjects with a record in the snapshot, or one still to be written."""
        return self._run.snapshots.subjects

    @property
    def snapshot_low(self) -> Position:
        """Position of the snapshot: recovery folds the events after it."""
        return self._run.snapshots.low

    @property
    def snapshot_dirty(self) -> int:
        """Number of subjects whose snapshot record is older than their state."""
        return self._run.snapshots.dirty

    @property
    def timer_due(self) -> int | None:
        """Due time of the earliest timer (microseconds), as of the last commit; `None`: no timer."""
        return self._run.due

    @property
    def horizon(self) -> int:
        """Time by which timers fire while no input waits (microseconds).

        The latest of the shard's time, the time of the stage's next postponed work, and the recorded time of the last fact of the
        cluster that was processed early and so did not advance the shard's time.
        """
        run = self._run
        return max(run.now, self.stage.unfinished(run.state) or run.now, run.inputs.fact_recorded())

    def has_inputs(self) -> bool:
        """Return true if an input waits."""
        return any(map(gt, map(self.log.end, self.reads), self.position.vector))

    def lag(self) -> int:
        """Return the number of unprocessed offsets in the shard's input partitions."""
        taken = self.position.vector
        return sum(max(self.log.end(partition) - offset, 0) for partition, offset in zip(self.reads, taken, strict=True))

    @property
    def _run(self) -> ShardRun[S]:
        if self._opened is None:
            raise LogError(f"shard {self.shard} is not open; open its processor first")
        return self._opened
