"""Timers of a billing shard: hour marks of open attempts, reviews of jobs, and the review of all jobs."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final

from engine.billing.calendar import HOUR, month_of, next_mark
from engine.billing.persist import account_of, head_record, touch
from engine.billing.state import Attempt, Job, JobAccount, State
from engine.events import Data, Event
from engine.events.times import SECOND, Micros

REVIEW_AFTER: Final = 60 * SECOND
"""Delay of reviews (microseconds), so that one review covers many nodes observed together."""


def schedule(state: State, job: str, attempt: Attempt, begin: Micros, reported: Event[Data], *, bills: bool = True) -> None:
    """Schedule an open attempt for the first hour mark or end of a month after a time, unless it is already scheduled.

    If the event was recorded an hour or more after that time, as in the import of an old trace, the first mark after its recorded
    time is used: the attempt's end may be among the next events, and years would be recorded before it.
    """
    if bills and attempt.due is None and attempt.end is None:
        begin = max(begin, attempt.marked)
        since = begin if reported.recordedtime - begin < HOUR else reported.recordedtime
        state.set_due(job, attempt, next_mark(since, state.book.time_zone))
        touch(state, job, attempt)


def schedule_waiting(state: State, job: Job, attempt: Attempt, reported: Event[Data]) -> None:
    """Schedule a pending attempt, if its waiting may be billed."""
    unbilled = state.book.unbilled
    may_be = "queued" not in unbilled or (bool(job.reservations) and "reserved" not in unbilled)
    schedule(state, job.id, attempt, attempt.created.time, reported, bills=may_be)


def advance(state: State, job: str, attempt: Attempt) -> None:
    """Reschedule an attempt for an end of a month in the hour before its mark, which a new price book may introduce."""
    if attempt.due is not None and attempt.marked < (end := month_of(attempt.due - HOUR, state.book.time_zone).end) < attempt.due:
        state.set_due(job, attempt, end)
        touch(state, job, attempt)


def review(state: State, account: JobAccount, now: Micros, cause: str = "") -> None:
    """Schedule the review of all attempts of a job, in steps.

    Args:
        state: state of the shard.
        account: account of the job.
        now: recorded time of the requesting event.
        cause: id of that event; empty for a fact about a node, which the node's record has.
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
    """Return the job whose review step is due next; `None` if there is none."""
    while state.reviews:
        at, ident = state.reviews[0]
        account = account_of(state, ident)
        if account is not None and account.job.review >= 0 and account.job.review_at == at:
            return account.job
        heappop(state.reviews)
    return None


def first_sweep(state: State) -> str | None:
    """Return the next job of the review of all jobs; `None` if there is none."""
    while state.sweeping:
        ident = state.sweeping[0]
        if (state.sweeps, ident) > state.swept and (ident in state.jobs or ident in state.idle):
            return ident
        heappop(state.sweeping)
    return None


def mark_due(state: State) -> Micros | None:
    """Return the first hour mark with a due attempt; `None` if there is none."""
    while state.hours:
        mark = state.hours[0]
        if state.marks[mark].pages:
            return mark
        heappop(state.hours)
        del state.marks[mark]
    return None
