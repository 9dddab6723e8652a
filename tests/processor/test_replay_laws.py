"""Laws of the processor: replay from zero = snapshot and tail = live; batches, crashes and logs change no output."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from itertools import chain, cycle
from pathlib import Path
from typing import Any

import lifecycle_inputs
import pytest
from counting_stage import CountingStage, Shard, inputs, node, scripted
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.events import Event, Message, Topic, decode, encode
from engine.events.inputs import NodeDeleted, NodeObserved
from engine.events.outcomes import Accounted
from engine.lifecycle import job_pages, pods
from engine.lifecycle.stage import LifecycleStage
from engine.lifecycle.state import ShardState
from engine.log.memory import MemoryLog
from engine.log.port import Partition
from engine.log.sqlite import SqliteLog
from engine.processor import processor, recovery, snapshots
from engine.processor.processor import Processor
from engine.processor.snapshots import state_hash

AnyLog = MemoryLog | SqliteLog
Inputs = Sequence[tuple[Topic, Message]]

steps = st.lists(st.tuples(st.integers(0, 15), st.integers(0, 30), st.integers(0, 9)), max_size=60)
splits = st.lists(st.integers(1, 12), min_size=1, max_size=8)


class Reversioned(CountingStage):
    """Cannot read the snapshots of the other one, so it folds everything."""

    state_version = 2


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every boundary of reading, marking and writing occur within a few inputs."""
    monkeypatch.setattr(recovery, "_READ", 4)
    monkeypatch.setattr(snapshots, "_MARK_EVERY", 3)
    monkeypatch.setattr(snapshots, "_CYCLE_BYTES", 300)
    monkeypatch.setattr(processor, "OUTPUT_LIMIT", 25)
    monkeypatch.setattr(pods, "PODS", 1)
    monkeypatch.setattr(job_pages, "SIZES", dict.fromkeys(job_pages.SIZES, 2))


def fill(log: AnyLog, given_inputs: Inputs) -> None:
    for topic, message in given_inputs:
        log.append(topic, [message])


def opened(log: AnyLog, stage: CountingStage | None = None, *, batch: int = 500, every: int = 20) -> Processor[Shard]:
    processor = Processor(log, stage or CountingStage(), batch=batch, snapshot_every=every)
    processor.open()
    return processor


def events(log: AnyLog) -> list[Message]:
    """Return everything written, without what depends on how inputs fall into commits."""
    topics: list[Topic] = ["job-events", "dead-letters"]
    return [record.message for record in log.scan(topics) if record.message.type != Accounted.TYPE]


def run_with_crashes(log: AnyLog, splits: Sequence[int], every: int) -> Processor[Shard]:
    """Process everything; after each number of steps, forget the processor as a crash would and open another one."""
    lives: Iterator[int] = cycle(splits)
    while True:
        life = next(lives)
        processor = opened(log, batch=life, every=every)
        for _ in range(life):
            if not processor.step() and not processor.fire_due(processor.horizon):
                return processor
            check(processor)


def check(processor: Processor[Shard]) -> None:
    """Every input committed has one outcome."""
    assert processor.accounts.balanced
    assert processor.accounts.received == sum(processor.position.vector)


@settings(max_examples=300, deadline=None)
@given(steps, splits, st.integers(1, 100))
def test_crashes_and_batches_change_no_event(given_steps: list[tuple[int, int, int]], lives: list[int], every: int) -> None:
    undisturbed, disturbed = MemoryLog(), MemoryLog()
    for log in (undisturbed, disturbed):
        fill(log, scripted(given_steps))
    whole = opened(undisturbed)
    whole.run_until_quiet()
    last = run_with_crashes(disturbed, lives, every)
    assert events(disturbed) == events(undisturbed)
    assert state_hash(last.stage, last.state) == state_hash(whole.stage, whole.state)
    assert last.accounts.outcomes == whole.accounts.outcomes


@settings(max_examples=300, deadline=None)
@given(steps, splits, st.integers(1, 100), st.integers(0, 40))
def test_replay_from_zero_is_snapshot_and_tail_is_live(
    given_steps: list[tuple[int, int, int]], batches: list[int], every: int, stop: int
) -> None:
    log = MemoryLog()
    fill(log, scripted(given_steps))
    live = opened(log, batch=batches[0], every=every)
    for _ in range(stop):
        if not live.step():
            break
        check(live)
    with_snapshot, from_zero = opened(log), opened(log, Reversioned())
    hashes = {state_hash(processor.stage, processor.state) for processor in (live, with_snapshot, from_zero)}
    assert len(hashes) == 1
    assert live.accounts.outcomes == with_snapshot.accounts.outcomes == from_zero.accounts.outcomes
    assert with_snapshot.position == from_zero.position
    assert with_snapshot.timer_due == from_zero.timer_due == live.timer_due


@settings(max_examples=60, deadline=None)
@given(steps, splits)
def test_inputs_appended_in_between_are_taken_once(given_steps: list[tuple[int, int, int]], cuts: list[int]) -> None:
    """Fed a few at a time, with a crash after each feeding, every input has exactly one outcome and nothing is lost."""
    log = MemoryLog()
    waiting = scripted(given_steps)
    for cut in chain(cuts, [len(waiting)]):
        fill(log, waiting[:cut])
        waiting = waiting[cut:]
        processor = opened(log, batch=3)
        processor.run_until_quiet()
        check(processor)
    assert processor.accounts.received == len(scripted(given_steps))
    fresh = opened(log, Reversioned())
    assert state_hash(fresh.stage, fresh.state) == state_hash(processor.stage, processor.state)


@settings(max_examples=15, deadline=None)
@given(steps, splits)
def test_every_log_holds_the_same_bytes(given_steps: list[tuple[int, int, int]], lives: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file, memory = SqliteLog(Path(folder) / "lahar.db"), MemoryLog()
        for log in (file, memory):
            fill(log, scripted(given_steps))
            run_with_crashes(log, lives, 10)
        assert events(file) == events(memory)
        file.close()


@pytest.mark.parametrize("splits", [(1, 7), (5, 3, 2), (9,), (2, 30)])
def test_the_laws_hold_for_the_lifecycle_stage(splits: tuple[int, ...]) -> None:
    """Under crashes and any batches: the same events, the same state, the same accounts; and replay from zero is live."""
    stage = LifecycleStage()
    undisturbed, disturbed = MemoryLog(), MemoryLog()
    for log in (undisturbed, disturbed):
        fill(log, lifecycle_inputs.inputs(40))
    whole: Processor[ShardState] = Processor(undisturbed, stage)
    whole.open()
    whole.run_until_quiet()
    lives = cycle(splits)
    done = False
    while not done:
        life = next(lives)
        processor = Processor(disturbed, stage, batch=life, snapshot_every=100)
        processor.open()
        for _ in range(life):
            if not processor.step() and not processor.fire_due(processor.horizon):
                done = True
                break
            assert processor.accounts.balanced
    assert events(disturbed) == events(undisturbed)
    next(iter(disturbed.shards.values())).snapshot.clear()
    from_zero: Processor[ShardState] = Processor(disturbed, stage)
    from_zero.open()
    hashes = {state_hash(stage, found.state) for found in (whole, processor, from_zero)}
    assert len(hashes) == 1
    assert processor.accounts.outcomes == whole.accounts.outcomes


@settings(max_examples=100, deadline=None)
@given(steps, st.integers(100_000, 102_000), st.integers(0, 60))
def test_an_overtaking_cluster_fact_changes_no_event_about_others(
    given_steps: list[tuple[int, int, int]], at: int, place: int
) -> None:
    """Only timers that were not due before may fire behind the last input, by the time of the fact."""
    undisturbed, disturbed = MemoryLog(), MemoryLog()
    script = scripted(given_steps)
    fill(undisturbed, script)
    fill(disturbed, [*script[:place], ("cluster", node("elsewhere", 1, 0, at=at)), *script[place:]])
    for log in (undisturbed, disturbed):
        opened(log).run_until_quiet()
    before = events(undisturbed)
    assert events(disturbed)[: len(before)] == before


@pytest.mark.parametrize(
    "fact", [NodeObserved("elsewhere"), NodeObserved("node1", ready="Unknown"), NodeObserved("node1"), NodeDeleted("node1")]
)
def test_a_later_cluster_fact_changes_no_earlier_lifecycle_event(fact: NodeObserved | NodeDeleted) -> None:
    undisturbed, disturbed = MemoryLog(), MemoryLog()
    script = lifecycle_inputs.inputs(40)
    late = max(message.recordedtime for _, message in script) + 86_400_000_000
    fill(undisturbed, script)
    fill(disturbed, [*script, ("cluster", encode(Event("x", "test", fact.TYPE, fact.name, late, late, 1, "", "", "c1", fact)))])
    for log in (undisturbed, disturbed):
        processor: Processor[ShardState] = Processor(log, LifecycleStage())
        processor.open()
        processor.run_until_quiet()
    before = events(undisturbed)
    assert events(disturbed)[: len(before)] == before
    assert len(events(disturbed)) > len(before), "a day later timers are due"


def test_a_fact_that_waits_for_its_turn_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    log = MemoryLog()
    script = lifecycle_inputs.inputs(40)
    late = max(message.recordedtime for _, message in script) + 1
    deleted = NodeDeleted("node1")
    fill(log, [*script, ("cluster", encode(Event("x", "test", deleted.TYPE, "node1", late, late, 1, "", "", "c1", deleted)))])
    decoded: list[str] = []

    def decoding(message: Message) -> Event[Any]:
        decoded.append(message.id)
        return decode(message)

    monkeypatch.setattr(processor, "decode", decoding)
    shard: Processor[ShardState] = Processor(log, LifecycleStage())
    shard.open()
    shard.run_until_quiet()
    assert decoded.count("x") == 1


def test_a_long_run_leaves_a_complete_snapshot_and_a_short_tail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "_CYCLE_BYTES", 1 << 20)
    log = MemoryLog()
    fill(log, inputs(2_000))
    processor = opened(log, batch=50, every=200)
    lags = []
    while processor.step():
        lags.append(sum(processor.position.vector) - sum(processor.snapshot_low.vector))
    assert max(lags) < 2 * 200
    processor.run_until_quiet()
    assert (processor.snapshot_dirty, processor.snapshot_low) == (0, processor.position)


def test_a_snapshot_that_does_not_match_its_hash_is_not_used(caplog: pytest.LogCaptureFixture) -> None:
    log = MemoryLog()
    fill(log, inputs(300))
    live = opened(log)
    live.run_until_quiet()
    stored = next(iter(log.shards.values())).snapshot
    name = next(subject for subject in stored if subject.startswith("key"))
    stored[name] = stored[name][:4] + b"[999, 1, [], [], []]"
    again = opened(log)
    assert "reading all of its history" in caplog.text
    assert state_hash(again.stage, again.state) == state_hash(live.stage, live.state)
    again.run_until_quiet()
    caplog.clear()
    assert state_hash(again.stage, opened(log).state) == state_hash(live.stage, live.state)
    assert caplog.text == ""


def test_the_snapshot_of_another_version_is_replaced_bit_by_bit() -> None:
    log = MemoryLog()
    fill(log, inputs(300))
    opened(log).run_until_quiet()
    for stage in (Reversioned(), CountingStage(), Reversioned()):
        processor = opened(log, stage)
        processor.step()
        crashed = opened(log, stage)
        assert state_hash(stage, crashed.state) == state_hash(stage, processor.state)
        crashed.run_until_quiet()
    assert crashed.snapshot_dirty == 0
    assert set(dict(log.open(crashed.shard, [Partition(topic, 0) for topic, _ in crashed.stage.inputs]).snapshot())) == {
        *(subject for subject in crashed.stage.records(crashed.state) if crashed.stage.dump(crashed.state, subject) is not None),
        "_manifest",
        "_accounts",
    }
