"""Application of inputs to the shard's state: cluster facts, and events of all jobs; must not fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from engine.events import Data, Event
from engine.events.actions import ActionTaken, EffectRequested, EffectSettled
from engine.events.attempts import (
    AttemptBound,
    AttemptEnded,
    AttemptEvent,
    AttemptMoved,
    AttemptRunning,
    AttemptStarted,
    AttemptTerminating,
)
from engine.events.decisions import SCHEDULER, DecisionAccepted, DecisionRefused
from engine.events.inputs import NodeDeleted, NodeObserved, ObjectApplied, ObjectDeleted
from engine.events.jobs import JobForgotten, JobNoticeAnswered, JobOpened, JobPhaseChanged, JobRevised
from engine.events.outcomes import JobParked, JobUnparked
from engine.kubernetes.observation.fact_records import thing_record
from engine.scheduling.cluster.job_records import Attempt, Group, JobRecord
from engine.scheduling.decision_answers import accepted, answered, refused
from engine.scheduling.preemption.backoff import pause
from engine.scheduling.preemption.kept_places import place_taken, withdraw
from engine.scheduling.state.model_sync import (
    forget_job,
    remove_attempt,
    shape_of,
    sync_fact,
    sync_job,
    sync_spec,
    touch,
    touch_attempt,
)
from engine.scheduling.state.record_names import cluster_record, group_record, page_record
from engine.scheduling.state.round_requests import request_round
from engine.scheduling.state.shard import State, TrackedJob
from statemachines.vocabulary import FINISHED_JOB_PHASES

_FACTS: Final = (NodeObserved, NodeDeleted, ObjectApplied, ObjectDeleted)
_WHOLE_JOB: Final = frozenset({"AbortJob", "RestartJob", "TerminateJob", "CompleteJob", "ResumeJob", "RequeueJob"})
"""Actions that delete the pod group; the job gets a new one when it is Pending again."""


def absorb(state: State, event: Event[Data], _offset: int | None = None, /) -> None:
    """Absorb one fact of a cluster, or one job event."""
    data = event.data
    if isinstance(data, _FACTS):
        _absorb_fact(state, event)
        return
    if isinstance(data, DecisionRefused) and data.kind == "evicted" and event.clusterid in state.clusters:
        withdraw(state, state.clusters[event.clusterid], data.decision)  # the victim's job may be over
    known = state.jobs.get(event.subject)
    if known is None:
        if isinstance(data, JobOpened):
            _open(state, event, data)
        elif isinstance(data, AttemptStarted):
            # of a job that was over and goes on; we schedule none of those
            known = TrackedJob(event.subject, JobRecord(event.clusterid, "", event.time))
            state.enter(known)
            _start(state, known, event, data)
        return
    if known.group is not None:
        known.head.seen = event.sequence
        touch(state, known)
    if isinstance(data, AttemptEvent):
        _absorb_attempt(state, known, event, data)
    elif (handler := _JOB.get(type(data))) is not None:
        handler(state, known, event)


def _absorb_fact(state: State, event: Event[Data]) -> None:
    for thing in state.facts.absorb(event):
        state.touched[thing_record(thing)] = None
        cluster = state.cluster(thing[0])
        if sync_fact(state, cluster, thing):
            cluster.changed(event.recordedtime, event.id, "other")
            state.touched[cluster_record(cluster.id)] = None
        _drop_if_empty(state, cluster.id)


def _drop_if_empty(state: State, cluster: str) -> None:
    if state.drop_if_empty(cluster):
        state.touched[cluster_record(cluster)] = None


# --- jobs -----------------------------------------------------------------------------------------------------------------------


def _open(state: State, event: Event[Data], data: JobOpened) -> None:
    known = TrackedJob(event.subject, head := JobRecord(event.clusterid, data.namespace, event.time, tenant=data.tenant))
    state.enter(known)
    if data.managed and data.spec.scheduler_name == SCHEDULER:
        tasks = tuple(replace(task, template=None, policies=()) for task in data.spec.tasks)
        spec = replace(data.spec, tasks=tasks, policies=(), custom_events={}, raise_rules=())
        known.group = Group(spec, data.shapes, data.annotations, data.labels)
        head.seen = event.sequence
        state.touched[group_record(known.id)] = None
        sync_job(state, known)
        request_round(state, known, event)
    touch(state, known)


def _revised(state: State, known: TrackedJob, event: Event[JobRevised]) -> None:
    group, spec = known.group, event.data.spec
    if group is not None and spec is not None:
        replicas = {task.name: task for task in spec.tasks}
        tasks = tuple(
            replace(task, replicas=replicas[task.name].replicas, min_available=replicas[task.name].min_available)
            for task in group.spec.tasks
            if task.name in replicas
        )
        group.spec = replace(group.spec, tasks=tasks, min_available=spec.min_available, priority_class=spec.priority_class)
        for attempt in [one for one in known.attempts.values() if not one.live and _surplus(group, one)]:
            _drop(state, known, attempt)
        state.touched[group_record(known.id)] = None
        sync_spec(state, known)
        request_round(state, known, event)


def _phase_changed(state: State, known: TrackedJob, event: Event[JobPhaseChanged]) -> None:
    phase, head = event.data.phase, known.head
    head.aborted = phase in {"Aborting", "Aborted"}
    head.finished = phase in FINISHED_JOB_PHASES
    head.job_phase, head.moved = phase, event.id
    if phase == "Running" and not head.runs_since:
        head.runs_since = event.time
    if phase == "Pending":
        head.grouped = True
    if known.group is not None:
        sync_job(state, known)
        request_round(state, known, event, runs=phase == "Running")
    touch(state, known)
    _close_if_over(state, known)


def _action_taken(state: State, known: TrackedJob, event: Event[ActionTaken]) -> None:
    head, action = known.head, event.data.action
    if known.group is None or action not in _WHOLE_JOB or (action == "ResumeJob" and not head.aborted):
        return
    head.grouped, head.enqueued, head.enqueuing = False, False, ""
    head.phase, head.promised, head.unschedulable, head.claims, head.evicting = "Pending", [], "", [], {}
    sync_job(state, known)
    request_round(state, known, event)


def _parked(state: State, known: TrackedJob, event: Event[JobParked | JobUnparked]) -> None:
    known.head.parked = isinstance(event.data, JobParked)
    sync_job(state, known)
    if known.group is not None:
        request_round(state, known, event)
    touch(state, known)


def _forgotten(state: State, known: TrackedJob, event: Event[JobForgotten]) -> None:
    request_round(state, known, event)
    _forget(state, known)


def _close_if_over(state: State, known: TrackedJob) -> None:
    """Forget a finished job without live attempts."""
    if known.head.finished and not known.live:
        _forget(state, known)


def _forget(state: State, known: TrackedJob) -> None:
    touch(state, known)
    if known.group is not None:
        state.touched[group_record(known.id)] = None
    for attempt in known.attempts.values():
        state.touched[page_record(known.id, attempt.place)] = None
    forget_job(state, known)
    state.leave(known)
    _drop_if_empty(state, known.head.cluster)


# --- attempts -------------------------------------------------------------------------------------------------------------------


def _absorb_attempt(state: State, known: TrackedJob, event: Event[Data], data: AttemptEvent) -> None:
    if isinstance(data, AttemptStarted):
        _start(state, known, event, data)
        return
    attempt = known.of(data)
    if attempt is None or not attempt.live:
        return
    match data:
        case AttemptBound():
            attempt.phase, attempt.node, attempt.decided, attempt.bound = "Bound", data.node, "", event.time
            if attempt.claim is not None and attempt.claim.node:
                attempt.claim = None
            known.head.refusals = 0
            place_taken(state, known, attempt.slot)
        case AttemptRunning():
            attempt.phase, attempt.running = "Running", event.time
        case AttemptTerminating():
            attempt.phase = "Terminating"
        case AttemptEnded() | AttemptMoved():
            if isinstance(data, AttemptEnded):
                _end(state, known, attempt, data)
            else:
                known.live -= 1
                _drop(state, known, attempt)
            request_round(state, known, event)
            _close_if_over(state, known)
            return
        case _:
            return
    touch_attempt(state, known, attempt)
    request_round(state, known, event, runs=isinstance(data, AttemptRunning))


def _start(state: State, known: TrackedJob, event: Event[Data], data: AttemptStarted) -> None:
    head = known.head
    before = known.attempts.get(known.last.get((data.task, data.index), ("", 0, 0)))
    if before is not None and not before.live:  # its end stands until its replica has another pod
        _drop(state, known, before)
    ours = known.group is not None and data.task in known.group.shapes
    shape = None if ours else shape_of(data)
    attempt = Attempt(data.task, data.index, data.attempt, head.places, event.time, shape=shape)
    head.places += 1
    known.enter(attempt)
    touch(state, known)
    touch_attempt(state, known, attempt)
    if known.group is not None:
        request_round(state, known, event)


def _end(state: State, known: TrackedJob, attempt: Attempt, data: AttemptEnded) -> None:
    attempt.phase, attempt.claim = data.phase, None
    known.live -= 1
    place_taken(state, known, attempt.slot)
    if known.group is None or attempt.leaving or _surplus(known.group, attempt):  # of a deleted pod nothing is left
        _drop(state, known, attempt)
    else:
        touch_attempt(state, known, attempt)


def _surplus(group: Group, attempt: Attempt) -> bool:
    """Return whether the job was scaled down so far that the replica of an attempt no longer exists."""
    return any(task.name == attempt.task and attempt.index >= task.replicas for task in group.spec.tasks)


def _drop(state: State, known: TrackedJob, attempt: Attempt) -> None:
    remove_attempt(state, known, attempt)
    known.drop(attempt)
    state.touched[page_record(known.id, attempt.place)] = None


def _effect_requested(state: State, known: TrackedJob, event: Event[EffectRequested]) -> None:
    data = event.data
    attempt = known.attempts.get((data.task or "", data.index or 0, data.attempt or 0))
    if known.group is None or attempt is None:
        return
    if not attempt.live:
        if data.effect == "delete_pod":  # its end counts for its gang no more: the replica is made again, or is surplus
            _drop(state, known, attempt)
            request_round(state, known, event)
    elif data.effect == "bind_pod":
        known.bindings.pop(attempt.binding, None)
        attempt.binding = event.id
        known.bindings[event.id] = attempt
        state.touched[page_record(known.id, attempt.place)] = None
    elif data.effect == "delete_pod":
        attempt.leaving = True
        touch_attempt(state, known, attempt)
        request_round(state, known, event)


def _effect_settled(state: State, known: TrackedJob, event: Event[EffectSettled]) -> None:
    attempt = known.bindings.pop(event.data.effect, None)
    if attempt is None:
        return
    attempt.binding = ""
    if event.data.outcome == "failed":  # another decision may give it another node
        attempt.decided = ""
        if known.head.retry <= event.recordedtime:  # of bindings that fail together, the first counts
            pause(known.head, event.recordedtime)
        sync_job(state, known)
        touch(state, known)
        request_round(state, known, event)
    touch_attempt(state, known, attempt)


_JOB: Final[dict[type[Data], Callable[[State, TrackedJob, Event[Any]], None]]] = {
    ActionTaken: _action_taken,
    DecisionAccepted: accepted,
    DecisionRefused: refused,
    EffectRequested: _effect_requested,
    EffectSettled: _effect_settled,
    JobForgotten: _forgotten,
    JobNoticeAnswered: answered,
    JobParked: _parked,
    JobPhaseChanged: _phase_changed,
    JobRevised: _revised,
    JobUnparked: _parked,
}
