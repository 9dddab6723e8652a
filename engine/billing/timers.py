"""What is due in a billing shard: hour marks of open attempts, reviews of jobs, and the review of all of them."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final

from engine.billing.calendar import HOUR, next_hour
from engine.billing.persist import head_record, known_of, touch
from engine.billing.state import Attempt, Job, Known, State
from engine.events import Data, Event
from engine.events.times import SECOND, Micros

__all__ = ["REVIEW_AFTER", "begin_review", "first_review", "first_sweep", "mark_due", "review", "schedule"]

REVIEW_AFTER: Final = 60 * SECOND
"""From the first reason for reviews to the first of them: many nodes are learnt of at once, and a job is reviewed once for all."""


def schedule(state: State, job: str, attempt: Attempt, begin: Micros, told: Event[Data], *, bills: bool = True) -> None:
    """Have an open attempt recorded at the first hour mark behind a moment, unless it already waits for one.

    Where the event of that moment is recorded an hour later or more, as in the import of an old trace: at the first mark behind its
    recordedtime. The attempt's end may be among the next events, and years up to now would be recorded before it.
    """
    if bills and attempt.due is None and attempt.end is None:
        begin = max(begin, attempt.marked)
        state.set_due(job, attempt, next_hour(begin if told.recordedtime - begin < HOUR else told.recordedtime))
        touch(state, job, attempt)


def review(state: State, known: Known, now: Micros) -> None:
    """Have all attempts of a job looked at again, step by step."""
    job = known.job
    if job.review < 0:
        begin_review(state, job, now + REVIEW_AFTER)
    job.review = 0
    state.touched[head_record(job.id)] = None


def begin_review(state: State, job: Job, at: Micros) -> None:
    """Have a job's review go on at a time."""
    job.review_at = at
    heappush(state.reviews, (at, job.id))


def first_review(state: State) -> Job | None:
    """Return the job whose review goes on next."""
    while state.reviews:
        at, ident = state.reviews[0]
        known = known_of(state, ident)
        if known is not None and known.job.review >= 0 and known.job.review_at == at:
            return known.job
        heappop(state.reviews)
    return None


def first_sweep(state: State) -> str | None:
    """Return the job to which the review of all comes next; where there is none left, the review is over."""
    while state.sweeping:
        ident = state.sweeping[0]
        if state.sweep is not None and ident > state.sweep and (ident in state.jobs or ident in state.idle):
            return ident
        heappop(state.sweeping)
    return None


def mark_due(state: State) -> Micros | None:
    """Return the first hour mark at which an attempt is to be recorded."""
    while state.hours:
        mark = state.hours[0]
        if state.marks[mark].pages:
            return mark
        heappop(state.hours)
        del state.marks[mark]
    return None
