"""Status of a shard, read from the log without opening the shard."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from engine.events.times import format_time
from engine.log.port import Log, Partition, ShardId
from engine.log.shard_inputs import extended
from engine.processor.partitions import input_partitions
from engine.processor.recovery import recover
from engine.processor.snapshots import ACCOUNTS, MANIFEST
from engine.processor.stage import Stage


@dataclass(slots=True)
class ShardStatus:
    """One shard. Times are microseconds."""

    shard: str
    now: int = 0
    """The shard's time."""
    outputs: int = 0
    inputs: list[tuple[str, int, int]] = field(default_factory=list)
    """Name, next offset and end offset by input partition; equal offsets if no record waits."""
    received: int = 0
    """Number of inputs processed, each with one outcome."""
    outcomes: dict[str, int] = field(default_factory=dict)
    parked_jobs: int = 0
    dead_letters: int = 0
    timer_due: int | None = None
    snapshot_records: int = 0
    """Number of subjects in the snapshot."""
    snapshot_behind: int = 0
    """Number of outputs that recovery would fold on top of the snapshot."""
    snapshot_time: int = 0
    """The shard's time at the snapshot; 0: no snapshot that this release can read."""

    @property
    def lag(self) -> int:
        """Number of unprocessed offsets in its inputs."""
        return sum(max(end - taken, 0) for _, taken, end in self.inputs)

    def document(self) -> dict[str, Any]:
        """Return the status as JSON."""
        return {
            "shard": self.shard,
            "now": format_time(self.now) if self.now else None,
            "outputs": self.outputs,
            "lag": self.lag,
            "inputs": {name: {"taken": taken, "end": end} for name, taken, end in self.inputs},
            "received": self.received,
            "outcomes": self.outcomes,
            "parked_jobs": self.parked_jobs,
            "dead_letters": self.dead_letters,
            "timer_due": None if self.timer_due is None else format_time(self.timer_due),
            "snapshot_records": self.snapshot_records,
            "snapshot_behind": self.snapshot_behind,
            "snapshot_time": format_time(self.snapshot_time) if self.snapshot_time else None,
        }


def shard_status(log: Any, stage: Stage[Any], number: int) -> ShardStatus:  # noqa: ANN401 - an embedded log
    """Return the status of a shard.

    Args:
        log: an embedded log; it is only read.
        stage: the stage.
        number: number of the shard, from 0.

    Raises:
        LogError: the log cannot be read.
    """
    shard = ShardId(stage.name, number)
    partitions = input_partitions(log, stage, number)
    status = ShardStatus(str(shard))
    view = log.look(shard)
    taken = extended(view.position.vector if view is not None else (), len(partitions))
    status.inputs = [
        (f"{partition.topic}/{partition.number}", offset, _end(log, partition, offset))
        for partition, offset in zip(partitions, taken, strict=True)
    ]
    if view is None:
        return status
    recovered = recover(log, stage, shard, view, 1)
    status.now, status.outputs = view.position.now, view.position.shardsequence
    status.received, status.outcomes = recovered.accounts.received, dict(recovered.accounts.outcomes)
    status.dead_letters = status.outcomes.get("dead", 0)
    status.parked_jobs = sum(1 for _ in stage.parked(recovered.state))
    status.timer_due = stage.due(recovered.state)
    status.snapshot_records = sum(1 for subject, _ in view.snapshot() if subject not in {ACCOUNTS, MANIFEST})
    low = recovered.snapshots.low
    status.snapshot_behind, status.snapshot_time = view.position.shardsequence - low.shardsequence, low.now
    return status


def _end(log: Log, partition: Partition, taken: int) -> int:
    """Return the end of a partition's records: on Kafka a transaction's marker follows a stage's outputs."""
    end = log.end(partition)
    return end if end > taken and log.read(partition, taken, 1) else taken
