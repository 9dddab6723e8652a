"""What history reads of the inputs is what the shards took."""

from __future__ import annotations

import pytest

from engine.events import Event, encode
from engine.events.inputs import NodeObserved, PodObserved
from engine.history.reading import cluster_facts, history_of
from engine.lifecycle.stage import LifecycleStage
from engine.log.memory import MemoryLog
from engine.processor import shard_run as run
from engine.processor.processor import Processor

WIDE, NARROW = 1000, 150


class Renewed(LifecycleStage):
    """Does not read the snapshots of the other one."""

    state_version = LifecycleStage.state_version + 1


def opened(log: MemoryLog, stage: LifecycleStage) -> Processor:
    processor = Processor(log, stage)
    processor.open()
    return processor


def test_what_is_read_is_what_was_taken_whatever_the_bounds_were_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """An input that was taken under wider bounds counts, one that was set aside under narrower ones does not."""
    monkeypatch.setattr(run, "SMALL", 0)  # no real bound is as narrow as these
    log, long = MemoryLog(), "x" * NARROW
    for number, bound in enumerate((NARROW, WIDE, NARROW)):
        for data in (NodeObserved(f"n{number}", type=long), PodObserved(f"u{number}", f"j{number}", "p", "Running", 0, node=long)):
            monkeypatch.setattr(type(data), "LARGEST", bound)
            job = f"j{number}"
            log.append(data.TOPIC, [encode(Event(f"i{number}", "test", data.TYPE, job, number, number, 0, job, "", "c", data))])
        opened(log, LifecycleStage()).run_until_quiet()
    assert set(opened(log, Renewed()).state.facts.nodes) == {("c", "n1")}
    for bound in (NARROW, WIDE):
        monkeypatch.setattr(NodeObserved, "LARGEST", bound)
        assert [event.id for event in cluster_facts(log)] == ["i1"]
    assert list(history_of(log, "j1").inputs) == ["i1"]
