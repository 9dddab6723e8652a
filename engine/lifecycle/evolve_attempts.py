"""Application of events about attempts: one function per event type; must not fail."""

from __future__ import annotations

from collections.abc import Callable
from sys import intern
from typing import Any, Final, get_args

from msgspec.structs import replace

from engine.events import Data, Event
from engine.events.actions import EffectRequested
from engine.events.attempts import (
    AttemptBound,
    AttemptChanged,
    AttemptEnded,
    AttemptEvent,
    AttemptLateFact,
    AttemptMoved,
    AttemptObjectChanged,
    AttemptRunning,
    AttemptStarted,
    AttemptTerminating,
)
from engine.events.excerpts import gist
from engine.lifecycle.indexes import (
    enter,
    leave,
    leaves_slot_open,
    mark_seen,
    place,
    seat,
)
from engine.lifecycle.job import Attempt, Job, Task
from engine.lifecycle.job_pages import append, change, change_tasks
from engine.lifecycle.pod_jobs import forget_pods, note_pod, note_pods
from engine.lifecycle.state import ShardState
from engine.lifecycle.tables import own
from statemachines.spec import TaskSpec
from statemachines.vocabulary import FINISHED_JOB_PHASES, ObjectState

Handler = Callable[[ShardState, Job, Any, Event[Any]], None]

_OBJECT_ORDER: Final[dict[ObjectState, int]] = {state: order for order, state in enumerate(get_args(ObjectState))}

_STOPPING: Final = FINISHED_JOB_PHASES | {"Aborting", "Aborted", "Completing", "Terminating"}
"""Phases in which an attempt that ends is not replaced."""


def _attempt_started(state: ShardState, job: Job, data: AttemptStarted, event: Event[Any]) -> None:
    task = job.tasks.get(data.task)
    if task is None:
        spec = TaskSpec(intern(data.task), requests=data.requests)  # one string for all tasks of this name
        task = job.tasks[spec.name] = Task(spec, since=event.time, sized=False, place=len(job.tasks))
    if not task.sized and data.index >= task.spec.replicas:
        task.spec = replace(task.spec, replicas=data.index + 1)  # such a task has a specification derived from its pods
        change_tasks(job, (data.task,))
    requests = task.spec.requests if task.spec.requests == data.requests else data.requests
    attempt = Attempt(
        task.spec.name,  # the same text for all attempts of the task
        data.index,
        data.attempt,
        uid=data.uid,
        pod=data.pod,
        version=data.version,
        seen=_arrived(data, event),
        created=event.time,
        since=event.time,
        reason=data.reason,
        gist=gist(data.message),
        requests=requests,
        job_version=data.job_version,
        object="absent" if data.uid is None else "exists",
        past=data.past,
        controller=data.controller,
    )
    append(job, attempt)
    seat(job, task, attempt)
    task.next_index = max(task.next_index, data.index + 1)
    task.note(attempt)
    job.live += 1
    if data.uid is not None:
        note_pod(state, job, attempt, data.uid)
        if data.controller is not None:
            note_pods(state, (job.cluster, job.namespace), job.id, (data.controller,))
        if data.version is None:
            mark_seen(job, event)
    enter(job, task, attempt)


def _find(job: Job, data: AttemptEvent) -> tuple[Task, Attempt]:
    task = job.tasks[data.task]
    attempt = task.slots.get(data.index)
    if attempt is None or attempt.number != data.attempt:
        attempt = job.earlier[data.task, data.index, data.attempt]  # own output: an attempt's first event is attempt.started
    change(job, attempt)
    return task, attempt


def _observed(job: Job, attempt: Attempt, data: AttemptEvent, event: Event[Any]) -> None:
    if data.version is None:
        if attempt.uid is not None:
            mark_seen(job, event)
    elif data.version == attempt.version:
        return  # not a newer observation of the pod: a fact about its node, or another event of the same observation
    else:
        attempt.version = data.version
    attempt.seen = _arrived(data, event)


def _arrived(data: AttemptEvent, event: Event[Any]) -> int:
    """Return the recorded time of the observation that caused an event (microseconds)."""
    return event.recordedtime if data.arrived is None else data.arrived


def _attempt_bound(state: ShardState, job: Job, data: AttemptBound, event: Event[Any]) -> None:
    task, attempt = _find(job, data)
    # An attempt counts as pending before and after it gets a node: no counter changes.
    attempt.phase, attempt.reason, attempt.gist = "Bound", data.reason, gist(data.message)
    attempt.bound = attempt.since = event.time
    task.note(attempt)
    attempt.node = intern(data.node) or None  # one string for all attempts on a node
    attempt.decided = None
    _observed(job, attempt, data, event)
    place(state, job, attempt)


def _attempt_running(_state: ShardState, job: Job, data: AttemptRunning, event: Event[Any]) -> None:
    task, attempt = _find(job, data)
    leave(job, task, attempt)
    attempt.phase, attempt.reason, attempt.ready = "Running", data.reason, data.ready
    attempt.gist = gist(data.message)
    attempt.running = attempt.since = event.time
    task.note(attempt)
    _observed(job, attempt, data, event)
    enter(job, task, attempt)


def _attempt_terminating(_state: ShardState, job: Job, data: AttemptTerminating, event: Event[Any]) -> None:
    task, attempt = _find(job, data)
    leave(job, task, attempt)
    attempt.phase, attempt.reason, attempt.since = "Terminating", data.reason, event.time
    task.note(attempt)
    attempt.gist = gist(data.message)
    attempt.terminating, attempt.deadline = True, data.deadline
    _show_object(job, attempt, "deleting")
    _observed(job, attempt, data, event)
    enter(job, task, attempt)


def _attempt_ended(state: ShardState, job: Job, data: AttemptEnded, event: Event[Any]) -> None:
    task, attempt = _find(job, data)
    leave(job, task, attempt)
    attempt.phase, attempt.reason, attempt.gist = data.phase, data.reason, ""
    attempt.running = data.started
    attempt.ended = attempt.since = event.time
    task.note(attempt)
    attempt.rank, attempt.replaceable, attempt.exit_code = data.rank, data.replaceable, data.exit_code
    _show_object(job, attempt, data.object)
    if attempt.kill is None:
        _forget_effect(job, attempt)
    attempt.disruption = None
    _observed(job, attempt, data, event)
    job.live -= 1
    place(state, job, attempt)
    enter(job, task, attempt)
    _follow_slot(job, task, attempt)
    if attempt.replaceable and attempt.index < task.spec.replicas and task.slots.get(attempt.index) is attempt:
        task.restarting = job.phase not in _STOPPING
        change_tasks(job, (data.task,))


def _attempt_changed(state: ShardState, job: Job, data: AttemptChanged, event: Event[Any]) -> None:
    task, attempt = _find(job, data)
    if data.uid is not None:
        attempt.uid = data.uid
        note_pod(state, job, attempt, data.uid)
        _show_object(job, attempt, "exists")
    if data.reason_changed:
        attempt.reason = data.reason
    if data.reason_changed or data.message:
        attempt.gist = gist(data.message)
    if data.restarts is not None or data.ready is not None:
        leave(job, task, attempt)
        attempt.restarts = attempt.restarts if data.restarts is None else data.restarts
        attempt.ready = attempt.ready if data.ready is None else data.ready
        enter(job, task, attempt)
    if data.requests is not None:
        attempt.requests = data.requests
    if data.disruption is not None:
        attempt.disruption = data.disruption or None
    if data.started is not None:
        attempt.running = data.started
    if data.owner is not None:
        attempt.owner, attempt.adopter = data.owner, data.controller
    _observed(job, attempt, data, event)


def _attempt_moved(state: ShardState, job: Job, data: AttemptMoved, _event: Event[Any]) -> None:
    """Empty the attempt's replica, because its pod belongs to another job now; the attempt has no further events."""
    task, attempt = _find(job, data)
    leave(job, task, attempt)
    attempt.ended, attempt.replaceable, attempt.object = attempt.since, True, "gone"
    job.live -= 1
    place(state, job, attempt)
    attempt.uid = None
    job.by_uid.pop(data.uid, None)
    forget_pods(state, (job.cluster, job.namespace), job.id, (data.uid,))
    _follow_slot(job, task, attempt)


def _attempt_late_fact(state: ShardState, job: Job, data: AttemptLateFact, event: Event[Any]) -> None:
    task, attempt = _find(job, data)
    attempt.late = (data.phase, data.reason, data.ended, data.rank)
    attempt.terminating = attempt.terminating or data.terminating is not None
    attempt.running = data.started if attempt.running is None else attempt.running
    if data.uid is not None:  # first observed after it was given up: its object exists after all
        leave(job, task, attempt)
        attempt.uid, attempt.object = data.uid, "exists"
        note_pod(state, job, attempt, data.uid)
        enter(job, task, attempt)
        _follow_slot(job, task, attempt)
    if data.version is not None:
        attempt.version = data.version
    else:
        mark_seen(job, event)


def _effect_requested(state: ShardState, job: Job, data: EffectRequested, event: Event[Any]) -> None:
    if data.task is None or data.index is None or data.attempt is None:
        return
    attempt = job.attempt(data.task, data.index, data.attempt)
    if attempt is None:
        return
    change(job, attempt)
    if data.effect == "bind_pod":
        attempt.binding = event.id
        job.by_effect = own(job.by_effect)
        job.by_effect[event.id] = attempt
        return
    task = job.tasks[data.task]
    leave(job, task, attempt)
    if data.effect == "delete_pod" and attempt.object == "asked" and not attempt.creation:
        attempt.creation = attempt.effect  # its outcome is not reported yet
    else:
        own(job.by_effect).pop(attempt.effect, None)
    if attempt.object != "gone":
        attempt.effect, attempt.asked = event.id, event.recordedtime
        job.by_effect = own(job.by_effect)
        job.by_effect[event.id] = attempt
    if data.effect == "create_pod":
        attempt.object = "asked" if attempt.object == "absent" else attempt.object
    elif attempt.live:
        if attempt.kill is None and data.cause is not None:
            attempt.kill, attempt.killed, attempt.tries = data.cause, event.time, 0
    elif attempt.object != "deleting" or not attempt.replaceable:  # otherwise this is a repeated request
        attempt.replaceable, attempt.tries = True, 0
    if data.effect == "delete_pod" and attempt.uid is not None:
        _show_object(job, attempt, "deleting")
    enter(job, task, attempt)
    _follow_slot(job, task, attempt)
    place(state, job, attempt)


def _attempt_object_changed(state: ShardState, job: Job, data: AttemptObjectChanged, event: Event[Any]) -> None:
    task, attempt = _find(job, data)
    leave(job, task, attempt)
    attempt.replaceable = attempt.replaceable or data.replaceable
    _show_object(job, attempt, data.object)
    if data.version is not None:
        attempt.version = data.version
    elif not data.why:
        mark_seen(job, event)
    enter(job, task, attempt)
    _follow_slot(job, task, attempt)
    place(state, job, attempt)


def _show_object(job: Job, attempt: Attempt, shown: ObjectState) -> None:
    if _OBJECT_ORDER[shown] > _OBJECT_ORDER[attempt.object]:
        attempt.object = shown
        if shown == "gone":
            _forget_effect(job, attempt)


def _forget_effect(job: Job, attempt: Attempt) -> None:
    if attempt.effect or attempt.creation or attempt.binding:
        by_effect = own(job.by_effect)
        for effect in (attempt.effect, attempt.creation, attempt.binding):
            by_effect.pop(effect, None)
        attempt.effect = attempt.creation = attempt.binding = ""


def _follow_slot(job: Job, task: Task, attempt: Attempt) -> None:
    if attempt.ended is None or task.slots.get(attempt.index) is not attempt:
        return
    if leaves_slot_open(job, task, attempt):
        task.open_slot(attempt.index)
    elif task.open:
        task.close_slot(attempt.index)


ATTEMPTS: Final[dict[type[Data], Handler]] = {
    AttemptStarted: _attempt_started,
    AttemptBound: _attempt_bound,
    AttemptRunning: _attempt_running,
    AttemptTerminating: _attempt_terminating,
    AttemptEnded: _attempt_ended,
    AttemptChanged: _attempt_changed,
    AttemptLateFact: _attempt_late_fact,
    AttemptMoved: _attempt_moved,
    AttemptObjectChanged: _attempt_object_changed,
    EffectRequested: _effect_requested,
}
