"""Exact records of a snapshot: what is applied to one subject may depend on them, at whatever moments the others were written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from counting_stage import CountingStage, Shard, custom, node
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.events import Event
from engine.log.memory import MemoryLog
from engine.processor import recovery, snapshots
from engine.processor.processor import Processor
from engine.processor.recovery import recover
from engine.processor.snapshots import state_hash

RATE = "rate"
Step = tuple[str, int, bool]
"""Subject, amount, and whether the shard is idle behind it."""
steps = st.lists(
    st.tuples(st.sampled_from(("key0", "key1", "key2", "node1", RATE)), st.integers(0, 9), st.booleans()), min_size=1, max_size=40
)


class RatedStage(CountingStage):
    """Adds as much more as the last fact about a node says."""

    exact: tuple[str, ...] = (f"node {RATE}",)

    def evolve(self, state: Shard, event: Event[Any]) -> None:
        super().evolve(state, event)
        if event.subject in state.counters:
            state.counters[event.subject].total += state.nodes.get(RATE, 0)


class FuzzyStage(RatedStage):
    """Does not say so."""

    exact = ()


class Reversioned(RatedStage):
    """Cannot read the snapshots of the others."""

    state_version = 2


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every boundary of reading, marking and writing occur within a few inputs."""
    monkeypatch.setattr(recovery, "_READ", 2)
    monkeypatch.setattr(snapshots, "_MARK_EVERY", 3)
    monkeypatch.setattr(snapshots, "_CYCLE_BYTES", 1)


def opened(log: MemoryLog, stage: RatedStage, every: int = 1_000) -> Processor[Shard]:
    processor = Processor(log, stage, snapshot_every=every)
    processor.open()
    return processor


def must_recover_after_each_input(stage: RatedStage, given_steps: Sequence[Step], every: int) -> None:
    """Take inputs one by one, and recover after each commit."""
    log = MemoryLog()
    live = opened(log, stage, every)
    for number, (name, amount, idle) in enumerate(given_steps):
        if name.startswith("key"):
            log.append("pods", [custom(name, number, "add", at=number)])
        else:
            log.append("cluster", [node(name, number, amount, at=number)])
        for _ in range(1 + idle):
            live.step()
            must_be_recovered(log, live)
    live.run_until_quiet()
    assert (live.snapshot_dirty, live.snapshot_low) == (0, live.position)
    must_be_recovered(log, live)
    again = opened(log, Reversioned(), every)
    assert state_hash(stage, again.state) == state_hash(stage, live.state)
    while again.snapshot_dirty:
        again.step()
        must_be_recovered(log, again)


def must_be_recovered(log: MemoryLog, live: Processor[Shard]) -> None:
    found = recover(log, live.stage, live.shard, log.look(live.shard), 1)
    assert state_hash(live.stage, found.state) == state_hash(live.stage, live.state)


@settings(max_examples=100)
@given(steps, st.integers(1, 60))
def test_the_tail_finds_exact_records_as_they_were(given_steps: list[Step], every: int) -> None:
    must_recover_after_each_input(RatedStage(), given_steps, every)


LATER_RATE = [(RATE, 1, False), ("key0", 0, False), (RATE, 5, True)]
"""An idle commit writes the oldest subject: the rate, before the key that counted by an older one."""


def test_a_stage_that_does_not_name_its_exact_records_is_found() -> None:
    must_recover_after_each_input(RatedStage(), LATER_RATE, 1_000)
    with pytest.raises(AssertionError):
        must_recover_after_each_input(FuzzyStage(), LATER_RATE, 1_000)


def test_exact_records_count_as_dirty_until_they_are_written() -> None:
    log = MemoryLog()
    live = opened(log, RatedStage())
    log.append("pods", [custom("key0", 0, "add", at=0)])
    live.step()
    log.append("cluster", [node(RATE, 1, 7, at=1)])
    live.step()
    assert live.snapshot_dirty == 2
    live.run_until_quiet()
    assert live.snapshot_dirty == 0
    assert {name for name, _ in log.look(live.shard).records} >= {"key0", f"node {RATE}"}
