"""Application of events about jobs and tasks: phases, raised events, actions, timers, held inputs. Must not fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from sys import intern
from typing import Any, Final

from engine.events import Data, Event
from engine.events.actions import (
    ActionDeferred,
    ActionTaken,
    DelaysCancelled,
    EffectSettled,
    EventRaised,
    TimerCancelled,
    TimerFired,
    TimerSet,
)
from engine.events.decisions import DecisionAccepted, DecisionRefused
from engine.events.excerpts import gist
from engine.events.ids import is_separate_job_id
from engine.events.jobs import JobNoticeAnswered, JobObjectDeleted, JobOpened, JobPhaseChanged, JobRevised, TaskPhaseChanged
from engine.events.outcomes import (
    Anomaly,
    CommandRefused,
    InputOrphaned,
    InputParked,
    InputReleased,
    JobParked,
    JobRejected,
    JobUnparked,
    LetterDiscarded,
    RowRejected,
)
from engine.lifecycle.indexes import (
    PAGED_BYTES,
    begin_version,
    cancelled,
    fired_key,
    mark_seen,
    note_held,
    note_released,
    note_submitted,
    place,
    remember,
    run_timer,
    set_spec,
    stop_timer,
    where_of,
)
from engine.lifecycle.job import Deferred, Job, Timer
from engine.lifecycle.job_pages import change, change_tasks, discard, keep
from engine.lifecycle.refused_inputs import (
    OBSERVE,
    REPORT,
    ROW,
    SUBMIT,
    faults_digest,
    key_of_held,
    remember_released,
    remember_request,
)
from engine.lifecycle.state import ShardState
from engine.lifecycle.tables import EMPTY, own
from statemachines.spec import JobSpec
from statemachines.vocabulary import FINISHED_JOB_PHASES

Handler = Callable[[ShardState, Job, Any, Event[Any]], None]

_WHOLE_JOB: Final = frozenset({"AbortJob", "RestartJob", "TerminateJob", "CompleteJob", "ResumeJob", "RequeueJob"})
_RESTARTS: Final = frozenset({"RestartJob", "RestartTask", "RestartPod", "RestartPartition", "RequeueJob", "ResumeJob"})


def _without_templates(spec: JobSpec) -> JobSpec:
    if not any(task.template for task in spec.tasks):
        return spec
    return replace(spec, tasks=tuple(replace(task, template=None) if task.template else task for task in spec.tasks))


def _job_opened(state: ShardState, job: Job, data: JobOpened, event: Event[Any]) -> None:
    job.opened, job.cluster = event.sequence, event.clusterid
    state.unknown_ids.pop(job.id, None)
    job.claims = EMPTY
    job.kind, job.namespace, job.name, job.managed = intern(data.kind), intern(data.namespace), data.name, data.managed
    job.tenant, job.project, job.user, job.labels = data.tenant, data.project, data.user, data.labels or EMPTY
    job.owner_known, job.owner_decides, job.object_version = data.owner, data.owner_decides, data.version
    job.since = event.time
    if data.managed and is_separate_job_id(job.id):
        note_submitted(state, job.id)
    set_spec(job, _without_templates(data.spec))
    job.settled = event.sequence
    if data.owner and data.version is None:
        mark_seen(job, event)


def _job_revised(_state: ShardState, job: Job, data: JobRevised, event: Event[Any]) -> None:
    for name in ("kind", "name", "namespace", "tenant", "project", "user", "labels", "retry_count", "owner_decides"):
        value = getattr(data, name)
        if value is not None:
            setattr(job, name, value)
    if data.job_version is not None:
        job.version = data.job_version
    if data.reason is not None:
        job.reason = data.reason or None
    if data.message is not None:
        job.gist = gist(data.message)
    job.owner_known = job.owner_known or data.owner
    if data.version is None:
        mark_seen(job, event)
    else:
        job.object_version = data.version
    if data.spec is not None:
        set_spec(job, _without_templates(data.spec))
        job.settled = event.sequence


def _job_phase_changed(state: ShardState, job: Job, data: JobPhaseChanged, event: Event[Any]) -> None:
    job.phase, job.reason, job.since = data.phase, data.reason, event.time
    job.gist = gist(data.message)
    job.retry_count, job.restarts = data.retry_count, data.restarts
    job.inferred, job.notice = data.inferred, data.notice
    if data.phase == "Pending":
        if not job.grouped:
            job.grouped, job.settled = True, event.sequence
        job.requeued = False
    if data.phase in FINISHED_JOB_PHASES:
        job.finished, job.closing = event.recordedtime, event.id
        job.deferred = None
    else:
        job.finished = None
    if job.managed and (job.finished is not None or "Aborted" in {data.phase, data.previous}):
        for attempt in job.attempts:
            place(state, job, attempt)
    if data.object_version is not None:
        job.object_version = data.object_version
    elif job.owner_known and not job.managed and not data.inferred:
        mark_seen(job, event)


def _task_phase_changed(_state: ShardState, job: Job, data: TaskPhaseChanged, event: Event[Any]) -> None:
    task = job.tasks[data.task]
    task.phase, task.since = data.phase, event.time
    if data.previous == "Restarting":
        task.restarting = False
    change_tasks(job, (data.task,))


def _refused(_state: ShardState, job: Job, data: CommandRefused, event: Event[Any]) -> None:
    if data.principal is None:
        mark_seen(job, event)
    else:
        cluster = event.clusterid if data.cluster is None else data.cluster
        remember_request(job, cluster, data.command, data.principal, event.causationid)


def _job_rejected(state: ShardState, job: Job, data: JobRejected, event: Event[Any]) -> None:
    if data.principal is None:
        _marks_input(state, job, data, event)
    else:
        for content in (data.manifest, faults_digest(data.faults)):
            remember_request(job, event.clusterid, SUBMIT, data.principal, data.input or event.causationid, content)


def _row_rejected(_state: ShardState, job: Job, _data: RowRejected, event: Event[Any]) -> None:
    remember_request(job, event.clusterid, ROW, "", event.causationid)


def _letter_discarded(_state: ShardState, job: Job, data: LetterDiscarded, event: Event[Any]) -> None:
    remember_request(job, event.clusterid, "Discard", data.principal, event.causationid)


def _job_object_deleted(_state: ShardState, job: Job, data: JobObjectDeleted, event: Event[Any]) -> None:
    job.object_deleted = event.recordedtime
    if data.version is None:
        mark_seen(job, event)
    else:
        job.object_version = data.version


def _event_raised(_state: ShardState, job: Job, data: EventRaised, event: Event[Any]) -> None:
    if data.event in {"TaskCompleted", "TaskFailed"} and data.task in job.tasks:
        setattr(job.tasks[data.task], "completed_raised" if data.event == "TaskCompleted" else "failed_raised", True)
        change_tasks(job, (data.task,))
    if data.rule is not None:
        subject = (data.task or "") if data.index is None else f"{data.task}/{data.index}"
        keep(job, "fired", fired_key(job, data.rule, subject), None)
    elif data.index is None:
        mark_seen(job, event)


def _action_taken(_state: ShardState, job: Job, data: ActionTaken, event: Event[Any]) -> None:
    if data.policy is None:
        mark_seen(job, event)
    if data.deferred:
        job.deferred = None
    job.requeued = data.action == "RequeueJob"
    if data.action == "ResumeJob" and job.phase not in {"Aborting", "Aborted"}:
        return  # Volcano: a sync, which kills no pod
    if data.action in _WHOLE_JOB:
        begin_version(job)
        job.grouped = job.enqueued = False
        job.settled = event.sequence
    names = list(job.tasks) if data.action in _WHOLE_JOB else [data.task] if data.task in job.tasks else []
    for task in map(job.tasks.__getitem__, names):
        task.completed_raised = task.failed_raised = False
        task.restarting = task.restarting or data.action in _RESTARTS
    change_tasks(job, names)


def _action_deferred(_state: ShardState, job: Job, data: ActionDeferred, event: Event[Any]) -> None:
    job.deferred = Deferred(data.action, data.by, data.reason, data.policy, data.event, data.commanded, event.id)
    mark_seen(job, event)


def _decision_accepted(_state: ShardState, job: Job, data: DecisionAccepted, _event: Event[Any]) -> None:
    remember(job, data.decision)
    if data.kind == "enqueued":
        job.enqueued = True
    elif data.kind == "bound":
        for placed in data.placements:
            attempt = job.tasks[placed.task].slots[placed.index]
            change(job, attempt)
            attempt.decided = placed.node


def _decision_refused(_state: ShardState, job: Job, data: DecisionRefused, event: Event[Any]) -> None:
    if job.opened:
        remember(job, data.decision)
    else:
        remember_request(job, event.clusterid, OBSERVE, "", data.decision)


def _timer_set(state: ShardState, job: Job, data: TimerSet, event: Event[Any]) -> None:
    timer = Timer(
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
        data.node,
        data.kill,
        data.reason,
        data.held,
        data.depth,
    )
    _run(state, job, timer)


def _run(state: ShardState, job: Job, timer: Timer) -> None:
    keep(job, "timers", timer.id, timer)
    run_timer(state, job, timer)


def _stop(state: ShardState, job: Job, ident: str) -> None:
    timer: Timer | None = discard(job, "timers", ident)
    if timer is not None:
        stop_timer(state, job, timer)


def _timer_gone(state: ShardState, job: Job, data: TimerCancelled | TimerFired, _event: Event[Any]) -> None:
    _stop(state, job, data.id)


def _delays_cancelled(state: ShardState, job: Job, data: DelaysCancelled, _event: Event[Any]) -> None:
    for timer in list(cancelled(job, data)):
        _stop(state, job, timer.id)


def _effect_settled(_state: ShardState, job: Job, data: EffectSettled, event: Event[Any]) -> None:
    attempt = job.by_effect.get(data.effect)
    if attempt is not None:
        change(job, attempt)
        if data.effect == attempt.creation:
            del own(job.by_effect)[attempt.creation]
            attempt.creation = ""
        elif data.effect == attempt.binding:
            del own(job.by_effect)[attempt.binding]
            attempt.binding = ""
            if data.outcome == "failed":  # another decision may give it another node
                attempt.decided = None
        elif data.outcome == "failed":
            attempt.tries += 1
            attempt.unknown = attempt.unknown + 1 if data.reason == "NotFound" else 0
            if attempt.object == "asked" and attempt.kill is None:
                # Only a refusal proves that the pod was not created; after any other failure it may appear later.
                attempt.doubted = attempt.doubted or data.reason is None
                attempt.object = "asked" if attempt.doubted else "absent"
        if data.outcome != "failed" and attempt.object == "asked":  # a deleted pod must have existed
            attempt.object, attempt.seen = "made", event.recordedtime
    if job.opened:
        mark_seen(job, event)
    else:
        remember_request(job, event.clusterid, REPORT, data.principal, event.causationid)


def _marks_input(_state: ShardState, job: Job, _data: Data, event: Event[Any]) -> None:
    if job.opened:
        mark_seen(job, event)
    else:
        remember_request(job, event.clusterid, OBSERVE, "", event.causationid)


def _job_parked(_state: ShardState, job: Job, _data: JobParked, _event: Event[Any]) -> None:
    job.parked = True


def _job_unparked(state: ShardState, job: Job, data: JobUnparked, event: Event[Any]) -> None:
    job.parked = False
    _set_going(state, job)
    if data.principal is None:
        mark_seen(job, event)
    else:
        remember_request(job, event.clusterid, "Unpark", data.principal, event.causationid)


def _set_going(state: ShardState, job: Job) -> None:
    """Resume paused timers. All but steps wait until no input is held, because a held input may cancel them."""
    for timer in [timer for timer in job.timers.values() if timer.held and (timer.kind == "step" or not job.held)]:
        _stop(state, job, timer.id)
        timer.held = False
        _run(state, job, timer)


def _input_held(_state: ShardState, job: Job, data: InputParked | InputOrphaned, _event: Event[Any]) -> None:
    ident = str(data.input.get("id", ""))
    waits = isinstance(data, InputOrphaned)
    key = ident if waits else key_of_held(data.input)
    if key not in (job.waiting if waits else job.held):
        size = note_held(job, key, data.input, waits=waits)
        keep(job, "waiting" if waits else "held", key, data.input, alone=size > PAGED_BYTES)
    if job.opened and not waits:
        remember(job, ident)


def _input_released(state: ShardState, job: Job, data: InputReleased, _event: Event[Any]) -> None:
    waited = data.kept == "waiting"
    # Held inputs are released in order, so the first of several with the same id is meant.
    key = data.input if waited else next((key for key, held in job.held.items() if held["id"] == data.input), "")
    held = discard(job, "waiting" if waited else "held", key)
    if held is not None:
        note_released(job, data.input, held, waited=waited)
        if waited:
            if where_of(held) == (job.cluster, job.namespace):
                remember(job, data.input)
        elif data.job is not None or data.input not in job.seen:  # otherwise it was held for this job
            remember_released(job, held, data)
    if not (waited or job.held or job.parked):
        _set_going(state, job)


JOBS: Final[dict[type[Data], Handler]] = {
    JobOpened: _job_opened,
    JobRevised: _job_revised,
    JobPhaseChanged: _job_phase_changed,
    JobRejected: _job_rejected,
    JobObjectDeleted: _job_object_deleted,
    TaskPhaseChanged: _task_phase_changed,
    EventRaised: _event_raised,
    ActionTaken: _action_taken,
    ActionDeferred: _action_deferred,
    TimerSet: _timer_set,
    TimerCancelled: _timer_gone,
    DelaysCancelled: _delays_cancelled,
    TimerFired: _timer_gone,
    EffectSettled: _effect_settled,
    CommandRefused: _refused,
    JobNoticeAnswered: _marks_input,
    RowRejected: _row_rejected,
    LetterDiscarded: _letter_discarded,
    DecisionAccepted: _decision_accepted,
    DecisionRefused: _decision_refused,
    Anomaly: _marks_input,
    JobParked: _job_parked,
    JobUnparked: _job_unparked,
    InputParked: _input_held,
    InputOrphaned: _input_held,
    InputReleased: _input_released,
}
