"""Identification of the attempt of a pod, and contradictions to it."""

from __future__ import annotations

from typing import Final

from engine.events.attempts import AttemptStarted, EarlierAttempt
from engine.events.bounds import REPLICAS, TASKS
from engine.events.excerpts import excerpt
from engine.events.inputs import PodObserved
from engine.kubernetes.observation.versions import is_newer
from engine.lifecycle.closing import give_up, give_up_object
from engine.lifecycle.event_factory import EventFactory, Events
from engine.lifecycle.job import Attempt, Job
from engine.lifecycle.pod_jobs import owner_below

MAIN: Final = "main"
"""Task of pods without a task name."""


def locate(job: Job, pod: PodObserved) -> Attempt | None:
    """Return the attempt of a pod: the one with its uid, or the requested one for which it was created; `None`: a new one."""
    known = job.by_uid.get(pod.uid)
    if known is not None or not job.managed or pod.index is None:
        return known
    name = pod.task or MAIN
    task = job.tasks.get(name)
    wanted = task.slots.get(pod.index) if task else None
    if wanted is not None and pod.attempt is not None and pod.attempt != wanted.number:
        wanted = job.attempt(name, pod.index, pod.attempt)
    return wanted if wanted is not None and wanted.uid is None else None


def is_old(attempt: Attempt, pod: PodObserved, *, deleted: bool) -> bool:
    """Return true if an observation is not newer than the last one of its attempt.

    A deletion with the resourceVersion of the last change is newer than that change.
    """
    awaited = deleted and (attempt.live or attempt.object != "gone")
    return not is_newer(pod.version, attempt.version) and not (awaited and pod.version == attempt.version)


def contradiction(job: Job, attempt: Attempt | None, pod: PodObserved, max_replicas: int = REPLICAS) -> str | None:
    """Return how a pod contradicts known facts of its job or itself, or exceeds a job's bounds; `None`: it does not."""
    if attempt is None:
        beyond = _beyond(job, pod, max_replicas)
        if beyond is not None:
            return beyond
        if job.managed and (pod.task or MAIN) not in job.tasks:
            return f"pod {pod.name} is of task {pod.task or MAIN!r}, which the job does not have ({', '.join(job.tasks)})"
        return _another_pod_was(job, pod) if job.managed else None
    if attempt.node != pod.node and attempt.node is not None and pod.node is not None and attempt.live:
        return f"pod {pod.name} was on node {attempt.node} and now says {pod.node}"
    return None


def _beyond(job: Job, pod: PodObserved, max_replicas: int) -> str | None:
    """Return the bound of a job that a new pod exceeds; `None`: none."""
    task = job.tasks.get(pod.task or MAIN)
    if task is None and len(job.tasks) >= TASKS:
        return f"pod {pod.name} is of another task, and the job has {TASKS} tasks, which is the most"
    index = _own_index(job, pod)
    if index is None and task is not None and not task.open:
        index = task.next_index
    if index is not None and index >= max_replicas:
        return f"pod {pod.name} is replica {index:,} of its task, and a job has at most {max_replicas:,} (max_replicas)"
    return None


def _another_pod_was(job: Job, pod: PodObserved) -> str | None:
    """Return the reason why a pod cannot be the attempt or replica that it claims, because another pod is or was; `None`: it can.

    A pod without an attempt number replaces another pod only if that pod is gone, which the same name proves.
    """
    current = job.tasks[pod.task or MAIN].slots.get(pod.index) if pod.index is not None else None
    if current is None:
        return None
    if pod.attempt is None:
        free = current.object == "gone" or pod.name == current.pod
        return None if free else f"pod {pod.name} ({pod.uid}) says it is replica {current.index}, which is pod {current.pod}"
    if pod.attempt > current.number and pod.name == current.pod:
        return None
    return f"pod {pod.name} ({pod.uid}) says it is attempt {pod.attempt} of its replica, which was another pod"


def _own_index(job: Job, pod: PodObserved) -> int | None:
    """Return the replica that a new pod of a job names; `None`: none.

    A completion index without a task counts the pods of its controller, and the job may have several controllers.
    """
    return pod.index if pod.task is not None or owner_below(job, pod) is None else None


def _earlier(job: str, attempt: Attempt) -> EarlierAttempt:
    return EarlierAttempt(job, attempt.task, attempt.index, attempt.number)


def start(factory: EventFactory, job: Job, pod: PodObserved) -> Events:
    """Start the attempt of an unknown pod.

    The pod takes over the index of an older one, whose end was missed if it was last observed alive and not being deleted. (An
    indexed Job may run both while the older one is being deleted.)
    """
    name = pod.task or MAIN
    task = job.tasks.get(name)
    given = _own_index(job, pod)
    if given is not None:
        index, how = given, "given"
    elif task is not None and task.open:
        index, how = task.open[0], "reused"
    else:
        index, how = (task.next_index if task else 0), "new"
    current = task.slots.get(index) if task else None
    past = current is not None and not job.managed and pod.created < current.created
    if current is not None and not past and current.live and (job.managed or current.phase != "Terminating"):
        yield give_up(factory, job, current, "Lost", "EndUnknown")
    elif current is not None and job.managed and current.object != "gone" and current.pod == pod.name:
        yield give_up_object(factory, job, current, "another pod has its name")
    yield factory.event(
        job,
        AttemptStarted(
            name,
            index,
            task.next_number(index) if task else 1,
            uid=pod.uid,
            pod=pod.name,
            requests=pod.requests if factory.moved is None else factory.moved[1].requests,
            slot=how,  # type: ignore[arg-type]  # mypy joins the three branches to str
            job_version=pod.job_version,
            reason=pod.reason if pod.phase == "Pending" else "Queued",
            version=pod.version,
            message=excerpt(pod.message) if pod.phase == "Pending" else "",
            past=past,
            skipped=pod.phase != "Pending",
            resources=pod.resources,
            host_ports=pod.host_ports,
            controller=owner_below(job, pod),
            moved_from=None if factory.moved is None else _earlier(*factory.moved),
        ),
        pod.created,
    )
