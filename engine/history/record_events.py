"""Search in the log for the events behind a record of the bill."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain
from typing import Any, Final

from engine.billing.absorb import absorb
from engine.billing.records import Record
from engine.billing.state import State, Terms
from engine.billing.usage_segments import worth_of
from engine.events import Data, Event
from engine.events.attempts import AttemptBound, AttemptChanged, AttemptEnded, AttemptStarted
from engine.events.billing import UsageRecorded
from engine.events.inputs import NodeObserved
from engine.events.jobs import JobOpened, JobRevised
from engine.history.reading import cluster_facts
from engine.log.port import Searchable

_SHOWN: Final = ("tenant", "project", "user", "queue", "priority_class", "preemptible")
"""Terms that are shown with the event that set them."""
_NOTHING: Final = Terms("", "", "", "", "", "", "", (), None, preemptible=False)


def events_behind(job: Sequence[Event[Data]], record: Record, named: Collection[str] = ()) -> list[Event[Data]]:
    """Return the job events behind a record: the requests of its pod, then the start and end of its usage.

    Args:
        job: all events of the record's job.
        record: the record.
        named: ids of further events to return.
    """
    requested, bounds = None, []
    for event in job:
        data = event.data
        if (
            isinstance(data, AttemptStarted | AttemptChanged)
            and slot_of(data) == slot_of(record.run)
            and data.requests is not None
            and (requested is None or event.time <= record.start)
        ):
            requested = event
        if event.id in record.events or event.id in named:
            bounds.append(event)
    return bounds if requested is None or requested in bounds else [requested, *bounds]


def node_fact(log: Searchable, job: Sequence[Event[Data]], run: Event[UsageRecorded]) -> Event[Data] | None:
    """Return the fact with a run's node type and GPU model.

    It is the last such fact about the node before the attempt was bound to it, otherwise the first one about it. `None`: the run
    has neither, or no single fact has both.
    """
    data = run.data
    bound = [
        (event.time, event.data.node)
        for event in job
        if isinstance(event.data, AttemptBound) and slot_of(event.data) == slot_of(data)
    ]
    kind = data.node_type, data.gpu_model
    if not bound or kind == (None, None):
        return None
    moment, node = bound[-1]
    known = (
        event
        for event in cluster_facts(log)
        if isinstance(event.data, NodeObserved)
        and (event.clusterid, event.data.name) == (run.clusterid, data.node or node)
        and event.recordedtime <= run.recordedtime
    )
    facts = sorted(known, key=lambda fact: fact.time)
    # The shard may not have read all of them then, so an earlier fact must agree with the run.
    found = [fact for fact in facts if fact.time <= moment or fact is facts[0]]
    return next((fact for fact in reversed(found) if _kind(fact) == kind), None)


def _kind(fact: Event[Any]) -> tuple[str | None, str | None]:
    return fact.data.type, fact.data.gpu_model


def terms_behind(job: Sequence[Event[Data]], run: Event[UsageRecorded]) -> dict[str, tuple[Event[Data], dict[str, object]]]:
    """Return the job events that set the terms of a run, by id, each with the terms that it set and no later event changed."""
    given: list[dict[str, Event[Data]]] = []
    state = State()
    for event in job:
        if not isinstance(event.data, JobOpened | JobRevised):
            continue
        known = state.jobs.get(run.subject)
        last = known.job.since[-1][2] if known is not None else None
        absorb(state, event)
        terms = state.jobs[run.subject].job.terms if run.subject in state.jobs else []
        if len(terms) > len(given):
            before, kept = (_NOTHING, {}) if last is None else (terms[last], given[last])
            names = (name for name in Terms.__struct_fields__ if getattr(terms[-1], name) != getattr(before, name))
            given.append(kept | dict.fromkeys(names, event))
    found: dict[str, tuple[Event[Data], dict[str, object]]] = {}
    if run.data.terms < len(given):
        for name, event in given[run.data.terms].items():
            shown = found.setdefault(event.id, (event, {}))[1]
            if name in _SHOWN:
                shown[name] = getattr(run.data, name)
    return found


def end_of(job: Sequence[Event[Data]], run: Event[UsageRecorded]) -> Event[Any] | None:
    """Return the end of an attempt (`AttemptEnded`) that determined a run's class; `None`: it is `reserved`, or no end was known.

    A run is `useful` while no end is known, so an end recorded after such a run is not its reason.
    """
    data = run.data
    for event in job:
        ended = event.data
        if isinstance(ended, AttemptEnded) and slot_of(ended) == slot_of(data):
            known = data.worth != "useful" or event.recordedtime <= run.recordedtime
            return event if known and worth_of(ended) == data.worth else None
    return None


def slot_of(data: Any) -> tuple[object, ...]:  # noqa: ANN401 - events of attempts have these fields
    """Return task, index and number of an attempt."""
    return tuple(getattr(data, name, None) for name in ("task", "index", "attempt"))


def cause_of(log: Searchable, job: Sequence[Event[Data]], reversal: Event[UsageRecorded]) -> Event[Data] | None:
    """Return the event that caused a reversal; `None` if unknown."""
    written = (record.message for record in log.records_of(reversal.subject, ("billing",)))
    cause = next(message.causationid for message in written if message.id == reversal.id)
    if cause == reversal.data.begun:  # earlier builds recorded no fact as the cause of a timer's event
        return None
    return next((event for event in chain(job, cluster_facts(log)) if event.id == cause), None)
