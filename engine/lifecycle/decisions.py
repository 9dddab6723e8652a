"""Decisions of the scheduling stage: objections in the job's current state, and execution of accepted decisions.

Write access to the topic `decisions` is the permission to decide; producers of inputs do not have it (docs/decisions.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from engine.events import Event
from engine.events.decisions import (
    SCHEDULER,
    AttemptKey,
    DecidedBound,
    DecidedEnqueued,
    DecidedEvicted,
    DecidedNoticed,
    DecidedNoticeEnded,
    DecidedPipelined,
    DecidedUnschedulable,
    DecisionAccepted,
    DecisionEvent,
    DecisionKind,
    DecisionRefused,
    Placement,
    Refusal,
)
from engine.lifecycle.action_request import ActionRequest
from engine.lifecycle.actions import execute, settle
from engine.lifecycle.event_factory import Decision, EventFactory, Events
from engine.lifecycle.job import Attempt, Job
from engine.lifecycle.notices import objection_to_decision, open_notice, take_end
from engine.lifecycle.pods import bind_decided, evict, group_phase
from engine.lifecycle.refused_inputs import emit, is_known
from engine.lifecycle.state import ShardState
from engine.lifecycle.steps import PODS
from statemachines.vocabulary import FINISHED_JOB_PHASES

_KINDS: Final[dict[type[DecisionEvent], DecisionKind]] = {
    DecidedEnqueued: "enqueued",
    DecidedBound: "bound",
    DecidedPipelined: "pipelined",
    DecidedEvicted: "evicted",
    DecidedUnschedulable: "unschedulable",
    DecidedNoticed: "noticed",
    DecidedNoticeEnded: "notice_ended",
}

_Objection = tuple[Refusal, str]
"""Reason to refuse a decision, and the facts behind it."""


def decided(factory: EventFactory, job: Job, event: Event[DecisionEvent]) -> Decision:
    """Accept a decision and execute it, or refuse it."""
    if is_known(job, event):  # refused before its job was opened
        return "duplicate"
    data, kind = event.data, _KINDS[type(event.data)]
    why = _objection(factory.state, job, event)
    if why is not None:
        yield from emit(factory, job, DecisionRefused(event.id, kind, *why))
        return "refused"
    accepted = factory.event(job, _accepted(event.id, kind, data))
    yield accepted
    factory.cause = accepted.id
    yield from _follow(factory, job, data)
    return "applied"


def _accepted(decision: str, kind: DecisionKind, data: DecisionEvent) -> DecisionAccepted:
    match data:
        case DecidedBound() | DecidedPipelined():
            return DecisionAccepted(decision, kind, placements=data.placements)
        case DecidedEvicted():
            return DecisionAccepted(decision, kind, attempts=data.attempts, reason=data.reason, preemptor=data.preemptor)
        case DecidedUnschedulable():
            return DecisionAccepted(decision, kind, reason=data.reason, message=data.message)
        case DecidedNoticeEnded():
            return DecisionAccepted(decision, kind, reason=data.outcome, preemptor=data.preemptor)
        case _:
            return DecisionAccepted(decision, kind)


def _follow(factory: EventFactory, job: Job, data: DecisionEvent) -> Events:
    match data:
        case DecidedEnqueued():
            yield from settle(factory, job)
        case DecidedBound():
            yield from bind_decided(factory, job)
        case DecidedEvicted(attempts=[]):
            yield from execute(factory, job, ActionRequest("RequeueJob", by=SCHEDULER, reason=data.reason))
        case DecidedEvicted():
            yield from evict(factory, job, [job.tasks[one.task].slots[one.index] for one in data.attempts])
            yield from settle(factory, job)
        case DecidedNoticed():
            yield from open_notice(factory, job, data)
        case DecidedNoticeEnded():
            yield from take_end(factory, job, data)
        case _:
            pass


def _objection(state: ShardState, job: Job, event: Event[DecisionEvent]) -> _Objection | None:
    data = event.data
    if not job.opened or job.cluster != event.clusterid:
        return "UnknownJob", f"no job of cluster {event.clusterid} has this id"
    if not job.managed:
        return "NotManaged", "the job is only observed: somebody else controls it"
    if job.spec.scheduler_name != SCHEDULER:
        return "OtherScheduler", f"the job names the scheduler {job.spec.scheduler_name}"
    if job.phase in FINISHED_JOB_PHASES:
        return "Ended", f"the job is {job.phase}, which is final"
    if isinstance(data, DecidedNoticeEnded):  # even after a change of the specification, because nothing else ends the phase
        return objection_to_decision(job, data)
    if data.seen < job.settled:
        return "Stale", f"it was made on event {data.seen} of the job, whose specification or group changed with {job.settled}"
    phase = group_phase(job)
    if phase is None:
        return "NoGroup", f"the job is {job.phase}"
    match data:
        case DecidedEnqueued():
            return ("AlreadyEnqueued", "the job's group is Inqueue") if phase == "Inqueue" else None
        case DecidedBound() | DecidedPipelined():
            if phase == "Pending":
                return "NotEnqueued", "the job's group is Pending: it has no pods"
            return _to_attempts(job, data.placements, placed=True) or _to_nodes(state, job, data.placements)
        case DecidedEvicted():
            if len(data.attempts) > PODS:
                return (
                    "TooMany",
                    f"{len(data.attempts)} attempts, of at most {PODS}: evict them in several decisions, or the whole job",
                )
            return _to_attempts(job, data.attempts, placed=False)
        case DecidedNoticed():
            return objection_to_decision(job, data)
        case _:
            return None


def _to_attempts(job: Job, keys: Iterable[AttemptKey], *, placed: bool) -> _Objection | None:
    """Return the objection to placing (`placed`) or evicting attempts; `None`: none."""
    named: set[tuple[str, int]] = set()
    for key in keys:
        name = f"{key.task}[{key.index}] attempt {key.attempt}"
        task = job.tasks.get(key.task)
        attempt = task.slots.get(key.index) if task is not None else None
        if attempt is None or attempt.number != key.attempt or not attempt.live:
            return "AttemptGone", f"{name} is not the current attempt of its replica, or has ended"
        again = (key.task, key.index) in named  # a repeated replica would be placed or evicted twice
        named.add((key.task, key.index))
        if attempt.kill is not None or attempt.phase == "Terminating" or (again and not placed):
            return "AttemptStopping", f"the deletion of {name} was requested"
        if placed and (again or _has_place(attempt)):
            return "AttemptPlaced", f"{name} has a node, or one was decided on"
    return None


def _has_place(attempt: Attempt) -> bool:
    return attempt.phase != "Pending" or attempt.decided is not None


def _to_nodes(state: ShardState, job: Job, placements: Iterable[Placement]) -> _Objection | None:
    """Return the objection to placing pods on nodes; `None`: none."""
    for name in dict.fromkeys(placement.node for placement in placements):
        node = state.facts.nodes.get((job.cluster, name))
        if node is None:
            return "NodeGone", f"cluster {job.cluster} has no node {name}"
        if node.unschedulable:
            return "NodeCordoned", f"node {name} takes no new pods"
    return None
