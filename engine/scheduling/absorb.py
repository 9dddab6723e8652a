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
    remove_pod,
    shape_of,
    sync_fact,
    sync_job,
    sync_spec,
    touch,
    touch_pod,
    track_job,
    track_pod,
)
from engine.scheduling.state.record_names import cluster_record, group_record, page_record
from engine.scheduling.state.round_requests import request_round
from engine.scheduling.state.shard import Pod, State, TrackedJob
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
    job = state.jobs.get(event.subject)
    if job is None:
        if isinstance(data, JobOpened):
            _open(state, event, data)
        elif isinstance(data, AttemptStarted):
            # of a job that was over and goes on; we schedule none of those
            _start(state, track_job(state, event.subject, JobRecord(event.clusterid, "", event.time)), event, data)
        return
    if job.group is not None:
        job.head.seen = event.sequence
        touch(state, job)
    if isinstance(data, AttemptEvent):
        _absorb_attempt(state, job, event, data)
    elif (handler := _JOB.get(type(data))) is not None:
        handler(state, job, event)


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
    head, group = JobRecord(event.clusterid, data.namespace, event.time, tenant=data.tenant), None
    if data.managed and data.spec.scheduler_name == SCHEDULER:
        tasks = tuple(replace(task, template=None, policies=()) for task in data.spec.tasks)
        spec = replace(data.spec, tasks=tasks, policies=(), custom_events={}, raise_rules=())
        group = Group(spec, data.shapes, data.annotations, data.labels)
        head.seen = event.sequence
        state.touched[group_record(event.subject)] = None
    job = track_job(state, event.subject, head, group)
    if group is not None:
        request_round(state, job, event)
    touch(state, job)


def _revised(state: State, job: TrackedJob, event: Event[JobRevised]) -> None:
    group, spec = job.group, event.data.spec
    if group is not None and spec is not None:
        replicas = {task.name: task for task in spec.tasks}
        tasks = tuple(
            replace(task, replicas=replicas[task.name].replicas, min_available=replicas[task.name].min_available)
            for task in group.spec.tasks
            if task.name in replicas
        )
        group.spec = replace(group.spec, tasks=tasks, min_available=spec.min_available, priority_class=spec.priority_class)
        for pod in [one for one in job.pods.values() if not one.attempt.live and _is_surplus(one)]:
            _drop(state, pod)
        state.touched[group_record(job.key)] = None
        sync_spec(state, job)
        request_round(state, job, event)


def _phase_changed(state: State, job: TrackedJob, event: Event[JobPhaseChanged]) -> None:
    phase, head = event.data.phase, job.head
    head.aborted = phase in {"Aborting", "Aborted"}
    head.finished = phase in FINISHED_JOB_PHASES
    head.job_phase, head.moved = phase, event.id
    if phase == "Running" and not head.runs_since:
        head.runs_since = event.time
    if phase == "Pending":
        head.grouped = True
    if job.group is not None:
        sync_job(state, job)
        request_round(state, job, event, runs=phase == "Running")
    touch(state, job)
    _close_if_over(state, job)


def _action_taken(state: State, job: TrackedJob, event: Event[ActionTaken]) -> None:
    head, action = job.head, event.data.action
    if job.group is None or action not in _WHOLE_JOB or (action == "ResumeJob" and not head.aborted):
        return
    head.grouped, head.enqueued, head.enqueuing = False, False, ""
    head.phase, head.promised, head.unschedulable, head.claims, head.evicting = "Pending", [], "", [], {}
    sync_job(state, job)
    request_round(state, job, event)


def _parked(state: State, job: TrackedJob, event: Event[JobParked | JobUnparked]) -> None:
    job.head.parked = isinstance(event.data, JobParked)
    sync_job(state, job)
    if job.group is not None:
        request_round(state, job, event)
    touch(state, job)


def _forgotten(state: State, job: TrackedJob, event: Event[JobForgotten]) -> None:
    request_round(state, job, event)
    _forget(state, job)


def _close_if_over(state: State, job: TrackedJob) -> None:
    """Forget a finished job without live attempts."""
    if job.head.finished and not job.live:
        _forget(state, job)


def _forget(state: State, job: TrackedJob) -> None:
    touch(state, job)
    if job.group is not None:
        state.touched[group_record(job.key)] = None
    for pod in job.pods.values():
        state.touched[page_record(job.key, pod.attempt.place)] = None
    forget_job(state, job)
    _drop_if_empty(state, job.head.cluster)


# --- pods -----------------------------------------------------------------------------------------------------------------------


def _absorb_attempt(state: State, job: TrackedJob, event: Event[Data], data: AttemptEvent) -> None:
    if isinstance(data, AttemptStarted):
        _start(state, job, event, data)
        return
    pod = job.of(data)
    if pod is None or not pod.attempt.live:
        return
    attempt = pod.attempt
    match data:
        case AttemptBound():
            attempt.phase, attempt.node, attempt.decided, attempt.bound = "Bound", data.node, "", event.time
            if attempt.claim is not None and attempt.claim.node:
                attempt.claim = None
            job.head.refusals = 0
            place_taken(state, pod)
        case AttemptRunning():
            attempt.phase, attempt.running = "Running", event.time
        case AttemptTerminating():
            attempt.phase = "Terminating"
        case AttemptEnded() | AttemptMoved():
            job.live -= 1
            if isinstance(data, AttemptEnded):
                _end(state, pod, data)
            else:
                _drop(state, pod)
            request_round(state, job, event)
            _close_if_over(state, job)
            return
        case _:
            return
    touch_pod(state, pod)
    request_round(state, job, event, runs=isinstance(data, AttemptRunning))


def _start(state: State, job: TrackedJob, event: Event[Data], data: AttemptStarted) -> None:
    head = job.head
    before = job.pods.get(job.last.get((data.task, data.index), ("", 0, 0)))
    if before is not None and not before.attempt.live:  # its end stands until its replica has another pod
        _drop(state, before)
    ours = job.group is not None and data.task in job.group.shapes
    shape = None if ours else shape_of(data)
    pod = track_pod(state, job, Attempt(data.task, data.index, data.attempt, head.places, event.time, shape=shape))
    head.places += 1
    touch(state, job)
    touch_pod(state, pod)
    if job.group is not None:
        request_round(state, job, event)


def _end(state: State, pod: Pod, data: AttemptEnded) -> None:
    attempt = pod.attempt
    attempt.phase, attempt.claim = data.phase, None
    place_taken(state, pod)
    if pod.job.group is None or attempt.leaving or _is_surplus(pod):  # of a deleted pod nothing is left
        _drop(state, pod)
    else:
        touch_pod(state, pod)


def _is_surplus(pod: Pod) -> bool:
    """Return whether the job was scaled down so far that the replica of a pod no longer exists."""
    group = pod.job.group
    return group is not None and any(task.name == pod.role and pod.index >= task.replicas for task in group.spec.tasks)


def _drop(state: State, pod: Pod) -> None:
    remove_pod(state, pod)
    pod.job.drop(pod)
    state.touched[page_record(pod.job.key, pod.attempt.place)] = None


def _effect_requested(state: State, job: TrackedJob, event: Event[EffectRequested]) -> None:
    data = event.data
    pod = job.pods.get((data.task or "", data.index or 0, data.attempt or 0))
    if job.group is None or pod is None:
        return
    attempt = pod.attempt
    if not attempt.live:
        if data.effect == "delete_pod":  # its end counts for its gang no more: the replica is made again, or is surplus
            _drop(state, pod)
            request_round(state, job, event)
    elif data.effect == "bind_pod":
        job.bindings.pop(attempt.binding, None)
        attempt.binding = event.id
        job.bindings[event.id] = pod
        state.touched[page_record(job.key, attempt.place)] = None
    elif data.effect == "delete_pod":
        attempt.leaving = True
        touch_pod(state, pod)
        request_round(state, job, event)


def _effect_settled(state: State, job: TrackedJob, event: Event[EffectSettled]) -> None:
    pod = job.bindings.pop(event.data.effect, None)
    if pod is None:
        return
    pod.attempt.binding = ""
    if event.data.outcome == "failed":  # another decision may give it another node
        pod.attempt.decided = ""
        if job.head.retry <= event.recordedtime:  # of bindings that fail together, the first counts
            pause(job.head, event.recordedtime)
        sync_job(state, job)
        touch(state, job)
        request_round(state, job, event)
    touch_pod(state, pod)


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
