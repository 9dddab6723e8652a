"""A shard can be opened after any commit, also where a job was forgotten before all about it had reached the snapshot."""

from __future__ import annotations

import gzip
import random
from itertools import islice
from pathlib import Path

import pytest

from engine.events import Event, encode
from engine.events.inputs import CommandIssued
from engine.lifecycle.stage import LifecycleStage
from engine.log.memory import MemoryLog
from engine.log.port import ShardView
from engine.processor.processor import Processor
from engine.processor.recovery import recover
from engine.processor.snapshots import state_hash
from engine.simulation.traces import import_rows, read_trace, sample_trace


@pytest.mark.parametrize("snapshot_every", [40, 400, 4_000])
def test_snapshot_and_tail_are_what_the_history_says_after_every_commit(snapshot_every: int, tmp_path: Path) -> None:
    """The trace covers months, so jobs are forgotten before, while and after their records are written."""
    rows = tmp_path / "rows.csv"
    with sample_trace() as sample, gzip.open(sample, "rt") as source:
        rows.write_text("".join(islice(source, 161)))
    stage, log = LifecycleStage(), MemoryLog()
    import_rows(log, read_trace(rows, "philly-status"), "philly-status", "c1")
    processor = Processor(log, stage, batch=10, snapshot_every=snapshot_every)
    processor.open()
    gone = 0
    while processor.step():
        view = log.look(processor.shard)
        assert view is not None
        live = recover(log, stage, processor.shard, view, 1)
        history = recover(log, stage, processor.shard, ShardView(view.position, []), 1)
        assert state_hash(stage, live.state) == state_hash(stage, history.state)
        gone = len(history.state.forgotten)
    assert gone > 100


@pytest.mark.parametrize("snapshot_every", [3, 30, 3_000])
def test_ids_that_are_no_job_may_come_and_go_between_snapshots(snapshot_every: int) -> None:
    """Their sequences go on over what is forgotten of them, whatever of it had reached the snapshot."""
    dice = random.Random(7)  # noqa: S311  a workload, not a secret
    stage, log = LifecycleStage(forget_after=40, unknown_ids=3), MemoryLog()
    for number in range(160):
        job, at = f"x{dice.randrange(6)}", 1_000 + 7 * number
        command = CommandIssued("AbortJob")
        log.append("jobs", [encode(Event(f"c{number}", "test", command.TYPE, job, at, at, 0, job, "", "c1", command))])
    processor = Processor(log, stage, batch=2, snapshot_every=snapshot_every)
    processor.open()
    while processor.step():
        view = log.look(processor.shard)
        assert view is not None
        live = recover(log, stage, processor.shard, view, 1)
        history = recover(log, stage, processor.shard, ShardView(view.position, []), 1)
        assert state_hash(stage, live.state) == state_hash(stage, history.state)
    last: dict[str, int] = {}
    for record in log.scan(["job-events"]):
        subject, sequence = record.message.subject, record.message.sequence
        assert sequence == last.get(subject, 0) + 1
        last[subject] = sequence
    assert len(history.state.forgotten) > 50
