"""Faults of one billing event, given the state and the records before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any, Final

from msgspec.structs import replace

from engine.billing.calendar import month_of
from engine.billing.charges import charged
from engine.billing.corrections import part
from engine.billing.event_factory import EventFactory
from engine.billing.evolve import run_of
from engine.billing.state import Attempt, JobAccount, Run, State
from engine.billing.usage_segments import added
from engine.events import Event
from engine.events.billing import Charge, UsageFailed, UsageRecorded, UsageReviewed, UsageWithdrawn
from engine.events.decimals import plain, total
from engine.events.times import format_time

_ATTRIBUTES: Final = ("id", "source", "subject", "time", "correlationid", "causationid", "clusterid")
"""Event attributes that can be recomputed. The type follows from the data; the recorded time depends on the clock."""
_attributes: Final[Callable[[Event[Any]], tuple[object, ...]]] = attrgetter(*_ATTRIBUTES)


def faults_of(event: Event[Any], state: State, account: JobAccount, cause: str) -> Iterator[str]:
    """Yield the faults of an event about a job, compared with the event that the billing stage's code creates.

    Args:
        event: event of the billing stage.
        state: state of the shard that wrote it, from its earlier inputs and outputs.
        account: account of the job.
        cause: id of the last job event that the shard had absorbed; empty: none.
    """
    data = event.data
    timed = isinstance(data, UsageReviewed) or data.at_mark
    factory = EventFactory(state, account, event.recordedtime, None if timed else cause)
    if isinstance(data, UsageReviewed):
        yield from _of_review(event, factory)
        return
    attempt = account.find(data.task, data.index, data.attempt)
    if attempt is None:
        yield "is about an attempt that no job event names"
        return
    begun = event.causationid  # the cause of a timer's event may be lost
    if isinstance(data, UsageFailed):
        # The reason for a failed charge belongs to the build that recorded it; a later fix does not invalidate it.
        if attempt.fault == data.error:
            yield f"says again that the attempt cannot be charged ({data.error})"
        yield from _of_attributes(event, factory.event(data, factory.now, attempt.created.id))
        return
    yield from _of_withdrawal(data, factory, attempt) if isinstance(data, UsageWithdrawn) else _of_record(data, factory, attempt)
    yield from _of_attributes(event, factory.event(data, data.end, begun))


def _of_attributes(event: Event[Any], expected: Event[Any]) -> Iterator[str]:
    """Yield the faults of an event's attributes."""
    if event.sequence != expected.sequence:
        yield f"has sequence {event.sequence} after {expected.sequence - 1}"
    elif _attributes(event) != _attributes(expected):
        for name, found, should in zip(_ATTRIBUTES, _attributes(event), _attributes(expected), strict=True):
            if found != should:
                yield f"has {name} {found!r}; expected {should!r}"


def _of_review(event: Event[UsageReviewed], factory: EventFactory) -> Iterator[str]:
    """Yield the faults of a review's progress; the choice of its next step is not recomputed."""
    data, state = event.data, factory.state
    if data.mark is None:
        if event.causationid == state.sweep_cause:
            factory.cause = state.sweep_cause  # the first of some steps of a review for a price book
        expected = factory.reviewed(data.next, sweep=data.sweep, node=data.node, last=data.last, forgotten=data.forgotten)
    elif 0 <= data.next < len(factory.account.attempts):
        expected = factory.passed(factory.account.attempts[data.next], data.mark)
    else:
        yield "is about an attempt that no job event names"
        return
    yield from _of_attributes(event, expected)


def _of_record(data: UsageRecorded, factory: EventFactory, attempt: Attempt) -> Iterator[str]:
    """Yield the faults of a record or a reversal."""
    account, back = factory.account, data.reverses
    standing = _standing(attempt, data, *((data.record, None) if back is None else (back.record, back.period)))
    if back is None:
        run, revision, length = run_of(data), attempt.revision, data.end - data.start
        if standing:
            yield f"records what is recorded already: {stretch(standing[0])}"
        run = replace(run, month=month_of(run.start, factory.state.book.time_zone).name)
    elif standing and standing[0].start <= data.start and data.end <= standing[0].end:
        run = part(standing[0], data.start, data.end)
        revision, length = data.revision, -run.length
        if data.revision not in {attempt.revision, attempt.revision + 1} or back.revision != run.revision:
            yield f"has revision {data.revision}, and takes back one of {back.revision}"
    else:
        yield f"takes back what is not recorded on the invoice of {back.period}"
        return
    if run.terms >= len(account.job.terms):
        yield "refers to terms of the job that no event contains"
        return
    if run.price_version is not None and run.price_version not in factory.state.book.names:
        yield f"is priced by {run.price_version!r}, which the price book lacks"
        return
    if back is None and run.record == "excess":
        used = sum(one.length for one in attempt.recorded if one.record == "usage" and one.kind != "reserved")
        length = added(used, factory.state.book.rules(run.price_version))
    expected = factory.recorded(attempt, run, revision, length, back)
    for name in UsageRecorded.__struct_fields__ if expected != data else ():
        should, found = getattr(expected, name), getattr(data, name)
        if should != found and name == "charges":
            yield f"charges {_sum(found)}; expected {_sum(should)}"
        elif should != found:
            yield f"has {name} {found!r}; expected {should!r}"


def _of_withdrawal(data: UsageWithdrawn, factory: EventFactory, attempt: Attempt) -> Iterator[str]:
    """Yield the faults of a withdrawal. Withdrawals of earlier builds lack tenant and amount."""
    state, account = factory.state, factory.account
    found = _standing(attempt, data, data.record, data.period)
    void = [part(run, max(run.start, data.start), min(run.end, data.end)) for run in found]
    if not void:
        yield f"takes back what is not recorded on the invoice of {data.period}"
        return
    if data.uid != attempt.uid:
        yield f"has uid {data.uid!r}; expected {attempt.uid!r}"
    if any(run.terms >= len(account.job.terms) for run in void):
        return  # reported for the record that refers to them
    whose = sorted({(account.job.terms[run.terms].tenant, account.job.terms[run.terms].kind) for run in void})
    if (data.tenant or data.amount is not None) and whose != [(data.tenant, data.job_kind)]:
        yield f"is of {(data.tenant, data.job_kind)}; expected {', '.join(map(str, whose))}"
    if all(run.price_version is None or run.price_version in state.book.names for run in void):
        amount = plain(total(charge.amount for run in void for charge in charges_in(state, account, run)))
        if data.amount != amount and (data.amount is not None or data.tenant):
            yield f"takes back {data.amount}; expected {amount}"


def _standing(attempt: Attempt, data: UsageRecorded | UsageWithdrawn, record: str, invoice: str | None) -> list[Run]:
    """Return the recorded runs of a kind within the times of an event; `invoice`: on that month's alone."""
    return [
        run for run in attempt.recorded
        if run.record == record and invoice in {None, run.invoice} and run.start < data.end and run.end > data.start
    ]  # fmt: skip


def charges_in(state: State, account: JobAccount, run: Run) -> list[Charge]:
    """Return the charges of a run by the prices and terms of a shard's state."""
    return charged(state.book, account.job.terms[run.terms], run, run.length)[1]


def _sum(charges: Iterable[Charge]) -> str:
    return ", ".join(f"{charge.meter} {charge.quantity} x {charge.price} = {charge.amount}" for charge in charges) or "nothing"


def stretch(run: Run) -> str:
    """Return a description of a run: record, kind, start and end."""
    return f"{run.record} {run.kind} from {format_time(run.start)} to {format_time(run.end)}"
