"""Managed jobs: rules for pods, commands, timers and new specifications.

A change raises a lifecycle event (Volcano's notifications), the policies map it to an action, and `actions` executes it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, Final, Literal

from engine.events import Data, Event
from engine.events.actions import EventRaised, TimerSet
from engine.events.back_off import BackOff
from engine.events.bounds import NAME_CHARACTERS
from engine.events.decisions import SCHEDULER
from engine.events.inputs import (
    EffectReported,
    JobSubmitted,
    JobUpdated,
    ObjectApplied,
    PodObserved,
)
from engine.events.jobs import JobObjectDeleted, JobOpened, JobRevised
from engine.events.outcomes import Fault, JobRejected
from engine.events.times import SECOND
from engine.kubernetes.manifests.identity import read_identity
from engine.kubernetes.manifests.job_bounds import first_faults
from engine.kubernetes.manifests.manifest import read_manifest, update_spec
from engine.kubernetes.reading.fields import mapping
from engine.kubernetes.reading.pod_shape import plugin_annotations, pod_shape
from engine.lifecycle.action_request import ActionRequest
from engine.lifecycle.actions import (
    cancel,
    delays,
    execute,
    failure_behind,
    raise_event,
    settle,
)
from engine.lifecycle.authority import denial
from engine.lifecycle.closing import give_up_object
from engine.lifecycle.event_factory import Decision, EventFactory, Events
from engine.lifecycle.indexes import awaits_end
from engine.lifecycle.job import Attempt, Job, Timer
from engine.lifecycle.lost_pods import end_without_evidence, stop_waiting, wait_for_lost, wait_for_node, wait_for_sight
from engine.lifecycle.observed_pods import EVICTED
from engine.lifecycle.pods import ask_again, bind_decided, is_doomed, kill, meet, rest_of_kill, update_surplus
from engine.lifecycle.refused_inputs import SUBMIT, faults_digest, is_remembered, manifest_digest
from statemachines.delays import cancelled_by_event
from statemachines.limits import active_deadline_due
from statemachines.notifications import pod_added, pod_deleted, pod_updated
from statemachines.task_rules import task_completed, task_failed
from statemachines.vocabulary import FINISHED_JOB_PHASES

_BACK_OFF: Final = BackOff(SECOND, 300 * SECOND)
"""Delay before a failed effect is requested again."""
_NAME_TAKEN: Final = BackOff(SECOND, 86_400 * SECOND)
"""Delay for a pod whose name is taken, perhaps forever: each attempt is part of the history."""

_STOPPING: Final = frozenset({"Aborting", "Aborted", "Completing", "Terminating"})
"""Phases in which only ResumeJob has an effect."""


def submitted(factory: EventFactory, job: Job, event: Event[JobSubmitted]) -> Decision:
    """Open the job of a manifest, or reject it with every fault."""
    submission = event.data
    namespace, name, tenant = read_identity(submission.manifest, event.id)
    # Checked first: validating a manifest can take a second, which a principal without a grant must not cost others.
    why = denial(factory.state, submission.principal, factory.cluster, namespace, tenant)
    if why is not None:
        return (yield from _reject(factory, job, event, name, first_faults([Fault("metadata.namespace", why)])))
    read = read_manifest(
        submission.manifest,
        strict=submission.strict,
        queues=queues_of(_objects(factory)),
        seed=event.id,
        most_replicas=factory.state.max_replicas,
        accelerators=factory.state.accelerators,
    )
    if read.faults:
        return (yield from _reject(factory, job, event, read.name, read.faults))
    ours = read.spec.scheduler_name == SCHEDULER
    metadata = mapping(submission.manifest.get("metadata"))
    annotations = plugin_annotations(metadata.get("annotations")) if ours else {}
    opened = factory.event(
        job,
        JobOpened(
            kind=read.kind,
            name=read.name,
            managed=True,
            spec=read.spec,
            namespace=read.namespace,
            tenant=read.tenant,
            project=read.project,
            user=read.user,
            labels=read.labels,
            warnings=read.warnings,
            owner=True,
            shapes={task.name: pod_shape(task.template, annotations) for task in read.spec.tasks} if ours else {},
            annotations=annotations,
        ),
    )
    yield opened
    factory.cause = opened.id
    due = active_deadline_due(job.spec, job.since)
    if due is not None:
        yield factory.event(job, TimerSet("active_deadline", due))
    yield from settle(factory, job)
    return "applied"


def _reject(factory: EventFactory, job: Job, event: Event[JobSubmitted], name: str, faults: list[Fault]) -> Decision:
    principal = event.data.principal
    if is_remembered(job, event.clusterid, SUBMIT, principal, event.id, faults_digest(faults)):
        return "duplicate"
    held = event.id if event.id != factory.origin else None
    rejected = JobRejected(name[:NAME_CHARACTERS], faults, principal=principal, manifest=manifest_digest(event.data), input=held)
    yield factory.about(job).event(job, rejected)
    factory.index += 1  # an event was created
    return "rejected"


def _objects(factory: EventFactory) -> list[Data]:
    """Return the objects of the input's cluster."""
    return [applied for (cluster, _, _), applied in factory.state.facts.objects.items() if cluster == factory.cluster]


def queues_of(objects: Iterable[Data]) -> list[dict[str, Any]]:
    """Return the queues among the objects of a cluster, in the form that validation of a submission needs."""
    return [
        {"name": applied.name, "parent": applied.spec.get("parent", ""), "state": applied.spec.get("state", "Open")}
        for applied in objects
        if isinstance(applied, ObjectApplied) and applied.kind == "Queue"
    ]


def updated(
    factory: EventFactory, job: Job, update: JobUpdated
) -> Generator[Event[Data], None, Literal["rejected", "unchanged", "applied"]]:
    """Apply a changed manifest, in which only fields that are mutable in Volcano may differ; return the outcome."""
    spec, faults = update_spec(job.spec, update.manifest, factory.state.max_replicas, factory.state.accelerators)
    if faults:
        yield factory.event(job, JobRejected(job.name, faults, update=True))
        return "rejected"
    if spec == job.spec:
        return "unchanged"
    revised = factory.event(job, JobRevised(spec=spec))
    yield revised
    factory.cause = revised.id
    yield from update_surplus(factory, job)
    yield from settle(factory, job)
    return "applied"


def deleted(factory: EventFactory, job: Job, version: str | None) -> Events:
    """Stop a job whose object was deleted."""
    gone = factory.event(job, JobObjectDeleted(version))
    yield gone
    factory.cause = gone.id
    if job.phase not in FINISHED_JOB_PHASES:
        request = ActionRequest("TerminateJob", reason="the job was deleted", commanded=True)
        yield from settle(factory, job) if job.phase in _STOPPING else execute(factory, job, request)
    if job.live or job.counts.terminating:
        yield from wait_for_lost(factory, job)


# --- pods -----------------------------------------------------------------------------------------------------------------


def pod_changed(
    factory: EventFactory, job: Job, attempt: Attempt, before: str | None, shown: str, restarts: int, pod: PodObserved | None = None
) -> Events:
    """Process a change of an attempt.

    Args:
        factory: creates the events.
        job: the job.
        attempt: the attempt after the change.
        before: its phase before; `None` if its pod is observed for the first time.
        shown: id of the event with its current phase.
        restarts: its container restarts before.
        pod: the observation; `None`: its pod is no longer observed.
    """
    news, factory.cause, factory.time = factory.last, shown, attempt.since
    event = _event_of(job, attempt, before, restarts)
    if job.delays:
        # An ended pod is not pending, and one that succeeded has run. (Volcano keeps the delays of killed pods.)
        seen_as = event if attempt.live else "PodRunning" if attempt.phase == "Succeeded" else "PodFailed"
        pointless = cancelled_by_event(delays(job, attempt.pod), seen_as, attempt.pod, attempt.uid)
        yield from cancel(factory, job, pointless, f"{attempt.pod} is {attempt.phase}")
    if event not in {"OutOfSync", "PodRunning", "TaskFailed"}:
        raised = EventRaised(
            event,
            task=attempt.task,
            index=attempt.index,
            attempt=attempt.number,
            exit_code=attempt.exit_code,
            version=attempt.job_version,
        )
        # Volcano: the deletion of a pod has no exit code; the exit code of a stopped program is no failure.
        first_exit_code = pod.first_exit_code if pod is not None and event == "PodFailed" else 0
        yield from raise_event(factory, job, raised, attempt, first_exit_code)
    if _failed_too_often(job, attempt, restarts):
        if attempt.live:  # the job's phase before its last restart followed from this pod
            yield from settle(factory, job)
            restarted = pod.restarted if pod is not None and pod.restarted is not None else factory.now
            factory.cause, factory.time = news, max(attempt.since, restarted)
        failed = EventRaised(
            "TaskFailed", task=attempt.task, index=attempt.index, attempt=attempt.number, version=attempt.job_version
        )
        yield from raise_event(factory, job, failed, attempt)
    if before is None:
        yield from meet(factory, job, attempt)
    if attempt.reason == "NodeLost" and not attempt.live and attempt.object != "gone":
        yield from wait_for_lost(factory, job, node=attempt.node)
    yield from _wait_for_object(factory, job, attempt)
    yield from settle(factory, job)


def object_changed(factory: EventFactory, job: Job, attempt: Attempt) -> Events:
    """Process a change of the object of a closed attempt: once it is gone, its replica is open."""
    factory.cause = factory.last
    yield from meet(factory, job, attempt)
    yield from _wait_for_object(factory, job, attempt)
    yield from wait_for_node(factory, job, attempt)
    yield from settle(factory, job)


def _wait_for_object(factory: EventFactory, job: Job, attempt: Attempt) -> Events:
    """Start the wait for an object whose deletion was requested elsewhere, because its end may be missed."""
    ours = attempt.kill is not None if attempt.live else bool(attempt.effect)
    if attempt.object == "deleting" and not ours and awaits_end(job, attempt):
        yield from wait_for_lost(factory, job)


def effect_settled(factory: EventFactory, job: Job, report: EffectReported) -> Events:
    """Request a failed effect on a pod again, with back-off.

    After two answers "no such pod" to a deletion, the object counts as gone.
    """
    attempt = job.by_effect.get(report.effect)
    if attempt is None:
        return
    factory.cause = factory.last
    if report.outcome != "failed":
        yield from wait_for_sight(factory, job) if attempt.object == "made" else wait_for_lost(factory, job)
    elif report.reason == "NotFound" and attempt.object != "absent" and attempt.unknown > 1:
        if attempt.live:
            before = attempt.phase
            yield end_without_evidence(factory, job, attempt, "EndUnknown")
            yield from pod_changed(factory, job, attempt, before, factory.last, attempt.restarts)
        else:
            yield give_up_object(factory, job, attempt, "the API server knows no such pod")
            yield from settle(factory, job)
        yield from stop_waiting(factory, job, attempt)
    elif (attempt.task, attempt.index, attempt.number) not in job.retries:
        back_off = _NAME_TAKEN if report.reason == "AlreadyExists" else _BACK_OFF
        due = factory.now + back_off.delay(attempt.tries)
        yield factory.event(job, TimerSet("effect", due, task=attempt.task, index=attempt.index, attempt=attempt.number))


def _failed_too_often(job: Job, attempt: Attempt, restarts: int) -> bool:
    """Return true if a change of an attempt exceeds its task's limit of failed replicas or restarts in place.

    Volcano checks at every update of a pod, except the one that first shows it running; here that one counts too.
    """
    task = job.tasks[attempt.task]
    if task.failed_raised or attempt.phase == "Terminating" or (not attempt.live and is_doomed(job, attempt)):
        return False
    if attempt.live:
        return attempt.restarts > restarts and task_failed(task.spec, task.restart_sum, 0)
    return task_failed(task.spec, 0, task.counts.failed)


def _event_of(job: Job, attempt: Attempt, before: str | None, restarts: int) -> str:
    """Return Volcano's event for a change of an attempt.

    Lahar raises some that Volcano misses: a pod first observed after its end still raises PodFailed or PodEvicted, and one first
    observed running does not count as pending.
    """
    ours = is_doomed(job, attempt)
    task = job.tasks[attempt.task]
    if not attempt.live:
        if attempt.phase == "Succeeded":
            done = task_completed(task.spec, task.counts.succeeded) and not task.completed_raised
            return pod_updated("Running", "Succeeded", task_completed=done)
        if attempt.reason in EVICTED or (attempt.phase == "Lost" and attempt.reason != "ExitUnknown"):
            return pod_deleted(out_of_sync=ours)
        return pod_updated("Running", "Failed", out_of_sync=ours)
    if before is None and attempt.phase != "Running":
        return pod_added(out_of_sync=ours)
    if attempt.phase == "Terminating":
        return "OutOfSync"
    failed = _failed_too_often(job, attempt, restarts)
    return pod_updated(_kubernetes(before or "Pending"), _kubernetes(attempt.phase), task_failed=failed, out_of_sync=ours)


def _kubernetes(phase: str) -> str:
    """Return the Kubernetes phase of a live attempt."""
    return "Running" if phase in {"Running", "Terminating"} else "Pending"


# --- steps and timers --------------------------------------------------------------------------------------------------


def go_on(factory: EventFactory, job: Job, timer: Timer) -> Events:
    """Take the next step of work on a large job."""
    if timer.kill is not None:
        plan, request = rest_of_kill(job, timer)
        yield from kill(factory, job, plan, timer.kill, request, timer.reason or "KilledByAction")
    yield from bind_decided(factory, job)
    yield from settle(factory, job)


def on_timer(factory: EventFactory, job: Job, timer: Timer) -> Events:
    """Execute the purpose of a timer on the current state; the policy is not evaluated again (Volcano)."""
    if timer.kind == "active_deadline":
        yield from execute(factory, job, ActionRequest("TerminateJob", reason="activeDeadlineSeconds have passed"))
        return
    attempt = None
    if timer.task is not None and timer.index is not None and timer.attempt is not None:
        attempt = job.attempt(timer.task, timer.index, timer.attempt)
    if timer.kind == "effect":
        if attempt is not None:
            yield from ask_again(factory, job, attempt)
        return
    cause = failure_behind(job, timer.event or "", attempt)
    yield from execute(
        factory,
        job,
        ActionRequest(
            timer.action or "SyncJob",
            task=timer.task,
            index=timer.index,
            partition=timer.partition,
            policy=timer.policy,
            event=timer.event,
            cause=cause,
        ),
    )
