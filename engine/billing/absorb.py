"""Application of cluster facts and job events to a billing shard's state; must not fail."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Mapping
from heapq import heapify
from operator import itemgetter
from typing import Any, Final

from msgspec.structs import replace

from engine.billing.book import applied
from engine.billing.calendar import month_named
from engine.billing.forgetting import forgotten
from engine.billing.nodes import await_node, node_gone, node_observed, note_use
from engine.billing.persist import BOOK, account_of, head_record, touch
from engine.billing.state import Attempt, End, Job, JobAccount, Point, Reservation, Size, State, Terms
from engine.billing.timers import REVIEW_AFTER, review, schedule, schedule_waiting
from engine.events import Data, Event
from engine.events.attempts import (
    AttemptBound,
    AttemptChanged,
    AttemptEnded,
    AttemptEvent,
    AttemptLateFact,
    AttemptMoved,
    AttemptRunning,
    AttemptStarted,
    AttemptTerminating,
)
from engine.events.billing import PeriodClosed
from engine.events.inputs import NodeDeleted, NodeObserved, ObjectApplied
from engine.events.job_state import LabelledJob, revised
from engine.events.jobs import JobForgotten, JobOpened, JobPhaseChanged, JobRevised
from engine.events.times import EARLIEST, Micros
from statemachines.spec import Requests
from statemachines.vocabulary import FINISHED_JOB_PHASES, RANKS

_FEW: Final = 64
"""Number of attempts above which a job is reviewed in steps."""
_CHANGES: Final = 100
"""Maximum number of stored changes of a job's terms and of an attempt's size, and of a job's reservations, because each adds a
recorded run to every attempt. Later changes do not affect the bill."""
_RELABELLED: Final = 50
"""Number of changes after which label changes of a job no longer affect the bill: some jobs report their progress in a label."""
_LABELS: Final = 4_096
"""Maximum size of the labels on a bill (characters of names and values), taken in order of name. Every record has them."""
_BOOKS: Final = 64
"""Number of price books whose event ids are stored, so that a repeated older book is not applied again."""
_PREEMPTIBLE: Final = "volcano.sh/preemptable"


def absorb(state: State, event: Event[Data], offset: int | None = None, /) -> None:
    """Apply one cluster fact or one job event (`engine.processor.stage.Stage.absorb`)."""
    state.changed = []
    data = event.data
    if data.TOPIC == "cluster":
        fact = _CLUSTER.get(type(data))
        if fact is not None:
            fact(state, event, offset)
        return
    account = account_of(state, event.subject)
    if account is None:
        if not isinstance(data, JobOpened):
            return
        account = state.jobs[event.subject] = JobAccount(Job(event.subject, event.clusterid, born=state.sweeps), [])
        state.recent.append(event.subject)
    job = account.job
    if event.sequence <= job.seen:  # the snapshot already contains it
        return
    job.seen = event.sequence
    state.touched[head_record(job.id)] = None
    if isinstance(data, AttemptEvent):
        _absorb_attempt(state, account, data, event)
    elif (handler := _JOB.get(type(data))) is not None:
        handler(state, account, event)


def _absorb_attempt(state: State, account: JobAccount, data: AttemptEvent, event: Event[Any]) -> None:
    attempt = account.find(data.task, data.index, data.attempt)
    if isinstance(data, AttemptStarted):
        if attempt is None:
            _start(state, account, data, event)
        return
    handler = _ATTEMPT.get(type(data))
    if attempt is not None and handler is not None:
        handler(state, account.job, attempt, event)
        touch(state, account.job.id, attempt)


def _start(state: State, account: JobAccount, data: AttemptStarted, event: Event[Any]) -> None:
    job = account.job
    attempt = Attempt(
        data.task,
        data.index,
        data.attempt,
        ordinal=job.count,
        uid=data.uid,
        created=Point(event.time, event.id),
        sizes=_earlier_sizes(state, event) or [(EARLIEST, "", _size(data.requests))],
    )
    job.count += 1
    job.open += 1
    account.add(attempt)
    schedule_waiting(state, job, attempt, event)
    touch(state, job.id, attempt)


def _earlier_sizes(state: State, event: Event[AttemptStarted]) -> list[tuple[Micros, str, Size]]:
    """Return the sizes of a moved pod in its former job, with this event as their source; empty if it did not move."""
    source = event.data.moved_from
    left = None if source is None else account_of(state, source.job)
    moved = None if source is None or left is None else left.find(source.task, source.index, source.attempt)
    return [] if moved is None else [(since, told and event.id, size) for since, told, size in moved.sizes]


def _size(requests: Requests) -> Size:
    return Size(requests.cpu_milli, requests.memory_bytes, requests.gpu, requests.gpu_nano)


def _bound(state: State, job: Job, attempt: Attempt, event: Event[AttemptBound]) -> None:
    data = event.data
    attempt.bound = Point(event.time, event.id, data.inferred)
    attempt.node, attempt.node_type, attempt.gpu_model = data.node or None, data.node_type, data.gpu_model
    await_node(state, job, attempt)
    note_use(state, job, attempt)
    schedule(state, job.id, attempt, event.time, event, bills="bound" not in state.book.unbilled)
    if attempt.recorded:  # its waiting was charged, perhaps at another price
        state.changed.append((job.id, attempt.ordinal))
    else:
        _correct_since(state, job, attempt, event.time)


def _running(state: State, job: Job, attempt: Attempt, event: Event[AttemptRunning]) -> None:
    attempt.running = Point(event.time, event.id, event.data.inferred)
    schedule(state, job.id, attempt, event.time, event)
    _correct_since(state, job, attempt, event.time)


def _correct_since(state: State, job: Job, attempt: Attempt, since: Micros) -> None:
    """Mark an attempt for correction if it is recorded beyond the change; otherwise its next hour mark or its end records it."""
    if since < attempt.marked:
        state.changed.append((job.id, attempt.ordinal))


def _terminating(state: State, job: Job, attempt: Attempt, event: Event[AttemptTerminating]) -> None:
    attempt.terminating = Point(event.time, event.id)
    _correct_since(state, job, attempt, event.time)


def _changed(state: State, job: Job, attempt: Attempt, event: Event[AttemptChanged]) -> None:
    data = event.data
    attempt.uid = attempt.uid or data.uid
    requests = data.requests if len(attempt.sizes) <= _CHANGES else None
    if requests is not None:
        insort(attempt.sizes, (event.time, event.id, _size(requests)), key=lambda size: size[0])
    if data.started is not None and attempt.running is None:
        attempt.running = Point(data.started, event.id)
        schedule(state, job.id, attempt, data.started, event)
        _correct_since(state, job, attempt, data.started)
    if requests is not None:
        _correct_since(state, job, attempt, event.time)


def _ended(state: State, job: Job, attempt: Attempt, event: Event[AttemptEnded]) -> None:
    data = event.data
    if attempt.end is not None:
        return
    if data.started is not None and attempt.running is None:
        attempt.running = Point(data.started, event.id)
    if attempt.node is None and data.node:
        attempt.node = data.node
        await_node(state, job, attempt)
    attempt.end = End(event.time, event.id, RANKS[data.rank], data.phase, data.reason, data.inferred, data.replaceable)
    state.set_due(job.id, attempt, None)
    job.open -= 1
    state.changed.append((job.id, attempt.ordinal))


def _moved(state: State, job: Job, attempt: Attempt, event: Event[AttemptMoved]) -> None:
    """Withdraw all records of a moved attempt by an end at its creation; the other job is billed for the whole attempt."""
    attempt.end = End(attempt.created.time, event.id, RANKS["node"], "Lost", None, inferred=False, replaceable=False)
    state.set_due(job.id, attempt, None)
    job.open -= 1
    state.changed.append((job.id, attempt.ordinal))


def _late(state: State, job: Job, attempt: Attempt, event: Event[AttemptLateFact]) -> None:
    data, end = event.data, attempt.end
    attempt.uid = attempt.uid or data.uid
    if end is None:
        return
    if data.started is not None and attempt.running is None:
        attempt.running = Point(data.started, event.id)
    if data.terminating is not None and attempt.terminating is None:
        attempt.terminating = Point(data.terminating, event.id)
    if data.ended is not None and (RANKS[data.rank], data.ended) < (end.rank, end.time):
        attempt.end = End(
            data.ended, event.id, RANKS[data.rank], end.phase, end.reason, inferred=False, replaceable=end.replaceable
        )
    state.changed.append((job.id, attempt.ordinal))


_ATTEMPT: Final[dict[type[Data], Callable[[State, Job, Attempt, Event[Any]], None]]] = {
    AttemptBound: _bound,
    AttemptRunning: _running,
    AttemptTerminating: _terminating,
    AttemptChanged: _changed,
    AttemptEnded: _ended,
    AttemptLateFact: _late,
    AttemptMoved: _moved,
}


# --- jobs ---------------------------------------------------------------------------------------------------------------------


def _opened(_: State, account: JobAccount, event: Event[JobOpened]) -> None:
    data, job = event.data, account.job
    if not job.terms:
        job.terms = [_terms(data)]
        job.since = [(EARLIEST, event.id, 0)]
        job.owner = data.owner


def _terms(data: JobOpened) -> Terms:
    spec = data.spec
    return Terms(
        data.tenant or data.namespace,
        data.project,
        spec.queue,
        data.user,
        data.namespace,
        data.kind,
        data.name,
        priority_class=spec.priority_class,
        **_labelled(data.labels),
    )


def _labelled(labels: Mapping[str, str]) -> dict[str, Any]:
    kept, room = [], _LABELS
    for name, value in sorted(labels.items()):
        room -= len(name) + len(value)
        if room < 0:
            break
        kept.append((name, value))
    return {"labels": tuple(kept), "preemptible": labels.get(_PREEMPTIBLE) == "true"}


def _revised(state: State, account: JobAccount, event: Event[JobRevised]) -> None:
    data, job = event.data, account.job
    if not job.since:
        return
    last = job.present
    given = revised(data, LabelledJob.REVISED)
    if data.labels is not None:
        given |= _labelled(data.labels)
    if data.spec is not None:
        given |= {"priority_class": data.spec.priority_class}
    first, job.owner = data.owner and not job.owner, job.owner or data.owner
    changes = 0 if first else len(job.since)
    if changes > _RELABELLED:
        given.pop("labels", None)
    terms = replace(last, **given)
    if terms == last or changes > _CHANGES:
        return
    job.terms = [*job.terms, terms]
    number = len(job.terms) - 1
    # The first owner of pods that were observed before it is valid from the beginning. At equal times the last event wins.
    since = [*job.since, (event.time, event.id, number)]
    job.since = [(EARLIEST, event.id, number)] if first else sorted(since, key=itemgetter(0))
    _review_all(state, account, event)


def _review_all(state: State, account: JobAccount, event: Event[Any]) -> None:
    """Review all attempts of a job, in steps if there are many."""
    if len(account.attempts) <= _FEW:
        state.changed += [(account.job.id, attempt.ordinal) for attempt in account.attempts]
    else:
        review(state, account, event.recordedtime, event.id)


def _phase(state: State, account: JobAccount, event: Event[JobPhaseChanged]) -> None:
    job, data = account.job, event.data
    job.finished = data.phase in FINISHED_JOB_PHASES
    last = job.reservations[-1] if job.reservations else None
    if data.reserved is not None and len(job.reservations) < _CHANGES:
        job.reservations = [*job.reservations, Reservation(event.time, data.reserved, event.id)]
    elif data.phase != "Pending" and last is not None and event.time < last.until:  # it has the reserved resources, or needs none
        job.reservations = [*job.reservations[:-1], last._replace(until=event.time)]
    else:
        return
    for attempt in account.attempts:
        if attempt.bound is None:
            schedule_waiting(state, job, attempt, event)
    _review_all(state, account, event)


def _forgotten(state: State, account: JobAccount, event: Event[JobForgotten]) -> None:
    forgotten(state, account, event.recordedtime)


_JOB: Final[dict[type[Data], Callable[[State, JobAccount, Event[Any]], None]]] = {
    JobOpened: _opened,
    JobRevised: _revised,
    JobPhaseChanged: _phase,
    JobForgotten: _forgotten,
}


# --- the cluster --------------------------------------------------------------------------------------------------------------


def _object(state: State, event: Event[ObjectApplied], _: int | None) -> None:
    if event.data.kind != "PriceBook" or event.id in state.books:
        return
    state.books = [*state.books, event.id][-_BOOKS:]
    state.touched[BOOK] = None
    book = applied(state.book, event)
    if book is None:
        return
    state.book = book
    state.sweeps += 1
    state.sweeping = [ident for ident in state.ids() if state.ahead.get(ident, 0) < state.sweeps]
    heapify(state.sweeping)
    state.sweep_at, state.sweep_cause = event.recordedtime + REVIEW_AFTER, event.id


def _period(state: State, event: Event[PeriodClosed], _: int | None) -> None:
    name = event.data.period
    month = month_named(name, state.book.time_zone)
    if name not in state.periods and month is not None and month.end <= event.recordedtime:
        state.periods = {**state.periods, name: event.id}
        state.touched[BOOK] = None


_CLUSTER: Final[dict[type[Data], Callable[[State, Event[Any], int | None], None]]] = {
    NodeObserved: node_observed,
    NodeDeleted: node_gone,
    ObjectApplied: _object,
    PeriodClosed: _period,
}
