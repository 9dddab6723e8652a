"""Two stages on one log: the second takes the truth of all shards of the first, which takes what the second says."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lifecycle_inputs import inputs
from oracle import judge
from second_stage import SecondStage, State
from two_stages import BOTH, append

from engine.events import Event, decode
from engine.events.actions import ActionTaken
from engine.events.inputs import CommandIssued, CustomEventRaised
from engine.events.outcomes import CommandRefused
from engine.log.memory import MemoryLog
from engine.log.port import Log, Record
from engine.processor.partitions import input_partitions
from engine.processor.processor import Processor
from engine.processor.recovery import recover
from engine.processor.snapshots import state_hash
from engine.runtime.engine import Engine
from engine.runtime.settings import Settings


def engine(log: Log) -> Engine:
    return Engine.of(log, BOTH, Settings(log="memory:"))


def said(log: Any) -> list[Record]:
    """What the second stage has written for the first."""
    return [record for record in log.scan(["jobs"]) if record.shard == "scheduling/0"]


@pytest.mark.parametrize("partitions", [1, 4])
def test_two_stages_answer_each_other_until_nothing_is_left_to_say(partitions: int) -> None:
    """Each output follows from its inputs alone, and reaches the job that it is about; everything taken is accounted for."""
    log, parts = MemoryLog(partitions), inputs(60)
    both = engine(log)
    both.open()
    for start in range(0, len(parts), 100):
        append(log, parts[start : start + 100])
        both.run_until_quiet()
    assert both.lag() == 0
    for processor in both.processors:
        verdict = judge(log, processor.stage, processor.shard.number)
        assert verdict.differences == []
        assert (verdict.state, verdict.outcomes) == (state_hash(processor.stage, processor.state), processor.accounts.outcomes)
    told = said(log)
    assert {record.partition.number for record in told} == set(range(partitions))
    by_job: dict[str, list[int]] = {}
    for record in told:
        by_job.setdefault(record.message.subject, []).append(record.message.sequence)
    assert all(sequences == list(range(1, len(sequences) + 1)) for sequences in by_job.values())
    # The first stage has answered: what was asked for was done, or refused with a reason, and says by what it was caused.
    asked = {record.message.id: decode(record.message).data for record in told}
    answers = [decode(record.message) for record in log.scan(["job-events"]) if record.message.causationid in asked]
    assert {event.causationid for event in answers} == asked.keys()
    assert {type(data) for data in asked.values()} == {CommandIssued, CustomEventRaised}
    assert {ActionTaken, CommandRefused} <= {type(event.data) for event in answers}
    assert {event.id for event in answers}.isdisjoint(record.message.causationid for record in told)


@pytest.mark.parametrize("partitions", [1, 4])
@pytest.mark.parametrize("batch", [7, 60])
def test_recovery_gives_the_state_of_every_commit(partitions: int, batch: int) -> None:
    log = MemoryLog(partitions)
    append(log, inputs(16))
    processors = [
        Processor(log, stage, number, batch=batch, snapshot_every=150)
        for stage in BOTH
        for number in range(partitions if stage is BOTH[0] else 1)
    ]
    compared = 0
    for processor in processors:
        processor.open()
    while sum(map(_stepped, processors)):
        for processor in processors:
            must_be_recovered(log, processor)
            compared += 1
    assert compared > 10


def _stepped(processor: Processor[Any]) -> int:
    """Step once: the stages' commits interleave, so neither has ever taken all that the other has said."""
    return processor.step() or processor.fire_due(processor.horizon)


def must_be_recovered(log: Log, processor: Processor[Any]) -> None:
    """Compare the state with that by snapshot and tail, and with that by history alone."""
    view = log.look(processor.shard)
    assert view is not None
    for found in (view, type(view)(view.position, [])):
        recovered = recover(log, processor.stage, processor.shard, found, 1)
        assert state_hash(processor.stage, recovered.state) == state_hash(processor.stage, processor.state)
        assert recovered.accounts.outcomes == processor.accounts.outcomes


@given(data=st.data())
def test_what_is_absorbed_from_different_partitions_commutes(data: st.DataObject) -> None:
    """The state does not depend on which partition comes first: one may be behind another."""
    runs = [list(run) for run in truth()]
    state, other = State(), State()
    stage = SecondStage()
    for event in (event for run in runs for event in run):
        stage.absorb(other, event)
    places = [place for place, run in enumerate(runs) for _ in run]
    for place in data.draw(st.permutations(places)):
        stage.absorb(state, runs[place].pop(0))
    assert state_hash(stage, state) == state_hash(stage, other)
    assert state.ended == other.ended


@cache
def truth() -> list[list[Event[Any]]]:
    """Some of the events of each partition that the second stage takes."""
    log = MemoryLog(3)
    append(log, inputs(12))
    both = engine(log)
    both.run_until_quiet()
    partitions = input_partitions(log, BOTH[1], 0)
    return [[decode(record.message) for record in log.read(partition, 0, 60)] for partition in partitions]
