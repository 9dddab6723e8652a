"""Timers of a billing shard: hour marks of open attempts, reviews of jobs, and the review of all jobs."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final

from engine.billing.calendar import HOUR, month_of, next_mark
from engine.billing.persist import account_of, head_record, touch
from engine.billing.state import Attempt, Job, JobAccount, State
from engine.events import Data, Event
from engine.events.times import SECOND, Micros

__all__ = [
    "REVIEW_AFTER",
    "advance",
    "begin_review",
    "first_review",
    "first_sweep",
    "mark_due",
    "review",
    "schedule",
    "schedule_waiting",
]

REVIEW_AFTER: Final = 60 * SECOND
"""Delay of reviews: many nodes are observed at once, and a job is reviewed once for all of them."""


def schedule(state: State, job: str, attempt: Attempt, begin: Micros, told: Event[Data], *, bills: bool = True) -> None:
    """Schedule an open attempt for the first hour mark or end of a month after a moment, unless it is already scheduled.

    If the event of that moment is recorded an hour later or more, as in the import of an old trace, the first mark after its
    recordedtime counts: the attempt's end may be among the next events, and years would be recorded before it.
    """
    if bills and attempt.due is None and attempt.end is None:
        begin = max(begin, attempt.marked)
        since = begin if told.recordedtime - begin < HOUR else told.recordedtime
        state.set_due(job, attempt, next_mark(since, state.book.time_zone))
        touch(state, job, attempt)


def schedule_waiting(state: State, job: Job, attempt: Attempt, told: Event[Data]) -> None:
    """Schedule an attempt that waits, if its waiting may be charged."""
    unbilled = state.book.unbilled
    may_be = "queued" not in unbilled or (bool(job.reservations) and "reserved" not in unbilled)
    schedule(state, job.id, attempt, attempt.created.time, told, bills=may_be)


def advance(state: State, job: str, attempt: Attempt) -> None:
    """Move an attempt that waits for an hour mark to the end of a month within that hour, which a new price book may bring."""
    if attempt.due is not None and attempt.marked < (end := month_of(attempt.due - HOUR, state.book.time_zone).end) < attempt.due:
        state.set_due(job, attempt, end)
        touch(state, job, attempt)


def review(state: State, account: JobAccount, now: Micros, cause: str = "") -> None:
    """Schedule the review of all attempts of a job, in steps.

    Args:
        state: of the shard.
        account: of the job.
        now: when the event that asks for it was recorded.
        cause: id of that event; empty if it is a fact about a node: the node has it.
    """
    job = account.job
    if job.review < 0:
        begin_review(state, job, now + REVIEW_AFTER)
        job.review_cause = ""
    job.review, job.review_cause = 0, cause or job.review_cause
    state.touched[head_record(job.id)] = None


def begin_review(state: State, job: Job, at: Micros) -> None:
    """Schedule the next step of a job's review."""
    job.review_at = at
    heappush(state.reviews, (at, job.id))


def first_review(state: State) -> Job | None:
    """Return the job whose review step is due next."""
    while state.reviews:
        at, ident = state.reviews[0]
        account = account_of(state, ident)
        if account is not None and account.job.review >= 0 and account.job.review_at == at:
            return account.job
        heappop(state.reviews)
    return None


def first_sweep(state: State) -> str | None:
    """Return the next job of the review of all jobs; `None`: no job awaits one."""
    while state.sweeping:
        ident = state.sweeping[0]
        if (state.sweeps, ident) > state.swept and (ident in state.jobs or ident in state.idle):
            return ident
        heappop(state.sweeping)
    return None


def mark_due(state: State) -> Micros | None:
    """Return the first hour mark with an attempt."""
    while state.hours:
        mark = state.hours[0]
        if state.marks[mark].pages:
            return mark
        heappop(state.hours)
        del state.marks[mark]
    return None
