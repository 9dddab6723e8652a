"""How a billing shard's state follows the truth that it takes and its own output. Total: nothing here can fail."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from operator import itemgetter
from typing import Any, Final

from msgspec.structs import replace

from engine.billing.book import applied
from engine.billing.calendar import month_named, next_hour
from engine.billing.charges import FREE
from engine.billing.corrections import without
from engine.billing.persist import BOOK, head_record, known_of, node_record, page_record
from engine.billing.state import PAGE, Attempt, End, Job, Known, Node, NodeFact, Point, Run, Size, State, Terms
from engine.events import Data, Event
from engine.events.billing import PeriodClosed, UsageFailed, UsageRecorded, UsageReviewed, UsageWithdrawn
from engine.events.inputs import NodeDeleted, NodeObserved, ObjectApplied
from engine.events.jobs import (
    AttemptBound,
    AttemptChanged,
    AttemptEnded,
    AttemptEvent,
    AttemptLateFact,
    AttemptRunning,
    AttemptStarted,
    AttemptTerminating,
    JobForgotten,
    JobOpened,
    JobPhaseChanged,
    JobRevised,
)
from engine.events.times import EARLIEST, SECOND, Micros
from statemachines.spec import JobSpec, Requests
from statemachines.vocabulary import FINISHED_JOB_PHASES, RANKS

__all__ = ["absorb", "evolve", "first_review", "first_sweep", "mark_due", "run_of", "waiting_at"]

_REVIEW_AFTER: Final = 60 * SECOND
"""From the first reason for reviews to the first of them: many nodes are learnt of at once, and a job is reviewed once for all."""
_FEW: Final = 64
"""Attempts of a job that are looked at at once; of a larger one step by step."""
_UNKNOWN: Final = 64
"""Nodes that a job waits to know of by name."""
_ANY: Final = "*"
_BOOKS: Final = 64
"""Price books whose ids are kept: a recovery, or whoever repeats itself, does not apply an older one again."""
_GONE: Final = 400 * 86_400 * SECOND
"""How long a node that is gone is remembered."""
_PREEMPTIBLE: Final = "volcano.sh/preemptable"


# --- what is absorbed ---------------------------------------------------------------------------------------------------------


def absorb(state: State, event: Event[Data]) -> None:
    """Take one fact of the cluster, or one job event."""
    state.changed = []
    data = event.data
    if data.TOPIC == "cluster":
        fact = _CLUSTER.get(type(data))
        if fact is not None:
            fact(state, event)
        return
    known = known_of(state, event.subject)
    if known is None:
        if not isinstance(data, JobOpened):
            return
        known = state.jobs[event.subject] = Known(Job(event.subject, event.clusterid))
    job = known.job
    if event.sequence <= job.seen:  # its record is newer than the point from which a recovery goes on
        return
    job.seen = event.sequence
    state.touched[head_record(job.id)] = None
    if isinstance(data, AttemptEvent):
        _absorb_attempt(state, known, data, event)
    elif (handler := _JOB.get(type(data))) is not None:
        handler(state, known, event)


def _absorb_attempt(state: State, known: Known, data: AttemptEvent, event: Event[Any]) -> None:
    slot = (data.task, data.index, data.attempt)
    if isinstance(data, AttemptStarted):
        if slot not in known.by_slot:
            _start(state, known, slot, data, event)
        return
    attempt, handler = known.by_slot.get(slot), _ATTEMPT.get(type(data))
    if attempt is not None and handler is not None:
        handler(state, known.job, attempt, event)
        _touch(state, known.job.id, attempt)


def _touch(state: State, job: str, attempt: Attempt) -> None:
    state.touched[page_record(job, attempt.ordinal)] = None


def _start(state: State, known: Known, slot: tuple[str, int, int], data: AttemptStarted, event: Event[Any]) -> None:
    job = known.job
    attempt = Attempt(
        *slot,
        ordinal=job.count,
        uid=data.uid,
        created=Point(event.time, event.id),
        sizes=[(EARLIEST, event.id, _size(data.requests))],
    )
    job.count += 1
    job.open += 1
    known.attempts.append(attempt)
    known.by_slot[slot] = attempt
    _schedule(state, job.id, attempt, event.time, bills=state.book.bills_queued)
    _touch(state, job.id, attempt)


def _size(requests: Requests) -> Size:
    return Size(requests.cpu_milli, requests.memory_bytes, requests.gpu)


def _schedule(state: State, job: str, attempt: Attempt, begin: Micros, *, bills: bool = True) -> None:
    """Have an open attempt recorded at the first hour mark behind a moment, unless it already waits for one."""
    if bills and attempt.due is None and attempt.end is None:
        attempt.due = next_hour(max(begin, attempt.marked))
        state.at_mark(attempt.due, job, attempt.ordinal)
        _touch(state, job, attempt)


def _bound(state: State, job: Job, attempt: Attempt, event: Event[AttemptBound]) -> None:
    data = event.data
    attempt.bound = Point(event.time, event.id, data.inferred)
    attempt.node, attempt.node_type, attempt.gpu_model = data.node or None, data.node_type, data.gpu_model
    _await_node(state, job, attempt)
    _schedule(state, job.id, attempt, event.time, bills=state.book.bills_bound)
    _look_back(state, job, attempt, event.time)


def _await_node(state: State, job: Job, attempt: Attempt) -> None:
    """Note that nothing is known of an attempt's node."""
    if attempt.node is None or (job.cluster, attempt.node) in state.nodes or attempt.node in job.unknown or _ANY in job.unknown:
        return
    name = attempt.node if len(job.unknown) < _UNKNOWN else _ANY
    job.unknown = [*job.unknown, name]
    state.unknown.setdefault((job.cluster, name), {})[job.id] = None


def _running(state: State, job: Job, attempt: Attempt, event: Event[AttemptRunning]) -> None:
    attempt.running = Point(event.time, event.id, event.data.inferred)
    _schedule(state, job.id, attempt, event.time)
    _look_back(state, job, attempt, event.time)


def _look_back(state: State, job: Job, attempt: Attempt, since: Micros) -> None:
    """Have an attempt looked at now, where it was recorded beyond what has changed; else the next mark, or its end, comes to it."""
    if since < attempt.marked:
        state.changed.append((job.id, attempt.ordinal))


def _terminating(state: State, job: Job, attempt: Attempt, event: Event[AttemptTerminating]) -> None:
    attempt.terminating = Point(event.time, event.id)
    _look_back(state, job, attempt, event.time)


def _changed(state: State, job: Job, attempt: Attempt, event: Event[AttemptChanged]) -> None:
    data = event.data
    attempt.uid = attempt.uid or data.uid
    if data.requests is not None:
        insort(attempt.sizes, (event.time, event.id, _size(data.requests)), key=lambda size: size[0])
    if data.started is not None and attempt.running is None:
        attempt.running = Point(data.started, event.id)
        _schedule(state, job.id, attempt, data.started)
        _look_back(state, job, attempt, data.started)
    if data.requests is not None:
        _look_back(state, job, attempt, event.time)


def _ended(state: State, job: Job, attempt: Attempt, event: Event[AttemptEnded]) -> None:
    data = event.data
    if attempt.end is not None:
        return
    if data.started is not None and attempt.running is None:
        attempt.running = Point(data.started, event.id)
    if attempt.node is None and data.node:
        attempt.node = data.node
        _await_node(state, job, attempt)
    attempt.end = End(event.time, event.id, RANKS[data.rank], data.phase, data.reason, data.inferred, data.replaceable)
    attempt.due = None
    job.open -= 1
    state.changed.append((job.id, attempt.ordinal))


def _late(state: State, job: Job, attempt: Attempt, event: Event[AttemptLateFact]) -> None:
    data, end = event.data, attempt.end
    attempt.uid = attempt.uid or data.uid
    if end is None:
        return
    if data.started is not None and attempt.running is None:
        attempt.running = Point(data.started, event.id)
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
}


# --- jobs ---------------------------------------------------------------------------------------------------------------------


def _opened(state: State, known: Known, event: Event[JobOpened]) -> None:
    data, job = event.data, known.job
    if not job.terms:
        if state.sweep is not None and job.id > state.sweep:  # as after a recovery
            heappush(state.sweeping, job.id)
        job.terms = [_terms(data, data.spec)]
        job.since = [(EARLIEST, event.id, 0)]
        job.owner = data.owner


def _terms(data: JobOpened, spec: JobSpec) -> Terms:
    return Terms(
        data.tenant or data.namespace,
        data.project,
        spec.queue,
        data.user,
        data.namespace,
        data.kind,
        data.name,
        tuple(sorted(data.labels.items())),
        spec.priority_class,
        data.labels.get(_PREEMPTIBLE) == "true",
    )


def _revised(state: State, known: Known, event: Event[JobRevised]) -> None:
    data, job = event.data, known.job
    if not job.since:
        return
    last = job.terms[job.since[-1][2]]
    given = {
        name: value
        for name in ("tenant", "project", "user", "namespace", "kind", "name")
        if (value := getattr(data, name)) is not None
    }
    if data.labels is not None:
        given |= {"labels": tuple(sorted(data.labels.items())), "preemptible": data.labels.get(_PREEMPTIBLE) == "true"}
    if data.spec is not None:
        given |= {"queue": data.spec.queue, "priority_class": data.spec.priority_class}
    terms = replace(last, **given)
    first, job.owner = data.owner and not job.owner, job.owner or data.owner
    if terms == last:
        return
    job.terms = [*job.terms, terms]
    number = len(job.terms) - 1
    # What is learnt from the owner of pods that were seen before it was so from the beginning.
    # Of one moment the last word counts.
    since = [*job.since, (event.time, event.id, number)]
    job.since = [(EARLIEST, event.id, number)] if first else sorted(since, key=itemgetter(0))
    _look_again(state, known, event)


def _look_again(state: State, known: Known, event: Event[Any]) -> None:
    """Have all attempts of a job looked at again: now, or step by step if they are many."""
    if len(known.attempts) <= _FEW:
        state.changed += [(known.job.id, attempt.ordinal) for attempt in known.attempts]
    else:
        _review(state, known, event.recordedtime)


def _review(state: State, known: Known, now: Micros) -> None:
    job = known.job
    if job.review < 0:
        _begin_review(state, job, now + _REVIEW_AFTER)
    job.review = 0
    state.touched[head_record(job.id)] = None


def _begin_review(state: State, job: Job, at: Micros) -> None:
    job.review_at = at
    heappush(state.reviews, (at, job.id))


def _phase(_state: State, known: Known, event: Event[JobPhaseChanged]) -> None:
    known.job.finished = event.data.phase in FINISHED_JOB_PHASES


def _forgotten(state: State, known: Known, _event: Event[JobForgotten]) -> None:
    job = known.job
    for ordinal in range(0, job.count, PAGE):
        state.touched[page_record(job.id, ordinal)] = None
    for node in job.unknown:
        _no_longer_unknown(state, job, node)
    del state.jobs[job.id]


def _no_longer_unknown(state: State, job: Job, node: str) -> None:
    jobs = state.unknown.get((job.cluster, node))
    if jobs is not None:
        jobs.pop(job.id, None)
        if not jobs:
            del state.unknown[job.cluster, node]


_JOB: Final[dict[type[Data], Callable[[State, Known, Event[Any]], None]]] = {
    JobOpened: _opened,
    JobRevised: _revised,
    JobPhaseChanged: _phase,
    JobForgotten: _forgotten,
}


# --- the cluster --------------------------------------------------------------------------------------------------------------


def _node(state: State, event: Event[NodeObserved]) -> None:
    data, place = event.data, (event.clusterid, event.data.name)
    node = state.nodes.get(place)
    if node is None:
        node = state.nodes[place] = Node()
    elif node.gone is not None:
        node.gone = None
        state.touched[node_record(place)] = None
    fact = NodeFact(event.time, data.type, data.gpu_model)
    before = next((known for known in reversed(node.facts) if known.since <= fact.since), None)
    if before is None or (before.node_type, before.gpu_model) != (fact.node_type, fact.gpu_model):
        if fact not in node.facts:
            node.facts = sorted([*node.facts, fact], key=lambda known: known.since)[-_UNKNOWN:]
        state.touched[node_record(place)] = None
    for name in (data.name, _ANY):
        for ident in list(state.unknown.get((event.clusterid, name), ())):
            known = known_of(state, ident)
            if known is None:
                continue
            if name != _ANY:  # what a job waits for without naming it may be another node
                known.job.unknown = [node for node in known.job.unknown if node != name]
                _no_longer_unknown(state, known.job, name)
            _review(state, known, event.recordedtime)


def _node_gone(state: State, event: Event[NodeDeleted]) -> None:
    place = (event.clusterid, event.data.name)
    node = state.nodes.pop(place, None)
    if node is not None:
        node.gone = event.recordedtime
        state.nodes[place] = node
        state.touched[node_record(place)] = None
    for other, known in list(state.nodes.items()):
        if known.gone is None:
            continue
        if known.gone + _GONE > event.recordedtime:
            break
        del state.nodes[other]
        state.touched[node_record(other)] = None


def _object(state: State, event: Event[ObjectApplied]) -> None:
    if event.data.kind != "PriceBook" or event.id in state.books:
        return
    state.books = [*state.books, event.id][-_BOOKS:]
    state.touched[BOOK] = None
    book = applied(state.book, event)
    if book is None:
        return
    state.book = book
    state.sweeps += 1
    state.sweeping = list(state.ids())
    heapify(state.sweeping)
    state.sweep = "" if state.sweeping else None
    state.sweep_at = event.recordedtime + _REVIEW_AFTER if state.sweeping else None


def _period(state: State, event: Event[PeriodClosed]) -> None:
    name = event.data.period
    month = month_named(name, state.book.time_zone)
    if name not in state.periods and month is not None and month.end <= event.recordedtime:
        state.periods = {**state.periods, name: event.id}
        state.touched[BOOK] = None


_CLUSTER: Final[dict[type[Data], Callable[[State, Event[Any]], None]]] = {
    NodeObserved: _node,
    NodeDeleted: _node_gone,
    ObjectApplied: _object,
    PeriodClosed: _period,
}


# --- own output ---------------------------------------------------------------------------------------------------------------


def evolve(state: State, event: Event[Data]) -> None:
    """Apply one event of the billing stage."""
    data = event.data
    if not isinstance(data, UsageRecorded | UsageWithdrawn | UsageReviewed | UsageFailed):
        return  # a shard's own bookkeeping
    known = known_of(state, event.subject)
    if known is not None and event.sequence <= known.job.written:
        known = None  # its record is newer than the point from which a recovery goes on
    if known is not None:
        known.job.written = event.sequence
        state.touched[head_record(known.job.id)] = None
    if isinstance(data, UsageReviewed):
        _reviewed(state, known, data, event)
        return
    if known is None or (attempt := known.by_slot.get((data.task, data.index, data.attempt))) is None:
        return
    _touch(state, known.job.id, attempt)
    if isinstance(data, UsageFailed):
        attempt.fault = data.error
        return
    attempt.revision, attempt.fault = data.revision, None
    if isinstance(data, UsageWithdrawn):
        attempt.recorded = without(attempt.recorded, data.record, data.start, data.end, data.period)
    elif data.reverses is not None:
        attempt.recorded = without(attempt.recorded, data.reverses.record, data.start, data.end, data.reverses.period)
    else:
        _record(attempt, data)
        if data.at_mark:
            _marked(state, known.job.id, attempt, data.end)


def _marked(state: State, job: str, attempt: Attempt, mark: Micros) -> None:
    """Note up to where an open attempt was recorded; whoever folds facts before their consequences has not awaited it (`due`)."""
    if attempt.end is None and mark > attempt.marked and (attempt.due is None or mark >= attempt.due):
        attempt.marked, attempt.due = mark, next_hour(mark)
        state.at_mark(attempt.due, job, attempt.ordinal)


def run_of(data: UsageRecorded) -> Run:
    """Return the run that an event records."""
    return Run(
        data.record,
        data.start,
        data.end,
        data.length,
        data.kind,
        data.begun,
        data.ended,
        Size(data.cpu_milli, data.memory_bytes, data.gpu),
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


def _record(attempt: Attempt, data: UsageRecorded) -> None:
    run, recorded = run_of(data), attempt.recorded
    last = recorded[-1] if recorded else None
    if last is not None and last.end == run.start and last.record == run.record == "usage" and _continues(last, run):
        attempt.recorded = [
            *recorded[:-1],
            replace(run, start=last.start, length=run.end - last.start, inferred_start=last.inferred_start),
        ]
    elif last is None or (last.record == "usage" and last.start < run.start) or run.record == "excess":
        attempt.recorded = [*recorded, run]
    else:
        attempt.recorded = sorted([*recorded, run], key=lambda known: (known.record == "excess", known.start))


def _continues(last: Run, run: Run) -> bool:
    """Tell whether a run goes on with another one, so that both stand as one."""
    return (
        replace(
            last,
            start=run.start,
            end=run.end,
            length=run.length,
            ended=run.ended,
            inferred_start=run.inferred_start,
            inferred_end=run.inferred_end,
        )
        == run
    )


def _reviewed(state: State, known: Known | None, data: UsageReviewed, event: Event[Data]) -> None:
    ident = event.subject
    if data.mark is not None:
        if known is not None and data.next < len(known.attempts):
            attempt = known.attempts[data.next]
            _touch(state, ident, attempt)
            _marked(state, ident, attempt, data.mark)
        return
    if data.sweep is None:
        if known is not None and known.job.review < 0 <= data.next:
            _begin_review(state, known.job, event.recordedtime)
        if known is not None:
            known.job.review = data.next
    elif data.sweep == state.sweeps and state.sweep is not None and ident > state.sweep:
        state.sweep = ident
        state.touched[BOOK] = None
        if first_sweep(state) is None:
            state.sweep = state.sweep_at = None
    if known is not None and data.next < 0:
        for attempt in known.attempts:  # the price book may charge now for what it did not charge for
            _schedule_by_book(state, ident, attempt)


def _schedule_by_book(state: State, job: str, attempt: Attempt) -> None:
    bound = attempt.bound
    if state.book.bills_queued:
        _schedule(state, job, attempt, attempt.created.time)
    elif bound is not None and state.book.bills_bound:
        _schedule(state, job, attempt, bound.time)


# --- what is due --------------------------------------------------------------------------------------------------------------


def first_review(state: State) -> Job | None:
    """Return the job whose review goes on next."""
    while state.reviews:
        at, ident = state.reviews[0]
        known = state.jobs.get(ident)
        if known is not None and known.job.review >= 0 and known.job.review_at == at:
            return known.job
        heappop(state.reviews)
    return None


def first_sweep(state: State) -> str | None:
    """Return the job to which the review of all comes next; where there is none left, the review is over."""
    while state.sweeping:
        ident = state.sweeping[0]
        if state.sweep is not None and ident > state.sweep and (ident in state.jobs or ident in state.closed):
            return ident
        heappop(state.sweeping)
    return None


def waiting_at(state: State, mark: Micros, ident: str, ordinal: int) -> tuple[Known, Attempt] | None:
    """Return an attempt with its job if it still waits for an hour mark."""
    known = state.jobs.get(ident)
    if known is None or ordinal >= len(known.attempts) or known.attempts[ordinal].due != mark:
        return None
    return known, known.attempts[ordinal]


def mark_due(state: State) -> Micros | None:
    """Return the first hour mark at which an attempt is to be recorded."""
    while state.hours:
        mark = state.hours[0]
        due = state.marks[mark]
        while due.place < len(due.waiting):
            if waiting_at(state, mark, *due.waiting[due.place]) is not None:
                return mark
            due.place += 1
        heappop(state.hours)
        del state.marks[mark]
    return None
