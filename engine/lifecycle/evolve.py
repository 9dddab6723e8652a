"""Apply events to the state: one total function per event type, no decisions.

Each function runs in constant time but for the few that are about a whole job (opened, revised, acted upon).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b
from heapq import heappush
from typing import Any, Final

from engine.events import Data, Event
from engine.events.inputs import NodeDeleted, NodeObserved, ObjectApplied, ObjectDeleted
from engine.events.jobs import (
    ActionDeferred,
    ActionTaken,
    Anomaly,
    AttemptBound,
    AttemptChanged,
    AttemptEnded,
    AttemptEvent,
    AttemptLateFact,
    AttemptRunning,
    AttemptStarted,
    AttemptTerminating,
    CommandRefused,
    EffectRequested,
    EffectSettled,
    EventRaised,
    InputOrphaned,
    InputParked,
    InputReleased,
    JobForgotten,
    JobObjectDeleted,
    JobOpened,
    JobParked,
    JobPhaseChanged,
    JobRejected,
    JobRevised,
    JobUnparked,
    RowRejected,
    TaskPhaseChanged,
    TimerCancelled,
    TimerFired,
    TimerSet,
)
from engine.events.transitions import transition_of
from engine.lifecycle import codec
from engine.lifecycle.state import Attempt, Deferred, Job, ShardState, Task, Timer, category
from engine.lifecycle.versions import is_newer
from statemachines.raising import matching, raise_rules, subject_of
from statemachines.spec import JobSpec, TaskSpec
from statemachines.task import initial_task_phase
from statemachines.vocabulary import FINISHED_JOB_PHASES

__all__ = ["absorb", "evolve", "fired_key", "forgotten_key", "index_job", "peek"]

Handler = Callable[[ShardState, Job, Any, Event[Any]], None]

_WARM: Final = 1024
"""Jobs kept in `ShardState.warm`: more than are looked at between two changes of one of them in any one batch."""

_WHOLE_JOB: Final = frozenset({"AbortJob", "RestartJob", "TerminateJob", "CompleteJob", "ResumeJob", "RequeueJob"})
_STOPPING: Final = FINISHED_JOB_PHASES | {"Aborting", "Aborted", "Completing", "Terminating"}
"""Phases in which an attempt that ends is not replaced."""
_RESTARTS: Final = frozenset({"RestartJob", "RestartTask", "RestartPod", "RestartPartition", "RequeueJob", "ResumeJob"})


def forgotten_key(job: str) -> bytes:
    """Return the 16 bytes that stay of a forgotten job."""
    return blake2b(job.encode(), digest_size=16).digest()


def fired_key(job: Job, rule: int, subject: str) -> str:
    """Name what a raise rule has fired for: once per (rule, job version, subject); one that counts has the job as its subject."""
    return f"{rule}/{job.version}/{subject if job.rules[rule].count <= 1 else ''}"


def peek(state: ShardState, subject: str) -> Job:
    """Return the job to be looked at, without making it part of the state: live, closed, or new and unopened."""
    job = state.jobs.get(subject) or state.warm.get(subject)
    if job is None:
        record = state.closed.get(subject)
        job = Job(id=subject) if record is None else codec.decode_job(record)
        index_job(state, job)
        state.warm[subject] = job
        if len(state.warm) > _WARM:
            state.warm.popitem(last=False)
    return job


def _take(state: ShardState, subject: str) -> Job:
    """Return the job to be changed, now a part of the state."""
    job = peek(state, subject)
    state.warm.pop(subject, None)
    state.closed.pop(subject, None)
    state.jobs[subject] = job
    return job


def evolve(state: ShardState, event: Event[Data]) -> None:
    """Apply one event of the lifecycle stage."""
    handler = _HANDLERS.get(type(event.data))
    if handler is None:  # a shard's own bookkeeping, no part of this state
        return
    subject = event.subject
    job = state.jobs.get(subject)
    if job is None:
        job = _take(state, subject)
        job.cluster = job.cluster or event.clusterid
    job.sequence = event.sequence
    was = job.finished if job.idle else None
    handler(state, job, event.data, event)
    if job.finished is not None and job.finished != was and job.idle:
        heappush(state.finished, (job.finished, job.id))
    if job.rules:
        _match_rules(job, event.data)
    state.touched["job/" + subject] = None


def absorb(state: ShardState, event: Event[Data]) -> None:
    """Apply one cluster fact; the newest one about a thing stands."""
    data = event.data
    if isinstance(data, NodeObserved):
        known = state.nodes.get(data.name)
        if known is not None and not is_newer(data.version, known.version):
            return
        state.nodes[data.name] = data
        state.touched["node/" + data.name] = None
    elif isinstance(data, NodeDeleted):
        state.nodes.pop(data.name, None)
        state.touched["node/" + data.name] = None
    elif isinstance(data, ObjectApplied):
        applied = state.objects.get((data.kind, data.name))
        if applied is not None and not is_newer(data.version, applied.version):
            return
        state.objects[data.kind, data.name] = data
        state.touched[f"object/{data.kind}/{data.name}"] = None
    elif isinstance(data, ObjectDeleted):
        state.objects.pop((data.kind, data.name), None)
        state.touched[f"object/{data.kind}/{data.name}"] = None


def index_job(state: ShardState, job: Job) -> None:
    """Rebuild what is derived from a job that was read from a snapshot."""
    job.by_uid = {attempt.uid: attempt for attempt in job.attempts if attempt.uid is not None}
    job.rules = raise_rules(job.spec)
    for task in job.tasks.values():
        if job.managed:
            task.open = list(range(task.spec.replicas))
    for attempt in job.attempts:
        task = job.tasks[attempt.task]
        before = task.slots.get(attempt.index)
        if before is not None:
            _leave(job, task, before)
        task.slots[attempt.index] = attempt
        task.close_slot(attempt.index)
        task.next_index = max(task.next_index, attempt.index + 1)
        _enter(job, task, attempt)
        if attempt.live:
            job.live += 1
            _place(state, job, attempt)
        elif _leaves_slot_open(job, task, attempt):
            task.open_slot(attempt.index)
    for timer in job.timers.values():
        _run_timer(state, job, timer)


def _match_rules(job: Job, data: Data) -> None:
    """Remember who has matched the raise rules that count."""
    transition = transition_of(data)
    if transition is None:
        return
    for number in matching(job.rules, transition):
        if job.rules[number].count > 1:
            job.matched.setdefault(f"{number}/{job.version}", {})[subject_of(transition)] = None


def _seen(job: Job, event: Event[Any]) -> None:
    job.seen[event.causationid] = None


def _leave(job: Job, task: Task, attempt: Attempt) -> None:
    """Take an attempt out of the counters; before it changes."""
    if task.slots.get(attempt.index) is attempt:
        _count(job, task, attempt, -1)


def _enter(job: Job, task: Task, attempt: Attempt) -> None:
    """Put an attempt into the counters; after it has changed."""
    if task.slots.get(attempt.index) is attempt:
        _count(job, task, attempt, 1)


def _count(job: Job, task: Task, attempt: Attempt, by: int) -> None:
    name = category(attempt)
    if name is None:
        return
    setattr(task.counts, name, getattr(task.counts, name) + by)
    setattr(job.counts, name, getattr(job.counts, name) + by)
    if name == "running":
        task.ready += by * attempt.ready
        task.restart_sum += by * attempt.restarts
    elif name == "pending":
        task.restart_sum += by * attempt.restarts
    elif name == "succeeded":
        task.ready += by


def _leaves_slot_open(job: Job, task: Task, attempt: Attempt) -> bool:
    """Tell whether an ended current attempt leaves its replica to another one."""
    if not job.managed:
        return attempt.phase != "Succeeded"
    return attempt.replaceable and attempt.index < task.spec.replicas


def _place(state: ShardState, job: Job, attempt: Attempt) -> None:
    if attempt.node is not None:
        state.on_node.setdefault(attempt.node, {})[job.id, attempt.task, attempt.index, attempt.number] = None


def _displace(state: ShardState, job: Job, attempt: Attempt) -> None:
    there = state.on_node.get(attempt.node or "")
    if there is not None:
        there.pop((job.id, attempt.task, attempt.index, attempt.number), None)
        if not there:
            del state.on_node[attempt.node or ""]


def _without_templates(spec: JobSpec) -> JobSpec:
    return replace(spec, tasks=[replace(task, template=None) if task.template else task for task in spec.tasks])


# --- jobs ---------------------------------------------------------------------------------------------------------------


def _job_opened(_state: ShardState, job: Job, data: JobOpened, event: Event[Any]) -> None:
    job.opened = event.sequence
    job.kind, job.namespace, job.name, job.managed = data.kind, data.namespace, data.name, data.managed
    job.tenant, job.project, job.user, job.labels = data.tenant, data.project, data.user, data.labels
    job.owner_known, job.object_version = data.owner, data.version
    job.since = event.time
    _set_spec(job, _without_templates(data.spec))
    if data.version is None:
        _seen(job, event)


def _set_spec(job: Job, spec: JobSpec) -> None:
    job.spec = spec
    job.rules = raise_rules(spec)
    for wanted in spec.tasks:
        task = job.tasks.get(wanted.name)
        if task is None:
            task = job.tasks[wanted.name] = Task(wanted, since=job.since)
            task.phase = initial_task_phase(wanted) if job.managed else "Pending"
            before = 0
        else:
            before = task.spec.replicas
            task.spec = wanted
        task.sized = True
        if not job.managed:
            continue
        for index in range(before, wanted.replicas):
            current = task.slots.get(index)
            if current is None or _leaves_slot_open(job, task, current):
                task.open_slot(index)
        while task.open and task.open[-1] >= wanted.replicas:
            task.open.pop()


def _job_revised(_state: ShardState, job: Job, data: JobRevised, event: Event[Any]) -> None:
    for name in ("kind", "name", "namespace", "tenant", "project", "user", "labels"):
        value = getattr(data, name)
        if value is not None:
            setattr(job, name, value)
    job.owner_known = job.owner_known or data.owner
    if data.version is None:
        _seen(job, event)
    else:
        job.object_version = data.version
    if data.spec is not None:
        _set_spec(job, _without_templates(data.spec))


def _job_phase_changed(_state: ShardState, job: Job, data: JobPhaseChanged, event: Event[Any]) -> None:
    job.phase, job.reason, job.since = data.phase, data.reason, event.time
    job.retry_count, job.restarts = data.retry_count, data.restarts
    job.inferred = data.inferred
    if data.phase == "Pending":
        job.grouped = True
        job.requeued = False
    if data.phase in FINISHED_JOB_PHASES:
        job.finished, job.closing = event.recordedtime, event.id
        job.deferred = None
    else:
        job.finished = None
    if data.object_version is not None:
        job.object_version = data.object_version
    elif not job.managed and not data.inferred:
        _seen(job, event)


def _task_phase_changed(_state: ShardState, job: Job, data: TaskPhaseChanged, event: Event[Any]) -> None:
    task = job.tasks[data.task]
    task.phase, task.since = data.phase, event.time
    if data.previous == "Restarting":
        task.restarting = False


def _job_rejected(_state: ShardState, job: Job, _data: JobRejected, event: Event[Any]) -> None:
    _seen(job, event)


def _job_object_deleted(_state: ShardState, job: Job, data: JobObjectDeleted, event: Event[Any]) -> None:
    job.object_deleted = True
    if data.version is None:
        _seen(job, event)
    else:
        job.object_version = data.version


def _job_forgotten(state: ShardState, job: Job, _data: JobForgotten, _event: Event[Any]) -> None:
    del state.jobs[job.id]
    state.forgotten[forgotten_key(job.id)] = None
    state.touched[codec.forgotten_chunk(len(state.forgotten) - 1)] = None


# --- attempts -----------------------------------------------------------------------------------------------------------


def _attempt_started(_state: ShardState, job: Job, data: AttemptStarted, event: Event[Any]) -> None:
    task = job.tasks.get(data.task)
    if task is None:
        task = job.tasks[data.task] = Task(TaskSpec(data.task, replicas=0), since=event.time, sized=False)
    if not task.sized and data.index >= task.spec.replicas:
        task.spec = replace(task.spec, replicas=data.index + 1)
    requests = task.spec.requests if task.spec.requests == data.requests else data.requests
    attempt = Attempt(
        data.task,
        data.index,
        data.attempt,
        uid=data.uid,
        pod=data.pod,
        version=data.version,
        seen=event.recordedtime,
        created=event.time,
        since=event.time,
        reason=data.reason,
        requests=requests,
        job_version=data.job_version,
    )
    before = task.slots.get(data.index)
    if before is not None:
        _leave(job, task, before)
    job.attempts.append(attempt)
    task.slots[data.index] = attempt
    task.close_slot(data.index)
    task.next_index = max(task.next_index, data.index + 1)
    job.live += 1
    if data.uid is not None:
        job.by_uid[data.uid] = attempt
        if data.version is None:
            _seen(job, event)
    _enter(job, task, attempt)


def _find(job: Job, data: AttemptEvent) -> tuple[Task, Attempt]:
    task = job.tasks[data.task]
    attempt = task.slots.get(data.index)
    if attempt is None or attempt.number != data.attempt:
        attempt = job.attempt(data.task, data.index, data.attempt)
        assert attempt is not None  # noqa: S101 - the fold of our own output: an attempt's first event is attempt.started
    return task, attempt


def _observed(job: Job, attempt: Attempt, data: AttemptEvent, event: Event[Any]) -> None:
    if data.version is None:
        if attempt.uid is not None:
            _seen(job, event)
    elif data.version == attempt.version:
        return  # no newer observation of the pod: a fact about its node, or what else the same observation shows
    else:
        attempt.version = data.version
    attempt.seen = event.recordedtime


def _attempt_bound(state: ShardState, job: Job, data: AttemptBound, event: Event[Any]) -> None:
    task, attempt = _find(job, data)
    _leave(job, task, attempt)
    attempt.phase, attempt.reason = "Bound", data.reason
    attempt.bound = attempt.since = event.time
    attempt.node = data.node or None
    _observed(job, attempt, data, event)
    _place(state, job, attempt)
    _enter(job, task, attempt)


def _attempt_running(_state: ShardState, job: Job, data: AttemptRunning, event: Event[Any]) -> None:
    task, attempt = _find(job, data)
    _leave(job, task, attempt)
    attempt.phase, attempt.reason, attempt.ready = "Running", data.reason, data.ready
    attempt.running = attempt.since = event.time
    _observed(job, attempt, data, event)
    _enter(job, task, attempt)


def _attempt_terminating(_state: ShardState, job: Job, data: AttemptTerminating, event: Event[Any]) -> None:
    task, attempt = _find(job, data)
    _leave(job, task, attempt)
    attempt.phase, attempt.reason, attempt.since = "Terminating", data.reason, event.time
    _observed(job, attempt, data, event)
    _enter(job, task, attempt)


def _attempt_ended(state: ShardState, job: Job, data: AttemptEnded, event: Event[Any]) -> None:
    task, attempt = _find(job, data)
    _leave(job, task, attempt)
    attempt.phase, attempt.reason = data.phase, data.reason
    attempt.ended = attempt.since = event.time
    attempt.rank, attempt.replaceable, attempt.exit_code = data.rank, data.replaceable, data.exit_code
    attempt.disruption = None
    _observed(job, attempt, data, event)
    job.live -= 1
    _displace(state, job, attempt)
    _enter(job, task, attempt)
    if task.slots.get(attempt.index) is attempt and _leaves_slot_open(job, task, attempt):
        task.open_slot(attempt.index)
        task.restarting = job.managed and job.phase not in _STOPPING


def _attempt_changed(_state: ShardState, job: Job, data: AttemptChanged, event: Event[Any]) -> None:
    task, attempt = _find(job, data)
    _leave(job, task, attempt)
    if data.uid is not None:
        attempt.uid = data.uid
        job.by_uid[data.uid] = attempt
    if data.reason_changed:
        attempt.reason = data.reason
    if data.restarts is not None:
        attempt.restarts = data.restarts
    if data.ready is not None:
        attempt.ready = data.ready
    if data.requests is not None:
        attempt.requests = data.requests
    if data.disruption is not None:
        attempt.disruption = data.disruption or None
    _observed(job, attempt, data, event)
    _enter(job, task, attempt)


def _attempt_late_fact(_state: ShardState, job: Job, data: AttemptLateFact, event: Event[Any]) -> None:
    _, attempt = _find(job, data)
    attempt.late = (data.phase, data.reason, data.ended, data.rank)
    if data.version is not None:
        attempt.version = data.version
    else:
        _seen(job, event)


# --- events, actions, timers, effects -------------------------------------------------------------------------------------


def _event_raised(_state: ShardState, job: Job, data: EventRaised, event: Event[Any]) -> None:
    if data.event == "TaskCompleted" and data.task in job.tasks:
        job.tasks[data.task].completed_raised = True
    elif data.event == "TaskFailed" and data.task in job.tasks:
        job.tasks[data.task].failed_raised = True
    if data.rule is not None:
        subject = (data.task or "") if data.index is None else f"{data.task}/{data.index}"
        job.fired[fired_key(job, data.rule, subject)] = None
    elif data.index is None:
        _seen(job, event)


def _action_taken(_state: ShardState, job: Job, data: ActionTaken, event: Event[Any]) -> None:
    if data.policy is None:
        _seen(job, event)
    if data.deferred:
        job.deferred = None
    job.requeued = data.action == "RequeueJob"
    if data.action in _WHOLE_JOB:
        job.version += 1
        job.grouped = False
    for task in job.tasks.values() if data.action in _WHOLE_JOB else filter(None, [job.tasks.get(data.task or "")]):
        task.completed_raised = task.failed_raised = False
        task.restarting = task.restarting or data.action in _RESTARTS


def _action_deferred(_state: ShardState, job: Job, data: ActionDeferred, event: Event[Any]) -> None:
    job.deferred = Deferred(data.action, data.by, data.reason, data.policy, data.event, data.commanded, event.id)
    _seen(job, event)


def _timer_set(state: ShardState, job: Job, data: TimerSet, event: Event[Any]) -> None:
    job.timers[event.id] = Timer(
        event.id,
        data.timer,
        data.due,
        data.action,
        data.policy,
        data.event,
        data.task,
        data.index,
        data.attempt,
        data.partition,
        data.pod,
    )
    _run_timer(state, job, job.timers[event.id])


def _run_timer(state: ShardState, job: Job, timer: Timer) -> None:
    heappush(state.timers, (timer.due, timer.id, job.id))
    if timer.kind == "policy":
        job.delays.setdefault(timer.pod, {})[timer.id] = timer


def _timer_gone(_state: ShardState, job: Job, data: TimerCancelled | TimerFired, _event: Event[Any]) -> None:
    timer = job.timers.pop(data.id, None)
    if timer is None or timer.kind != "policy":
        return
    same_pod = job.delays[timer.pod]
    del same_pod[timer.id]
    if not same_pod:
        del job.delays[timer.pod]


def _effect_requested(_state: ShardState, job: Job, data: EffectRequested, event: Event[Any]) -> None:
    if data.effect != "delete_pod" or data.task is None or data.index is None or data.attempt is None:
        return
    attempt = job.attempt(data.task, data.index, data.attempt)
    if attempt is None:
        return
    task = job.tasks[data.task]
    _leave(job, task, attempt)
    if attempt.live:
        attempt.kill, attempt.killed = data.cause, event.time
    else:
        attempt.replaceable = True
        if task.slots.get(attempt.index) is attempt and _leaves_slot_open(job, task, attempt):
            task.open_slot(attempt.index)
    _enter(job, task, attempt)


def _marks_input(_state: ShardState, job: Job, _data: Data, event: Event[Any]) -> None:
    _seen(job, event)


# --- inputs set aside -----------------------------------------------------------------------------------------------------


def _job_parked(_state: ShardState, job: Job, _data: JobParked, _event: Event[Any]) -> None:
    job.parked = True


def _job_unparked(_state: ShardState, job: Job, _data: JobUnparked, event: Event[Any]) -> None:
    job.parked = False
    _seen(job, event)


def _input_held(_state: ShardState, job: Job, data: InputParked | InputOrphaned, _event: Event[Any]) -> None:
    (job.held if isinstance(data, InputParked) else job.waiting).append(data.input)
    job.seen[str(data.input.get("id", ""))] = None


def _input_released(_state: ShardState, job: Job, data: InputReleased, _event: Event[Any]) -> None:
    kept = job.held if data.kept == "parked" else job.waiting
    for position, held in enumerate(kept):
        if held.get("id") == data.input:
            del kept[position]
            return


_HANDLERS: Final[dict[type[Data], Handler]] = {
    JobOpened: _job_opened,
    JobRevised: _job_revised,
    JobPhaseChanged: _job_phase_changed,
    JobRejected: _job_rejected,
    JobObjectDeleted: _job_object_deleted,
    JobForgotten: _job_forgotten,
    TaskPhaseChanged: _task_phase_changed,
    AttemptStarted: _attempt_started,
    AttemptBound: _attempt_bound,
    AttemptRunning: _attempt_running,
    AttemptTerminating: _attempt_terminating,
    AttemptEnded: _attempt_ended,
    AttemptChanged: _attempt_changed,
    AttemptLateFact: _attempt_late_fact,
    EventRaised: _event_raised,
    ActionTaken: _action_taken,
    ActionDeferred: _action_deferred,
    TimerSet: _timer_set,
    TimerCancelled: _timer_gone,
    TimerFired: _timer_gone,
    EffectRequested: _effect_requested,
    EffectSettled: _marks_input,
    CommandRefused: _marks_input,
    RowRejected: _marks_input,
    Anomaly: _marks_input,
    JobParked: _job_parked,
    JobUnparked: _job_unparked,
    InputParked: _input_held,
    InputOrphaned: _input_held,
    InputReleased: _input_released,
}
