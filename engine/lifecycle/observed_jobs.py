"""Observed jobs, run by another controller: their phase follows the owner's status, or else their attempts.

Nothing is requested for them. An end derived from attempts alone is inferred; until the job object is observed, a new attempt
revokes it.
"""

from __future__ import annotations

from typing import Final

from engine.events import Event
from engine.events.excerpts import excerpt, gist
from engine.events.inputs import JobDeleted, JobObserved, PodObserved
from engine.events.jobs import JobObjectDeleted, JobOpened, JobPhaseChanged, JobRevised
from engine.events.pod_shape import PREEMPTABLE
from engine.lifecycle.event_factory import EventFactory, Events
from engine.lifecycle.job import Job
from engine.lifecycle.lost_pods import wait_for_lost
from statemachines.counters import Counters
from statemachines.observed import ObservedPhase, attempts_show, owner_shows
from statemachines.spec import JobSpec, TaskSpec
from statemachines.vocabulary import FINISHED_JOB_PHASES, JobPhase

MOVED: Final = "Moved"
"""Reason of a job without pods, because all have moved to the job of which it is a part."""
_TRACE: Final = "Trace"
"""Kind of jobs imported from a trace, which reports the ends of a job's pods after the job's own end."""


def has_moved(job: Job) -> bool:
    """Return true if all pods of a job have moved to the job of which it is a part."""
    return job.inferred and job.reason == MOVED


def open_from_pod(factory: EventFactory, job: Job, pod: PodObserved) -> Events:
    """Open a job on the first observation of one of its pods."""
    yield factory.event(
        job,
        JobOpened(
            kind=factory.state.listed_kind(pod.kind),
            name=pod.owner or pod.name,
            managed=False,
            spec=JobSpec(queue=pod.queue or "default", priority_class=pod.priority_class),
            namespace=pod.namespace,
            tenant=pod.tenant or pod.namespace,
            project=pod.project or "",
            user=pod.user or "",
            labels={PREEMPTABLE: "true"} if pod.preemptible else {},
        ),
        pod.created,
    )


def contradiction(job: Job, seen: JobObserved) -> str | None:
    """Return how a job object's status contradicts an end that it reported before; `None`: it does not."""
    if seen.phase is None or _owner_shows(job, seen) is not None:
        return None
    return f"the job object says {seen.phase} after it had said {job.phase}"


def job_observed(factory: EventFactory, job: Job, seen: JobObserved) -> Events:
    """Apply an observed job object: identity, size, and the phase of its status."""
    spec = _spec(job, seen)
    if not job.opened:
        yield factory.event(
            job,
            JobOpened(
                kind=factory.state.listed_kind(seen.kind),
                name=seen.name,
                managed=False,
                spec=spec,
                namespace=seen.namespace,
                tenant=seen.tenant or seen.namespace,
                project=seen.project or "",
                user=seen.user or "",
                labels=seen.labels,
                owner=True,
                owner_decides=seen.owner_decides,
                version=seen.version,
            ),
            seen.created,
        )
    revised = _revision(factory, job, seen, spec)
    if revised is not None:
        yield factory.event(job, revised)
    yield from _follow_owner(factory, job, seen)


def _owner_shows(job: Job, seen: JobObserved) -> ObservedPhase | None:
    """Return the job's phase after an observation of its object; `None`: its status contradicts an end that it reported."""
    if seen.phase is None:
        return ObservedPhase(job.phase)
    return owner_shows(
        job.phase,
        seen.phase,
        inferred=job.inferred,
        owner_decides=seen.owner_decides,
        runs_again=seen.runs_again,
        counters=job.counts,
    )


def _follow_owner(factory: EventFactory, job: Job, seen: JobObserved) -> Events:
    """Apply the phase of the owner's status; a status without a known phase changes the reason alone."""
    shown = _owner_shows(job, seen)
    if shown is None or (seen.phase is None and (seen.reason is None or job.phase in FINISHED_JOB_PHASES)):
        return
    phase = shown.phase
    if phase != job.phase or (job.inferred and phase in FINISHED_JOB_PHASES):
        yield _change(
            factory,
            job,
            phase,
            _entered(factory, job, seen, phase),
            reason=seen.reason,
            message=excerpt(seen.message),
            object_version=seen.version,
            without_end=seen.without_end,
        )
        if job.live and phase in FINISHED_JOB_PHASES and job.kind != _TRACE:
            yield from wait_for_lost(factory, job)
    elif seen.phase in {None, phase} and (seen.reason != job.reason or gist(excerpt(seen.message)) != job.gist):
        yield factory.event(job, JobRevised(reason=seen.reason or "", message=excerpt(seen.message), version=seen.version))


def _entered(factory: EventFactory, job: Job, seen: JobObserved, phase: JobPhase) -> int:
    """Return the time at which a job entered a phase: from the object, its last write, or the arrival of the observation.

    A phase derived from attempts begins with their last change. A job whose owner only counts pods runs since the start of its
    first attempt; attempts before its current phase do not count.
    """
    if phase != seen.phase:
        return max([task.latest for task in job.tasks.values()])
    stated = seen.ended if phase in FINISHED_JOB_PHASES else seen.since
    if stated is None and phase == "Running" and not seen.owner_decides:
        starts = (attempt.running for attempt in job.attempts if attempt.running is not None)
        stated = min((start for start in starts if start >= job.since), default=None)
    return next(time for time in (stated, seen.written, factory.arrived) if time is not None)


def _spec(job: Job, seen: JobObserved) -> JobSpec:
    tasks = tuple(
        TaskSpec(name, count, requests=job.tasks[name].spec.requests if name in job.tasks else TaskSpec(name).requests)
        for name, count in seen.tasks.items()
    )
    return JobSpec(tasks=tasks, queue=seen.queue, min_available=seen.min_available, priority_class=seen.priority_class)


def _revision(factory: EventFactory, job: Job, seen: JobObserved, spec: JobSpec) -> JobRevised | None:
    """Return the new facts of the object; `None`: none."""
    changes: dict[str, object] = {
        "kind": factory.state.listed_kind(seen.kind),
        "name": seen.name,
        "namespace": seen.namespace,
        "tenant": seen.tenant or seen.namespace,
        "project": seen.project or "",
        "user": seen.user or "",
        "labels": seen.labels,
        "retry_count": seen.retry_count,
        "owner_decides": seen.owner_decides,
    }
    news = {name: value for name, value in changes.items() if value is not None and value != getattr(job, name)}
    if seen.job_version is not None and seen.job_version != job.version:
        news["job_version"] = seen.job_version
    new_terms = any(getattr(spec, name) != getattr(job.spec, name) for name in ("queue", "min_available", "priority_class"))
    new_spec = spec != job.spec and (spec.tasks or new_terms)
    if not news and not new_spec and job.owner_known:
        return None
    created = None if job.owner_known else seen.created
    return JobRevised(spec=spec if new_spec else None, owner=True, created=created, version=seen.version, **news)  # type: ignore[arg-type]  # by name


def follow_attempts(factory: EventFactory, job: Job, time: int) -> Events:
    """Change the job's phase after one of its attempts has changed.

    The phase stays while the only live pods are earlier ones of replicas whose later pods have moved to another job.
    """
    expected = sum([task.spec.replicas for task in job.tasks.values() if task.sized])
    moved = not job.live and bool(job.attempts) and job.counts == Counters()
    shown = attempts_show(
        job.phase,
        job.counts,
        inferred=job.inferred,
        owner_known=job.owner_known,
        owner_decides=job.owner_decides,
        expected=expected,
        moved=moved,
    )
    if shown.phase != job.phase and (moved or job.counts != Counters()):
        yield _change(factory, job, shown.phase, time, reason=MOVED if moved else None, inferred=shown.inferred)


def object_deleted(factory: EventFactory, job: Job, gone: JobDeleted) -> Events:
    """Record the deletion of the job object, which terminates a job that has not ended."""
    time = factory.arrived if gone.deleted is None else gone.deleted
    deleted: Event[JobObjectDeleted] = factory.event(job, JobObjectDeleted(gone.version), time)
    yield deleted
    if job.live:
        yield from wait_for_lost(factory, job)
    if job.phase not in FINISHED_JOB_PHASES or job.inferred:
        factory.cause = deleted.id
        yield _change(factory, job, "Terminated", time, reason="Deleted")


def _change(
    factory: EventFactory,
    job: Job,
    phase: JobPhase,
    time: int,
    *,
    reason: str | None,
    message: str = "",
    object_version: str | None = None,
    inferred: bool = False,
    without_end: bool = False,
) -> Event[JobPhaseChanged]:
    return factory.event(
        job,
        JobPhaseChanged(
            phase,
            job.phase,
            reason=reason,
            retry_count=job.retry_count,
            version=job.version,
            message=message,
            object_version=object_version,
            inferred=inferred,
            without_end=without_end,
        ),
        max(job.since, time),
    )
