"""Application of the billing stage's own events to a shard's state; must not fail."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from engine.billing.calendar import next_mark
from engine.billing.charges import FREE
from engine.billing.corrections import voided
from engine.billing.forgetting import forget, settle
from engine.billing.nodes import note_reviewed, note_use
from engine.billing.persist import SWEPT, account_of, head_record, touch, touch_page
from engine.billing.state import Attempt, Job, JobAccount, Run, Size, State
from engine.billing.timers import advance, begin_review, schedule, schedule_waiting
from engine.events import Data, Event
from engine.events.billing import UsageFailed, UsageRecorded, UsageReviewed, UsageWithdrawn
from engine.events.times import Micros

_OWN_EVENTS: Final = (UsageRecorded, UsageWithdrawn, UsageReviewed, UsageFailed)


def evolve(state: State, event: Event[Data]) -> None:
    """Apply one event of the billing stage."""
    data = event.data
    if not isinstance(data, _OWN_EVENTS):
        return  # an event of the processor
    account = account_of(state, event.subject)
    if account is not None and event.sequence <= account.job.written:
        account = None  # the snapshot already contains it
    if account is not None:
        account.job.written = event.sequence
        state.touched[head_record(account.job.id)] = None
    if isinstance(data, UsageReviewed):
        _reviewed(state, account, data, event)
        return
    if account is None or (attempt := account.find(data.task, data.index, data.attempt)) is None:
        return
    touch_page(state, account.job.id, attempt)
    if isinstance(data, UsageFailed):
        attempt.fault = data.error
        return
    attempt.revision, attempt.fault = data.revision, None
    if (left := voided(attempt.recorded, data)) is not None:
        attempt.recorded = left
    elif isinstance(data, UsageRecorded):
        attempt.uid = data.uid  # part of the record ids; a replay may have absorbed a later one
        if not _extend(attempt, data):
            _record(attempt, data)
            note_use(state, account.job, attempt)
        if data.at_mark:
            _marked(state, account.job.id, attempt, data.end)


def _marked(state: State, job: str, attempt: Attempt, mark: Micros) -> None:
    """Store the hour mark up to which an open attempt is recorded. A replay may have absorbed later facts and lack its `due`."""
    if attempt.end is None and mark > attempt.marked and (attempt.due is None or mark >= attempt.due):
        attempt.marked = mark
        state.set_due(job, attempt, next_mark(mark, state.book.time_zone))


def run_of(data: UsageRecorded) -> Run:
    """Return the run of a record."""
    return Run(
        data.record,
        data.start,
        data.end,
        data.length,
        data.kind,
        data.begun,
        data.ended,
        Size(data.cpu_milli, data.memory_bytes, data.gpu, data.gpu_nano),
        data.terms,
        data.node,
        data.node_type,
        data.gpu_model,
        data.price_version,
        data.month or data.period,
        data.worth,
        FREE in data.factors,
        data.inferred_start,
        data.inferred_end,
        data.period,
        data.revision,
    )


def _extend(attempt: Attempt, data: UsageRecorded) -> bool:
    """Extend the last recorded run if the new one continues it; return whether it does."""
    recorded = attempt.recorded
    last = recorded[-1] if recorded else None
    if last is None or last.end != data.start or not _continues(last, data):
        return False
    length = data.end - last.start
    recorded[-1] = replace(last, end=data.end, length=length, ended=data.ended, inferred_end=data.inferred_end)
    return True


def _record(attempt: Attempt, data: UsageRecorded) -> None:
    run, recorded = run_of(data), attempt.recorded
    last = recorded[-1] if recorded else None
    if last is None or (last.record == "usage" and last.start < run.start) or run.record == "excess":
        attempt.recorded = [*recorded, run]
    else:
        attempt.recorded = sorted([*recorded, run], key=lambda each: (each.record == "excess", each.start))


def _continues(last: Run, data: UsageRecorded) -> bool:
    """Return true if a record continues a run, so that both are stored as one."""
    size = last.size
    return (
        last.record == data.record == "usage"
        and last.begun == data.begun
        and last.kind == data.kind
        and size.cpu_milli == data.cpu_milli
        and size.memory_bytes == data.memory_bytes
        and size.gpu == data.gpu
        and size.gpu_nano == data.gpu_nano
        and last.terms == data.terms
        and last.node == data.node
        and last.node_type == data.node_type
        and last.gpu_model == data.gpu_model
        and last.price_version == data.price_version
        and last.month == (data.month or data.period)
        and last.worth == data.worth
        and last.free == (FREE in data.factors)
        and last.invoice == data.period
        and last.revision == data.revision
    )


def _reviewed(state: State, account: JobAccount | None, data: UsageReviewed, event: Event[Data]) -> None:
    ident = event.subject
    if data.forgotten:
        if account is not None:
            forget(state, account)
        return
    if data.mark is not None:
        if account is not None and data.next < len(account.attempts):
            attempt = account.attempts[data.next]
            touch(state, ident, attempt)
            _marked(state, ident, attempt, data.mark)
        return
    if data.node is not None:
        note_reviewed(state, (event.clusterid, data.node), ident, data)
    elif data.sweep is None:
        if account is not None:
            _review_goes_on(state, account.job, data.next, event)
    elif (data.sweep, ident) > state.swept:
        state.swept = data.sweep, ident
        state.touched[SWEPT] = None
    if account is not None and data.node is None and data.next < 0:
        for attempt in account.attempts:
            _schedule_by_book(state, account.job, attempt, event)
    if account is not None and data.next < 0:
        settle(state, account)


def _review_goes_on(state: State, job: Job, next_: int, event: Event[Data]) -> None:
    """Store the progress of a job's review.

    Step 0 begins the job's part of a review of all jobs, whose event becomes the cause unless a later review is pending.
    """
    if next_ == 0 and (job.review < 0 or not job.review_cause or job.review_at <= state.sweep_at):
        job.review_cause = event.causationid
    if job.review < 0 <= next_:
        begin_review(state, job, event.recordedtime)
    job.review = next_


def _schedule_by_book(state: State, job: Job, attempt: Attempt, reported: Event[Data]) -> None:
    """Schedule an attempt for a new price book, which may bill waiting that the old one did not, or end the month earlier."""
    advance(state, job.id, attempt)
    schedule_waiting(state, job, attempt, reported)
    if attempt.bound is not None:
        schedule(state, job.id, attempt, attempt.bound.time, reported, bills="bound" not in state.book.unbilled)
