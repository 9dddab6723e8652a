"""The tests of the bill can fail: for each rule that keeps it right, a bug against it is planted, and found."""

from __future__ import annotations

import dataclasses
import random
from decimal import Decimal
from functools import cache

import pytest
from job_programs import HOUR, STARTS, STEPS, ZONES, Program
from msgspec.structs import replace
from test_billing_laws import must_be_billed_rightly
from test_billing_recovery import must_be_the_same_packed, must_recover_behind_every_commit, small_chunks

from engine.billing import absorb, charges, corrections, event_factory, evolve, persist, records, tariff, usage_segments
from engine.billing.stage import BillingStage
from engine.billing.state import State

__all__ = ["small_chunks"]


def program_of(seed: int) -> Program:
    """Make a program of which more is learnt when its months are closed."""
    dice = random.Random(seed)  # noqa: S311 - a workload, no secret

    def step(*names):
        return dice.choice(names), dice.randrange(9), dice.randrange(60), dice.randrange(72)

    program = Program(dice.choice(STARTS), dice.choice(ZONES))
    for name in ("book", "start", "start", "run"):
        program.do(step(name))
    for _ in range(dice.randrange(6, 18)):
        program.do(step(*STEPS))
    while program.live:
        program.do(step("end"))
    program.now += 40 * 24 * HOUR
    for back in (40, 39, 20):
        program.close(program.now - back * 24 * HOUR)
    for _ in range(dice.randrange(1, 6)):
        program.do(step("late", "late", "revise", "node", "node_late", "book", "close"))
    return program


@cache
def sample():
    return [program_of(seed) for seed in range(60)]


def float_quantity(size, length):
    return Decimal(float(size) * length / 1e6)


def no_rank(state, job, attempt, event):
    if attempt.end is not None and event.data.ended is not None:
        attempt.end = replace(attempt.end, time=event.data.ended, id=event.id)
        state.changed.append((job.id, attempt.ordinal))


def always_withdrawn(self, attempt, run, revision):
    open_month = type(self)(replace_periods(self.state), self.account, self.now, self.cause)
    return right_void(open_month, attempt, run, revision)


def replace_periods(state):
    return dataclasses.replace(state, periods={})


right_void = event_factory.EventFactory._void


def in_place(self, attempt, run, revision, length, reverses=None):
    made = right_recorded(self, attempt, run, revision, length, reverses)
    made.period = run.month
    return made


def positive_reversal(self, attempt, run, revision, length, reverses=None):
    return right_recorded(self, attempt, run, revision, abs(length), reverses)


right_recorded = event_factory.EventFactory.recorded


def only_first_size(state, job, attempt, event):
    """A resize is passed over."""


def whole_seconds(total, rules):
    return right_increments(total // 1_000_000 * 1_000_000, rules)


right_increments = usage_segments._in_increments


def kept_if_begun(run, wanted, is_closed):
    return run.end if run.start == wanted.start else right_kept(run, wanted, is_closed)


def utc_month(moment, _zone):
    return right_month(moment, "UTC")


def from_the_beginning(attempt, reservations, until):
    for one in right_segments(attempt, reservations, until):
        yield one._replace(start=attempt.created.time) if one.kind == "running" else one


right_kept, right_month, right_segments = corrections._kept, usage_segments.month_of, usage_segments.segments

MONEY = {
    "amounts are floats": (tariff, "quantity", float_quantity),
    "amounts of records are floats": (records, "quantity", float_quantity),
    "the last end told counts, whoever tells it": (absorb._ATTEMPT, absorb.AttemptLateFact, no_rank),
    "what is late is passed over": (absorb._ATTEMPT, absorb.AttemptLateFact, lambda *_: None),
    "a closed file is written in place": (event_factory.EventFactory, "_void", always_withdrawn),
    "a replacement stands on the closed invoice": (event_factory.EventFactory, "recorded", in_place),
    "a reversal is charged": (event_factory.EventFactory, "recorded", positive_reversal),
    "a resize is passed over": (absorb._ATTEMPT, absorb.AttemptChanged, only_first_size),
    "only whole seconds are charged": (usage_segments, "_in_increments", whole_seconds),
    "increments and minimum are passed over": (usage_segments, "_closed", lambda found, *_: found),
    "everything is charged": (usage_segments, "is_billable", lambda *_, **__: True),
    "only running time is charged": (usage_segments, "is_billable", lambda kind, *_, **__: kind == "running"),
    "multipliers are passed over": (charges, "_fits", lambda *_: False),
    "what was recorded is never corrected": (corrections, "_kept", lambda run, *_: run.end),
    "nothing is corrected of what begins rightly": (corrections, "_kept", kept_if_begun),
    "worth is of the first end": (usage_segments, "worth_of", lambda _end: "useful"),
    "a slice that is void still stands": (corrections, "_without", lambda recorded, *_: recorded),
    "ids are of the slice alone": (records, "record_id", lambda record, meter, uid, start, *_: f"{record}{meter}{uid}{start}"),
    "months are those of UTC": (usage_segments, "month_of", utc_month),
    "a run begins with its attempt": (usage_segments, "segments", from_the_beginning),
    "the node at the end counts": (usage_segments, "node_at", lambda facts, _moment: facts[-1]),
    "what holds today held always": (usage_segments, "place_in", lambda timeline, _moment: len(timeline) - 1),
    "prices are not looked up again": (absorb, "applied", lambda *_: None),
}


@pytest.mark.parametrize("bug", MONEY)
def test_a_planted_bug_of_the_bill_is_found(bug, plant):
    plant(*MONEY[bug])
    assert any(fails(must_be_billed_rightly, program) for program in sample())


@pytest.mark.slow
def test_without_a_planted_bug_nothing_is_found():
    for program in sample():
        must_be_billed_rightly(program)


def fails(check, *given):
    try:
        check(*given)
    except Exception:  # noqa: BLE001 - whatever a bug leads to
        return True
    return False


# --- recovery ------------------------------------------------------------------------------------------------------------------


def evolve_again(state, event):
    """What a record holds already is applied once more."""
    known = persist.account_of(state, event.subject)
    if known is not None:
        known.job.written = event.sequence - 1
    right_evolve(state, event)


def absorb_again(state, event, _offset=None, /):
    if (known := persist.account_of(state, event.subject)) is not None:
        known.job.seen = 0
    right_absorb(state, event)


right_evolve, right_absorb, right_load = evolve.evolve, absorb.absorb, persist.load


def load_without_reviews(state: State, stored):
    right_load(state, stored)
    state.reviews.clear()
    state.sweeping.clear()


def load_without_marks(state: State, stored):
    right_load(state, stored)
    for ident in list(state.ids()):
        for attempt in persist.account_of(state, ident).attempts:
            attempt.marked = 0


RECOVERY = {
    "events are applied twice": ("evolve", staticmethod(evolve_again)),
    "facts are absorbed twice": ("absorb", staticmethod(absorb_again)),
    "all counts as contained": ("contains", lambda self, state, event: True),
    "reviews are forgotten": ("load", staticmethod(load_without_reviews)),
    "hour marks are forgotten": ("load", staticmethod(load_without_marks)),
    "what has changed is not told": ("touched", lambda self, state: []),
}


@pytest.mark.parametrize("bug", RECOVERY)
def test_a_planted_bug_of_recovery_is_found(bug, plant, small_chunks):
    plant(BillingStage, *RECOVERY[bug])
    assert any(fails(must_recover_behind_every_commit, program, 3, 7) for program in sample()[:40])


def pack_too_early(state, ident):
    """A job is kept as it was when it came to hand."""
    parts = state.idle.get(ident)
    known = right_account_of(state, ident)
    if known is not None and parts is not None and not known.job.finished:
        state.idle[ident] = parts
        del state.jobs[ident]
    return known


right_account_of = persist.account_of

PUT_AWAY = {
    "a job is packed without what was learnt": (absorb, "account_of", pack_too_early),
}


@pytest.mark.parametrize("bug", PUT_AWAY)
def test_a_planted_bug_of_jobs_that_are_packed_is_found(bug, plant, small_chunks):
    plant(*PUT_AWAY[bug])
    assert any(fails(must_be_the_same_packed, program) for program in sample()[:40])


@pytest.mark.slow
def test_without_a_planted_bug_jobs_are_packed_rightly(small_chunks):
    for program in sample()[:15]:
        must_be_the_same_packed(program)
