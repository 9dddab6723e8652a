"""A shard can be opened after any commit, also where a job was forgotten before all about it had reached the snapshot."""

from __future__ import annotations

import gzip
from itertools import islice
from pathlib import Path

import pytest

from engine.lifecycle.stage import LifecycleStage
from engine.log.memory import MemoryLog
from engine.log.port import ShardView
from engine.log.processor import Processor
from engine.log.recovery import recover
from engine.log.snapshots import state_hash
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
