"""Recovery of the billing stage: a process may end behind any commit, and a snapshot may be of any moment (law 4)."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from unittest.mock import patch

import pytest
from bill_story import NOON, PRICES, Story
from billing_shard import append, messages, opened, tick
from hypothesis import given, settings
from hypothesis import strategies as st
from job_programs import HOUR, SECOND, Program, closed_programs, forgotten_programs, half_hour_programs, programs
from standing import standing, written

from engine.billing import persist
from engine.billing.records import json_of
from engine.billing.stage import BillingStage
from engine.billing.state import State
from engine.events.billing import UsageReviewed
from engine.events.jobs import JobForgotten, JobPhaseChanged
from engine.history.billing import check_billing
from engine.log.memory import MemoryLog
from engine.processor import processor as processors
from engine.processor import recovery, snapshots
from engine.processor.recovery import recover

STAGE = BillingStage()
any_program = st.one_of(programs(4, 14), closed_programs(8), forgotten_programs(8), half_hour_programs())
QUICK = settings(max_examples=8)
DEEP = settings(max_examples=600, derandomize=False)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Make every boundary of reading, marking and writing occur within a few inputs."""
    monkeypatch.setattr(recovery, "_READ", 4)
    monkeypatch.setattr(snapshots, "_MARK_EVERY", 3)
    monkeypatch.setattr(snapshots, "_CYCLE_BYTES", 300)
    monkeypatch.setattr(processors, "OUTPUT_LIMIT", 25)
    monkeypatch.setattr("engine.billing.stage._AT_ONCE", 2)
    monkeypatch.setattr("engine.billing.absorb._FEW", 1)
    monkeypatch.setattr("engine.billing.forgetting._UNPRICED", 1)
    monkeypatch.setattr("engine.billing.nodes._FACTS", 3)
    monkeypatch.setattr("engine.billing.nodes._REPEATS", 2)
    monkeypatch.setattr("engine.billing.persist._UNPACKED", 1)
    monkeypatch.setattr("engine.billing.hour_index._PAGE", 2)
    monkeypatch.setattr("engine.billing.state._FEW", 1)
    monkeypatch.setattr("engine.billing.persist._FIRST", 1)
    monkeypatch.setattr("engine.billing.persist.PAGE", 2)


def undisturbed(program: Program) -> MemoryLog:
    log = MemoryLog(clock=lambda: 1 << 60)
    append(log, [*program.inputs, tick(program.now + 6 * HOUR)])
    opened(log).run_until_quiet()
    return log


def view_of(state):
    """All of a state: its records, and what is derived from them."""
    records = {name: STAGE.dump(state, name) for name in list(STAGE.records(state))}
    for ident in list(state.idle):
        persist.account_of(state, ident)
    return {
        "records": records,
        "due": STAGE.due(state),
        "found": all(
            known.find(attempt.task, attempt.index, attempt.number) is attempt
            for known in state.jobs.values()
            for attempt in known.attempts
        ),
        "marks": marks_of(state),
        "unknown": {node: sorted(jobs) for node, jobs in state.unknown.items()},
        "used": {node: sorted(jobs.items()) for node, jobs in state.used.items()},
        "nodes": list(state.nodes),
    }


def marks_of(state):
    """The attempts that wait for each hour mark."""
    return {mark: list(due) for mark, due in state.marks.items() if due.pages}


def copy_of(state):
    made = STAGE.initial()
    STAGE.load(
        made, [(name, STAGE.dump(state, name)) for name in list(STAGE.records(state)) if STAGE.dump(state, name) is not None]
    )
    return made


@QUICK
@given(any_program, st.lists(st.integers(1, 12), min_size=1, max_size=6), st.integers(1, 60))
def test_a_process_that_ends_behind_any_commit_changes_no_byte(program, lives, every):
    """The same events with the same ids; the same state; the same records to export."""
    right, disturbed = undisturbed(program), MemoryLog(clock=lambda: 1 << 60)
    append(disturbed, [*program.inputs, tick(program.now + 6 * HOUR)])
    done, turns = False, cycle(lives)
    while not done:
        life = next(turns)
        shard = opened(disturbed, batch=life, every=every)
        for _ in range(life):
            if not shard.step() and not shard.fire_due(shard.horizon):
                done = True
                break
            assert shard.accounts.balanced
    assert messages(disturbed) == messages(right)
    assert exported(disturbed) == exported(right)
    whole = opened(right)
    assert dumped(shard.state) == dumped(whole.state)
    assert shard.accounts.outcomes == whole.accounts.outcomes
    assert list(check_billing(disturbed)) == []


def reviewed_by_price(*, recovers):
    """A book comes while one job runs, another job begins before all are reviewed; return what is written, and who was reviewed."""
    story = Story()
    for tell in (
        lambda: story.start("a", 0, 0),
        lambda: story.run("a", 0, 0),
        lambda: story.prices({"prices": PRICES}, at=100),
        lambda: story.start("b", 0, 110),
        lambda: story.run("b", 0, 110),
        lambda: story.wait(300),
    ):
        if recovers:
            story.shard = opened(story.log, every=1)
        tell()
    events = [event for event in written(story.log) if isinstance(event.data, UsageReviewed) and event.data.sweep is not None]
    return messages(story.log), [event.subject for event in events]


def test_a_job_that_begins_behind_a_book_is_not_reviewed_for_it():
    """Neither with nor without a recovery of its shard."""
    right, reviewed = reviewed_by_price(recovers=False)
    assert reviewed == ["a"]
    assert reviewed_by_price(recovers=True) == (right, reviewed)


def dumped(state):
    return {name: STAGE.dump(state, name) for name in list(STAGE.records(state))}


def exported(log):
    return [json_of(record) for record in standing(written(log))]


@QUICK
@given(any_program, st.integers(1, 9), st.integers(1, 40))
def test_snapshot_and_tail_are_the_fold_from_zero_behind_every_commit(program, batch, every):
    must_recover_behind_every_commit(program, batch, every)


@pytest.mark.slow
@DEEP
@given(st.one_of(programs(most=40), closed_programs(), forgotten_programs()), st.integers(1, 9), st.integers(1, 40))
def test_snapshot_and_tail_of_long_programs_are_the_fold_from_zero(program, batch, every):
    must_recover_behind_every_commit(program, batch, every)


def must_recover_behind_every_commit(program, batch, every):
    log = MemoryLog(clock=lambda: 1 << 60)
    shard = opened(log, batch=batch, every=every)
    for place, given_ in enumerate([*program.inputs, tick(program.now + 6 * HOUR)]):
        append(log, [given_])
        if place % batch and place < len(program.inputs):
            continue
        while shard.step() or shard.fire_due(shard.horizon):
            must_be_recovered(log, shard)


def must_be_recovered(log, shard):
    view = log.look(shard.shard)
    by_snapshot, from_zero = (recover(log, STAGE, shard.shard, found, 1) for found in (view, type(view)(view.position, [])))
    live = dumped(shard.state)
    assert dumped(by_snapshot.state) == live
    assert dumped(from_zero.state) == live
    assert STAGE.due(by_snapshot.state) == STAGE.due(from_zero.state) == STAGE.due(shard.state)
    assert by_snapshot.accounts.outcomes == from_zero.accounts.outcomes == shard.accounts.outcomes


def told_and_recovered(*tell):
    """Tell a story; behind it the shard is idle once, which writes its oldest subject. It is recovered behind every sentence."""
    story = Story()
    for sentence in tell:
        sentence(story)
        must_be_recovered(story.log, story.shard)
    with patch("engine.processor.snapshots._CYCLE_BYTES", 1):
        story.idle()
    must_be_recovered(story.log, story.shard)


def a_book_bills_what_an_older_one_did_not():
    """The first book is the oldest record, and the second one decides whether an attempt that waits has hour marks."""
    waiting = {"prices": PRICES, "bill_queued": True, "from": NOON + HOUR}
    told_and_recovered(
        lambda story: story.prices({"prices": PRICES}),
        lambda story: story.start("a", 0, 10),
        lambda story: story.prices({"prices": PRICES}, waiting, at=20),
    )


def test_an_attempt_is_scheduled_by_the_book_of_its_time():
    a_book_bills_what_an_older_one_did_not()


def test_a_recovery_finds_the_bug_of_a_book_that_is_newer_than_a_job(monkeypatch):
    monkeypatch.setattr(BillingStage, "exact", ())
    with pytest.raises(AssertionError):
        a_book_bills_what_an_older_one_did_not()


def test_jobs_may_be_forgotten_before_the_review_for_a_book_comes_to_them():
    def forget(story):
        story.end("a", 0, 20)
        story.say("job-events", JobForgotten(finished=NOON), "a", 30)

    told_and_recovered(
        lambda story: story.prices({"prices": PRICES}),
        lambda story: story.start("a", 0, 0),
        lambda story: story.prices({"prices": PRICES}, {"prices": PRICES, "from": NOON + HOUR}, at=10),
        forget,
        lambda story: story.start("b", 0, 40),
        lambda story: story.wait(300),
    )


def test_a_review_that_is_not_due_yet_writes_nothing():
    """A finished job awaits it; a shard that has nothing to do asks again and again what is due."""
    story = Story()
    story.prices({"prices": PRICES})
    story.start("a", 0, 0)
    story.end("a", 0, 10)
    story.say("job-events", JobPhaseChanged("Completed", "Running"), "a", 10)
    story.prices({"prices": PRICES}, {"prices": PRICES, "from": NOON + HOUR}, at=20)
    while story.shard.snapshot_dirty:
        story.idle()
    assert story.shard.timer_due == NOON + 80 * SECOND
    assert STAGE.touched(story.shard.state) == []


def test_jobs_that_come_with_a_book_await_no_review_in_a_recovery_either():
    """The book is taken first; the snapshot holds one of the jobs, and the tail the book."""

    def at_once(story):
        with patch.object(story.shard, "step"):
            story.start("a", 0, 10)
            story.start("b", 0, 10)
            story.prices({"prices": PRICES}, {"prices": PRICES, "from": NOON + HOUR}, at=10)
        story.shard.step()

    told_and_recovered(lambda story: story.prices({"prices": PRICES}), Story.idle, at_once)


@settings(max_examples=25)
@given(any_program)
def test_a_state_that_is_written_and_read_is_the_same(program):
    """What is derived from its records, too; and it goes on in the same way."""
    log = MemoryLog(clock=lambda: 1 << 60)
    shard = opened(log)
    for given_ in program.inputs:
        append(log, [given_])
        shard.step()
        read = copy_of(shard.state)
        twice = copy_of(read)
        assert STAGE.unfinished(read) == STAGE.unfinished(shard.state)
        now = shard.position.now
        assert list(STAGE.fire(read, now)) == list(STAGE.fire(twice, now)) == list(STAGE.fire(shard.state, now))
        assert view_of(read) == view_of(twice)


@settings(max_examples=25)
@given(any_program)
def test_jobs_that_are_packed_change_no_byte(program):
    must_be_the_same_packed(program)


def must_be_the_same_packed(program):
    """One shard packs no job, another one every job behind a commit; attempts wait for the hour mark that they name."""
    shards = []
    for most in (1_000_000, 0):
        log = MemoryLog(clock=lambda: 1 << 60)
        shards.append(opened(log, batch=2))
        for given_ in [*program.inputs, tick(program.now + 6 * HOUR)]:
            append(log, [given_])
            with patch("engine.billing.persist._UNPACKED", most):
                shards[-1].run_until_quiet()
            state = shards[-1].state
            assert most or not [known for known in state.jobs.values() if len(known.attempts) <= persist.PAGE]
            assert marks_of(state) == waiting(copy_of(state))
    at_hand, put_away = shards
    assert messages(put_away.log) == messages(at_hand.log)
    assert dumped(put_away.state) == dumped(at_hand.state)


def waiting(state):
    """The same by what stands in the attempts."""
    found: dict[int, list[tuple[str, int]]] = {}
    for ident in sorted(state.ids()):
        for attempt in persist.account_of(state, ident).attempts:
            if attempt.due is not None:
                found.setdefault(attempt.due, []).append((ident, attempt.ordinal))
    return found


@settings(max_examples=25)
@given(any_program)
def test_all_that_changes_is_told_to_the_snapshot(program):
    """A record that is not named as touched holds what it held."""
    state: State = STAGE.initial()
    before = {name: STAGE.dump(state, name) for name in STAGE.records(state)}
    for _ in stepped(state, [*program.inputs, tick(program.now + 6 * HOUR)]):
        after = {name: STAGE.dump(state, name) for name in list(STAGE.records(state))}
        touched = STAGE.touched(state)
        assert len(set(touched)) == len(touched)
        assert {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)} <= set(touched)
        before = after


@settings(max_examples=25)
@given(any_program)
def test_a_state_contains_what_it_was_folded_from_and_nothing_else(program):
    state: State = STAGE.initial()
    held = []
    for made in stepped(state, [*program.inputs, tick(program.now + 6 * HOUR)]):
        held += made
        assert all(STAGE.contains(state, event) for event in held if not of_a_review(event))
        for event in made:
            if not of_a_review(event):
                assert not STAGE.contains(state, replace(event, sequence=event.sequence + len(made)))


def of_a_review(event):
    return isinstance(event.data, UsageReviewed) and event.data.sweep is not None


@settings(max_examples=25)
@given(any_program)
def test_deciding_changes_nothing(program):
    """`decide` and `fire` are asked twice, and the state is the same: no clock, no chance, no trace."""
    state: State = STAGE.initial()
    for topic, event in program.inputs:
        while (due := STAGE.due(state)) is not None and due <= event.recordedtime:
            must_be_pure(state, lambda: STAGE.fire(state, event.recordedtime))  # noqa: B023 - called at once
            for made in STAGE.fire(state, event.recordedtime):
                STAGE.evolve(state, made)
        STAGE.absorb(state, event)
        must_be_pure(state, lambda: STAGE.decide(state, event, event.recordedtime))  # noqa: B023 - as above
        for made in STAGE.decide(state, event, event.recordedtime):
            STAGE.evolve(state, made)
        assert topic in {"cluster", "job-events"}


def must_be_pure(state, decide):
    """Ask for the first event only: the later ones are decided when the first one has been applied."""
    before = copy_of(state)
    first = next(decide(), None)
    again = next(decide(), None)
    assert again == first
    assert view_of(copy_of(state)) == view_of(before)


def stepped(state, inputs):
    """Take inputs without a log, and yield what follows from each, and from what is due by then."""
    now = 0
    for _, event in inputs:
        made = []
        now = max(now, event.recordedtime)
        while (due := STAGE.due(state)) is not None and due <= now:
            made += applied(state, STAGE.fire(state, now))
        STAGE.absorb(state, event)
        made += applied(state, STAGE.decide(state, event, now))
        yield made


def applied(state, decision):
    made = []
    for event in decision:
        STAGE.evolve(state, event)
        made.append(event)
    return made


def test_another_process_writes_the_same_bytes():
    """With another seed for the order of sets, in another time zone of the machine."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from hashlib import blake2b\n"
        "from job_programs import STARTS, Program\n"
        "from billing_shard import messages, run\n"
        "from test_billing_recovery import SAMPLE\n"
        "program = Program(STARTS[1], 'America/Havana')\n"
        "for step in SAMPLE: program.do(step)\n"
        "print(blake2b(repr(messages(run(program)[0])).encode()).hexdigest(), len(messages(run(program)[0])))"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", code, str(Path(__file__).parent)],
            check=True,
            capture_output=True,
            text=True,
            cwd=Path(__file__).parents[2],
            env={"PYTHONHASHSEED": seed, "TZ": zone},
        ).stdout.split()
        for seed, zone in (("1", "UTC"), ("4711", "Asia/Tokyo"))
    ]
    assert said[0] == said[1]
    assert int(said[0][1]) > 50


_dice = random.Random(4711)  # noqa: S311 - a workload, not a secret
SAMPLE = [
    ("book", 0, 24, 0),
    *(
        (
            _dice.choice(("start", "run", "run", "end", "wait", "late", "resize", "node", "book", "close")),
            *map(_dice.randrange, (9, 60, 72)),
        )
        for _ in range(80)
    ),
]
