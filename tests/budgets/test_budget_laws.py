"""What is said of budgets is what an independent sum of the records that stand says, whatever is corrected."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import cycle

import pytest
from budget_histories import Oracle, billed, billing, crossings, histories, interleaved, outputs, shard_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.budgets.stage import BudgetsStage
from engine.events import decode
from engine.log.memory import MemoryLog
from engine.log.port import Partition
from engine.processor import processor as processors
from engine.processor import recovery, snapshots
from engine.processor.recovery import recover

STAGE = BudgetsStage()
QUICK = settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
DEEP = settings(max_examples=1_000, derandomize=False, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Make every boundary of reading, marking and writing occur within a few inputs."""
    monkeypatch.setattr(recovery, "_READ", 4)
    monkeypatch.setattr(snapshots, "_MARK_EVERY", 3)
    monkeypatch.setattr(snapshots, "_CYCLE_BYTES", 300)
    monkeypatch.setattr(processors, "OUTPUT_LIMIT", 25)


def must_be_said_rightly(program):
    """The shard takes what the billing shards write while they do, one input at a time."""
    shard, oracle, expected = None, Oracle(), []
    for log in billing(program):
        shard = shard or shard_of(log, batch=1)
        before = shard.position.vector
        while shard.step():
            (place,) = [place for place, offset in enumerate(shard.position.vector) if offset != before[place]]
            (record,) = log.read(shard.reads[place], before[place], 1)
            before = shard.position.vector
            expected += oracle.take(decode(record.message))
        known = {
            (name, period): month.spent for name, tenant in shard.state.tenants.items() for period, month in tenant.months.items()
        }
        assert {key: spent for key, spent in known.items() if spent} == {key: spent for key, spent in oracle.sums.items() if spent}
    found = crossings(log)
    said = [(e.data.tenant, e.data.period, e.data.threshold, Fraction(e.data.amount), Fraction(e.data.budget)) for e in found]
    assert said == expected
    assert len({event.id for event in found}) == len(found)
    must_be_numbered(found)


def must_be_numbered(events):
    seen: Counter[str] = Counter()
    for event in events:
        seen[event.subject] += 1
        assert event.sequence == seen[event.subject]


@QUICK
@given(histories())
def test_what_is_said_is_what_an_independent_sum_says(program):
    must_be_said_rightly(program)


@pytest.mark.slow
@DEEP
@given(histories())
def test_what_is_said_of_many_histories_is_what_an_independent_sum_says(program):
    must_be_said_rightly(program)


def dumped(state):
    return {name: STAGE.dump(state, name) for name in STAGE.records(state)}


def must_commute(program, choices):
    """Facts of different partitions commute."""
    log = billed(program)
    states = []
    for order in ([], choices, [-1] * 10_000):
        state = STAGE.initial()
        for event in interleaved(log, order):
            STAGE.absorb(state, event)
        states.append(dumped(state))
    assert states[1] == states[0]
    assert states[2] == states[0]


@QUICK
@given(histories(), st.lists(st.integers(0, 3), max_size=200))
def test_the_order_between_partitions_changes_no_sum(program, choices):
    must_commute(program, choices)


def must_recover_behind_every_commit(program, batch, every):
    shard = None
    for log in billing(program):
        shard = shard or shard_of(log, batch=batch, every=every)
        while shard.step():
            view = log.look(shard.shard)
            by_snapshot, from_zero = (recover(log, STAGE, shard.shard, found, 1) for found in (view, type(view)(view.position, [])))
            assert dumped(by_snapshot.state) == dumped(shard.state)
            assert dumped(from_zero.state) == dumped(shard.state)
            assert by_snapshot.accounts.outcomes == from_zero.accounts.outcomes == shard.accounts.outcomes
            assert shard.accounts.balanced


@QUICK
@given(histories(), st.integers(1, 9), st.integers(1, 40))
def test_snapshot_and_tail_are_the_fold_from_zero_behind_every_commit(program, batch, every):
    must_recover_behind_every_commit(program, batch, every)


@QUICK
@given(histories(), st.lists(st.integers(1, 5), min_size=1, max_size=5), st.integers(1, 30))
def test_a_process_that_ends_behind_any_commit_says_the_same(program, lives, every):
    right, disturbed = billed(program), billed(program)
    shard_of(right, batch=3).run_until_quiet()
    done, turns = False, cycle(lives)
    while not done:
        shard = shard_of(disturbed, batch=3, every=every)
        done = not all(shard.step() for _ in range(next(turns)))
    assert outputs(disturbed) == outputs(right)


@QUICK
@given(histories())
def test_every_change_is_marked_for_the_snapshot_and_deciding_changes_none(program):
    state = STAGE.initial()
    before = dumped(state)
    for event in interleaved(billed(program), []):
        STAGE.absorb(state, event)
        absorbed = dumped(state)
        first, again = (next(STAGE.decide(state, event, event.recordedtime), None) for _ in range(2))
        assert first == again
        assert dumped(state) == absorbed
        for made in STAGE.decide(state, event, event.recordedtime):
            assert not STAGE.contains(state, made)
            STAGE.evolve(state, made)
            assert STAGE.contains(state, made)
        after, touched = dumped(state), STAGE.touched(state)
        assert {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)} <= set(touched)
        before = after
    read = STAGE.initial()
    STAGE.load(read, [(name, content) for name, content in dumped(state).items() if content is not None])
    assert dumped(read) == dumped(state)


def test_it_has_one_shard_that_reads_all_partitions():
    log = MemoryLog(3)
    assert shard_of(log).reads == (Partition("cluster", 0), *(Partition("billing", number) for number in range(3)))
    assert log.partitions("budgets") == 1
