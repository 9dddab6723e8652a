"""Phases of an attempt from observations of its pod.

Every phase is reachable from one observation, skipped phases are recorded with the times in the object, and an observation never
moves an attempt backwards. A closed attempt never changes: later observations of it are late facts.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any, Final, cast

from engine.events import Data, Event
from engine.events.attempts import (
    AttemptBound,
    AttemptChanged,
    AttemptEnded,
    AttemptLateFact,
    AttemptObjectChanged,
    AttemptRunning,
    AttemptTerminating,
)
from engine.events.excerpts import excerpt, gist
from engine.events.inputs import PodObserved
from engine.events.times import SECOND
from engine.kubernetes.reading.requests import unread_claims
from engine.lifecycle.closing import close, last_seen
from engine.lifecycle.event_factory import EventFactory, Events
from engine.lifecycle.job import Attempt, Job
from engine.lifecycle.pod_jobs import controller_changed, direct_owner
from statemachines.replica import next_attempt_phase, skipped
from statemachines.spec import Requests
from statemachines.vocabulary import (
    FINISHED_JOB_PHASES,
    TERMINAL_ATTEMPT_PHASES,
    AttemptPhase,
    ObjectState,
    TerminalPhase,
)

EVICTED: Final = frozenset(
    {
        "PreemptedByScheduler",
        "PreemptedByKubelet",
        "PreemptedByNotice",
        "EvictedByApi",
        "EvictedByTaint",
        "EvictedByNode",
        "NodeShutdown",
        "NodeLost",
        "DeletedByApi",
        "EndUnknown",
    }
)
"""Reasons that are a deleted pod in Volcano (table rows 2-7 and 15): they raise PodEvicted, and the replica is open at once."""


def advance(
    factory: EventFactory, job: Job, attempt: Attempt, pod: PodObserved, seen: int, *, gone: bool = False
) -> Generator[Event[Data], None, str]:
    """Record all new facts in an observation of a live attempt; return the id of the event with its current phase.

    Facts recorded after that event may be later than the phase.

    Args:
        factory: creates the events.
        job: the job.
        attempt: the attempt.
        pod: the observation.
        seen: recorded time of the previous observation that showed it live; 0: none.
        gone: the object is gone; `pod` is its last state.
    """
    phase, reason = _judge(factory, job, attempt, pod)
    if attempt.uid is None:
        yield factory.event(job, AttemptChanged(attempt.task, attempt.index, attempt.number, uid=pod.uid, version=pod.version))
    if attempt.requests.unmetered and shows_devices(attempt, pod):
        yield _devices(factory, job, attempt, pod)
    entered = None if phase == attempt.phase else next_attempt_phase(attempt.phase, phase)
    if entered is not None and entered != attempt.phase:
        for passed in skipped(attempt.phase, entered):
            if _was(passed, phase, pod):
                yield _ENTER[passed](factory, job, attempt, pod, reason if passed == "Terminating" else None, skipped=True)
        if entered in TERMINAL_ATTEMPT_PHASES:
            known: ObjectState = "gone" if gone else "deleting" if pod.deleting else "exists"
            deleted = attempt.since if attempt.phase == "Terminating" else 0
            yield _ended(factory, job, attempt, pod, seen, cast("TerminalPhase", entered), reason, known)
            if pod.ended is not None and pod.ended < deleted:  # its node reported late that it had ended before its deletion
                yield from record_late(factory, job, attempt, pod)
            return factory.last
        yield _ENTER[entered](factory, job, attempt, pod, reason, skipped=False)
    shown = factory.last
    changed = _changed(factory, job, attempt, pod, reason, seen)
    if changed is not None:
        yield changed
        if entered is None:
            return factory.last
    return shown


def _was(passed: AttemptPhase, phase: AttemptPhase, pod: PodObserved) -> bool:
    """Return true if a pod went through a phase that was not observed."""
    if passed == "Bound":
        return phase == "Running" or pod.node is not None or pod.bound is not None
    if passed == "Running":
        return phase == "Succeeded" or pod.running is not None
    return _deletion(pod, pod.ended) is not None


def _deletion(pod: PodObserved, end: int | None) -> int | None:
    """Return the begin of a pod's deletion; `None`: it was not deleted before its end."""
    began = pod.terminating
    return None if began is None or (end is not None and began >= end) else began


def _judge(factory: EventFactory, job: Job, attempt: Attempt, pod: PodObserved) -> tuple[AttemptPhase, str | None]:
    """Return phase and reason of the pod table, corrected by facts that the pod object lacks.

    A deletion that Lahar requested is the cause of an end unless the pod succeeded; table rows 4 and 17 depend on the node.
    """
    phase, reason = pod.phase, pod.reason
    if attempt.kill is not None and phase in {"Failed", "Lost", "Terminating"} and not _ended_before_kill(attempt, pod):
        return ("Failed" if phase == "Lost" else phase), attempt.kill
    node = factory.state.facts.node(job.cluster, pod.node) if pod.node is not None else None
    if node is not None:
        if reason == "EvictedByTaint" and (node.unreachable or node.ready != "True"):
            return ("Lost" if phase == "Failed" else phase), "NodeLost"
        if node.ready == "Unknown" and phase in {"Bound", "Running"}:
            return phase, "Suspect"
    return phase, reason


def _ended_before_kill(attempt: Attempt, pod: PodObserved) -> bool:
    """Return true if the pod had ended before its deletion was requested. Kubernetes truncates times to whole seconds."""
    return pod.ended is not None and pod.ended + SECOND <= attempt.killed


def _bound(
    factory: EventFactory, job: Job, attempt: Attempt, pod: PodObserved, reason: str | None, *, skipped: bool
) -> Event[AttemptBound]:
    node = factory.state.facts.node(job.cluster, pod.node or "")
    return factory.event(
        job,
        AttemptBound(
            attempt.task,
            attempt.index,
            attempt.number,
            node=pod.node or "",
            node_type=node.type if node else None,
            gpu_model=node.gpu_model if node else None,
            reason=reason,
            previous=attempt.phase,
            inferred=pod.bound is None,
            version=pod.version,
            message="" if skipped else excerpt(pod.message),
            skipped=skipped,
        ),
        max(attempt.since, pod.bound or 0),
    )


def _running(
    factory: EventFactory, job: Job, attempt: Attempt, pod: PodObserved, reason: str | None, *, skipped: bool
) -> Event[AttemptRunning]:
    return factory.event(
        job,
        AttemptRunning(
            attempt.task,
            attempt.index,
            attempt.number,
            previous=attempt.phase,
            reason=reason,
            inferred=pod.running is None,
            ready=pod.ready and pod.phase == "Running",
            version=pod.version,
            message="" if skipped else excerpt(pod.message),
            skipped=skipped,
        ),
        max(attempt.since, pod.running or 0),
    )


def _terminating(
    factory: EventFactory, job: Job, attempt: Attempt, pod: PodObserved, reason: str | None, *, skipped: bool
) -> Event[AttemptTerminating]:
    return factory.event(
        job,
        AttemptTerminating(
            attempt.task,
            attempt.index,
            attempt.number,
            previous=attempt.phase,
            reason=reason,
            deadline=pod.deadline,
            version=pod.version,
            message="" if skipped else excerpt(pod.message),
            skipped=skipped,
        ),
        max(attempt.since, pod.terminating or 0),
    )


_ENTER: Final[dict[AttemptPhase, Callable[..., Event[Any]]]] = {
    "Bound": _bound,
    "Running": _running,
    "Terminating": _terminating,
}


def _ended(
    factory: EventFactory,
    job: Job,
    attempt: Attempt,
    pod: PodObserved,
    seen: int,
    phase: TerminalPhase,
    reason: str | None,
    known: ObjectState,
) -> Event[AttemptEnded]:
    end = pod.ended
    if end is None:
        end = _last_proof(pod, seen)
    return close(
        factory,
        job,
        attempt,
        phase,
        reason,
        max(end, attempt.since),
        replaceable=job.managed
        and (
            attempt.kill is not None
            or reason in EVICTED
            or attempt.index >= job.tasks[attempt.task].spec.replicas  # a surplus pod has no influence on its job
            or (known != "exists" and _is_replaced(job, phase))
        ),
        known=known,
        version=pod.version,
        message=excerpt(pod.message),
        exit_code=pod.exit_code,
        rank=pod.rank,
        inferred=pod.ended is None,
        started=_start(attempt, pod),
    )


def _last_proof(pod: PodObserved, seen: int) -> int:
    """Return the last proof of life of a pod that ended without evidence; the only use of the time of arrival.

    A condition with the reason of the end has its own time, which is not after the latest time in the object.
    """
    if pod.disruption is not None and pod.deadline is None:
        return pod.proof or 0
    return max(pod.proof or 0, last_seen(seen, pod.deadline))


def _start(attempt: Attempt, pod: PodObserved) -> int | None:
    """Return the start of a pod's run, observed or not; `None`: it never ran. Its node's clock may be behind."""
    return None if pod.running is None else max(pod.running, attempt.bound or attempt.created)


def _changed(
    factory: EventFactory, job: Job, attempt: Attempt, pod: PodObserved, reason: str | None, seen: int
) -> Event[AttemptChanged] | None:
    """Return the changes of a live attempt besides its phase; `None`: none. `seen` as in `advance`."""
    restarts = pod.restarts + pod.init_restarts
    new_reason = reason != attempt.reason and (reason is not None or attempt.phase == pod.phase)
    new_ready = pod.ready != attempt.ready and attempt.phase == "Running" and _is_awaited(job, attempt.task)
    new_disruption = pod.disruption != attempt.disruption
    started = _start(attempt, pod) if attempt.running is None and attempt.phase == "Terminating" else None
    new_message = pod.message != "" and attempt.phase == pod.phase and gist(excerpt(pod.message)) != attempt.gist
    owner = _later_owner(factory, job, attempt, pod)
    new_fact = new_reason or new_ready or new_disruption or new_message or started is not None or owner is not None
    requests = _requests(attempt, pod, seen) if pod.requests.unmetered else pod.requests  # most pods name no device
    resized = requests != attempt.requests
    if not (new_fact or restarts > attempt.restarts or resized):
        return None
    return factory.event(
        job,
        AttemptChanged(
            attempt.task,
            attempt.index,
            attempt.number,
            reason=reason if new_reason else None,
            reason_changed=new_reason,
            restarts=restarts if restarts > attempt.restarts else None,
            ready=pod.ready if new_ready else None,
            requests=requests if resized else None,
            disruption=(pod.disruption or "") if new_disruption else None,
            started=started,
            owner=owner,
            controller=None if owner is None else direct_owner(pod),
            version=pod.version,
            message=excerpt(pod.message) if attempt.phase == pod.phase else "",
        ),
        # A completed resize has no time in the pod's status; the time of the write that shows it is the nearest. The first
        # observation of a pod that Lahar created shows the changes that admission made to its requests.
        max(attempt.since, pod.proof or 0, (pod.written or 0) if resized and seen else 0),
    )


def _requests(attempt: Attempt, pod: PodObserved, seen: int) -> Requests:
    """Return the requests of a pod. If the claims of its devices were not read, it keeps its known devices.

    Only cpu and memory of a pod change in place. `seen` as in `advance`.
    """
    if not seen or unread_claims(pod.requests) <= unread_claims(attempt.requests):
        return pod.requests
    return replace(attempt.requests, cpu_milli=pod.requests.cpu_milli, memory_bytes=pod.requests.memory_bytes)


def shows_devices(attempt: Attempt, pod: PodObserved) -> bool:
    """Return true if an observation has devices of claims that were not read before."""
    return unread_claims(pod.requests) < unread_claims(attempt.requests)


def _devices(factory: EventFactory, job: Job, attempt: Attempt, pod: PodObserved) -> Event[AttemptChanged]:
    """Return the change of an attempt by the devices of its claims, as of the start of its last known phase."""
    known = attempt.requests
    requests = replace(pod.requests, cpu_milli=known.cpu_milli, memory_bytes=known.memory_bytes)
    changed = AttemptChanged(attempt.task, attempt.index, attempt.number, requests=requests, version=pod.version)
    return factory.event(job, changed, attempt.since)


def _later_owner(factory: EventFactory, job: Job, attempt: Attempt, pod: PodObserved) -> str | None:
    """Return the new owner of a pod whose controller changed since the last observation, empty if it has none; otherwise `None`."""
    if not controller_changed(factory.state, job, attempt, pod):
        return None
    owner = "" if pod.owner is None else f"{pod.service or pod.kind}/{pod.owner}"
    return None if attempt.adopter is None and owner == attempt.owner else owner


def _is_awaited(job: Job, task: str) -> bool:
    """Return true if another task depends on this one; only then does readiness matter."""
    return any(other.depends_on is not None and task in other.depends_on.names for other in job.spec.tasks)


def record_late(factory: EventFactory, job: Job, attempt: Attempt, pod: PodObserved) -> Events:
    """Record an observation of a closed attempt as a late fact, if it contradicts or adds to the known facts."""
    started = pod.running if attempt.running is None else None
    terminating = None if attempt.terminating else _deletion(pod, attempt.ended if pod.ended is None else pod.ended)
    news = attempt.uid is None or started is not None or terminating is not None
    if not news and (pod.phase in {"Pending", "Bound"} or (pod.phase == "Terminating" and attempt.phase != "Lost")):
        return  # an older, live state of a closed attempt
    phase, reason = _judge(factory, job, attempt, pod)
    told = (phase, reason, pod.ended, pod.rank)
    same = phase == attempt.phase and reason == attempt.reason and pod.ended in {None, attempt.ended}
    if not news and (same or told == attempt.late):
        return
    yield factory.event(
        job,
        AttemptLateFact(
            attempt.task,
            attempt.index,
            attempt.number,
            phase=phase,
            reason=reason,
            exit_code=pod.exit_code,
            rank=pod.rank,
            started=started,
            ended=pod.ended,
            uid=pod.uid if attempt.uid is None else None,
            terminating=terminating,
            version=pod.version,
            message=excerpt(pod.message),
        ),
        pod.ended,
    )


def _is_replaced(job: Job, phase: str) -> bool:
    """Return true if an attempt that ended in a phase is replaced after the deletion of its object."""
    return phase != "Succeeded" and job.phase not in FINISHED_JOB_PHASES


def record_object(factory: EventFactory, job: Job, attempt: Attempt, pod: PodObserved, *, gone: bool) -> Events:
    """Record that the object of a closed attempt is being deleted, or is gone.

    Volcano: a failed pod is replaced after its deletion; one that succeeded is not.
    """
    if attempt.object == "gone" or not (gone or (pod.deleting and attempt.object != "deleting")):
        return
    yield factory.event(
        job,
        AttemptObjectChanged(
            attempt.task,
            attempt.index,
            attempt.number,
            object="gone" if gone else "deleting",
            replaceable=job.managed and _is_replaced(job, attempt.phase),
            version=pod.version,
        ),
    )
