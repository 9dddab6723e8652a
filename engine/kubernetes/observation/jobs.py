"""Job objects of every kind that Lahar reads: requests from their specification, phase from their status."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from engine.events.excerpts import excerpt
from engine.events.inputs import JobDeleted, JobObserved
from engine.kubernetes.errors import ProjectionError
from engine.kubernetes.reading.fields import mapping, mappings, moment, strings, text, whole
from engine.kubernetes.reading.identity import job_kind, people, queue_of
from engine.kubernetes.reading.requests import effective_requests
from statemachines.spec import Requests
from statemachines.vocabulary import FINISHED_JOB_PHASES, JOB_PHASES, JobPhase

__all__ = ["JobFacts", "TaskFacts", "delete_job", "observe_job", "read_job_facts"]


@dataclass(slots=True)
class TaskFacts:
    """One task of a job object."""

    name: str
    replicas: int
    """Pods of the task: its slots."""
    requests: Requests
    """Requests of one pod."""
    min_available: int | None = None
    priority_class: str | None = None
    """PriorityClass that its pod template names."""


@dataclass(slots=True)
class JobFacts:
    """Facts of a job object; `None`: absent."""

    kind: str
    """`Job` (batch/v1), `VCJob`, or the kind unchanged."""
    phase: JobPhase | None = None
    reason: str | None = None
    message: str = ""
    """Excerpt of the message about the phase."""
    since: int | None = None
    """Start of an unfinished phase (microseconds)."""
    ended: int | None = None
    """Start of a finished phase (microseconds)."""
    queue: str | None = None
    priority_class: str | None = None
    min_available: int | None = None
    tasks: list[TaskFacts] = field(default_factory=list)


_Reader = Callable[[JobFacts, dict[str, Any], dict[str, Any]], None]

_MAIN: Final = "main"
"""Task of a job with a single unnamed one."""


def read_job_facts(content: dict[str, Any]) -> JobFacts | None:
    """Return the facts of a job object; `None` for a kind that Lahar does not read.

    Args:
        content: Job (batch/v1 and Volcano's), JobSet, PyTorchJob, TFJob, MPIJob, RayJob or Framework. Unreadable parts count as
            absent.
    """
    version = content.get("apiVersion")
    kind = job_kind(text(content.get("kind")), version)
    reader = _READERS.get(kind or "")
    if kind is None or reader is None:
        return None
    if kind == "Job" and isinstance(version, str) and not version.startswith("batch/"):
        return None  # other API groups have a kind Job too; items of an old List lack their version
    metadata = mapping(content.get("metadata"))
    facts = JobFacts(kind, queue=queue_of(mapping(metadata.get("annotations")), mapping(metadata.get("labels"))))
    reader(facts, mapping(content.get("spec")), mapping(content.get("status")))
    if facts.priority_class is None and kind != "VCJob":  # Volcano: the group's class is that of the job itself
        facts.priority_class = next((task.priority_class for task in facts.tasks if task.priority_class is not None), None)
    return facts


def observe_job(content: dict[str, Any]) -> JobObserved:
    """Project a job object of another controller.

    Raises:
        ProjectionError: Lahar does not read jobs of this kind, or `metadata.name` is missing.
    """
    facts = read_job_facts(content)
    if facts is None:
        raise ProjectionError("kind", f"{text(content.get('kind')) or 'none'} is not a kind of job that Lahar reads")
    metadata = mapping(content.get("metadata"))
    name = text(metadata.get("name"))
    if name is None:
        raise ProjectionError("metadata.name", "missing")
    labels = strings(metadata.get("labels"))
    tenant, project, user = people(labels)
    # Training operators label their pods with the type of the replica in lower case.
    lower = facts.kind in _REPLICA_SPECS
    return JobObserved(
        name=name,
        kind=facts.kind,
        namespace=text(metadata.get("namespace")) or "default",
        version=text(metadata.get("resourceVersion")),
        phase=facts.phase,
        reason=facts.reason,
        message=facts.message,
        created=moment(metadata.get("creationTimestamp")),
        since=facts.since,
        ended=facts.ended,
        queue=facts.queue or "default",
        tenant=tenant,
        project=project,
        user=user,
        labels=labels,
        min_available=facts.min_available or 0,
        tasks={task.name.lower() if lower else task.name: task.replicas for task in facts.tasks},
        priority_class=facts.priority_class,
    )


def delete_job(content: dict[str, Any]) -> JobDeleted:
    """Return the fact that a job object was deleted."""
    metadata = mapping(content.get("metadata"))
    return JobDeleted(text(metadata.get("resourceVersion")), text(metadata.get("namespace")))


def _batch(facts: JobFacts, spec: dict[str, Any], status: dict[str, Any]) -> None:
    facts.tasks = [_task(_MAIN, _pods_of(spec), spec.get("template"))]
    _conclude(facts, status, {"Complete": "Completed", "Failed": "Failed"})
    if facts.phase is None:
        if whole(status.get("active")) or whole(status.get("terminating")):
            facts.phase, facts.since = "Running", moment(status.get("startTime"))
        else:
            facts.phase = "Pending"


def _volcano(facts: JobFacts, spec: dict[str, Any], status: dict[str, Any]) -> None:
    facts.queue = text(spec.get("queue")) or facts.queue
    facts.priority_class = text(spec.get("priorityClassName"))
    facts.min_available = whole(spec.get("minAvailable"))
    facts.tasks = [
        _task(
            text(task.get("name")) or f"default{number}",
            whole(task.get("replicas")) or 0,
            task.get("template"),
            whole(task.get("minAvailable")),
        )
        for number, task in enumerate(mappings(spec.get("tasks")))
    ]
    state = mapping(status.get("state"))
    phase = text(state.get("phase")) or "Pending"
    if phase in JOB_PHASES:
        facts.phase, facts.reason = phase, text(state.get("reason"))
        facts.message = excerpt(text(state.get("message")) or "")
        entered = moment(state.get("lastTransitionTime"))
        if phase in FINISHED_JOB_PHASES:
            facts.ended = entered
        else:
            facts.since = entered


def _job_set(facts: JobFacts, spec: dict[str, Any], status: dict[str, Any]) -> None:
    for group in mappings(spec.get("replicatedJobs")):
        job = mapping(mapping(group.get("template")).get("spec"))
        replicas = _or(whole(group.get("replicas")), 1) * _pods_of(job)
        facts.tasks.append(_task(text(group.get("name")) or _MAIN, replicas, job.get("template")))
    _conclude(facts, status, {"Completed": "Completed", "Failed": "Failed"})


_REPLICA_SPECS: Final = {"PyTorchJob": "pytorchReplicaSpecs", "TFJob": "tfReplicaSpecs", "MPIJob": "mpiReplicaSpecs"}


def _training(facts: JobFacts, spec: dict[str, Any], status: dict[str, Any]) -> None:
    for name, replica in mapping(spec.get(_REPLICA_SPECS[facts.kind])).items():
        if isinstance(replica, dict) and isinstance(name, str):
            facts.tasks.append(_task(name, _or(whole(replica.get("replicas")), 1), replica.get("template")))
    policy = mapping(mapping(spec.get("runPolicy")).get("schedulingPolicy"))
    facts.queue = facts.queue or text(policy.get("queue"))
    facts.priority_class = text(policy.get("priorityClass"))
    facts.min_available = whole(policy.get("minAvailable"))
    _conclude(facts, status, {"Succeeded": "Completed", "Failed": "Failed"})


_RAY_ENDS: Final[dict[str, JobPhase]] = {"SUCCEEDED": "Completed", "FAILED": "Failed", "STOPPED": "Terminated"}


def _ray(facts: JobFacts, spec: dict[str, Any], status: dict[str, Any]) -> None:
    cluster = mapping(spec.get("rayClusterSpec"))
    head = cluster.get("headGroupSpec")
    if isinstance(head, dict):
        facts.tasks.append(_task("head", 1, head.get("template")))
    for group in mappings(cluster.get("workerGroupSpecs")):
        replicas = _or(whole(group.get("replicas")), whole(group.get("minReplicas")) or 0) * _or(whole(group.get("numOfHosts")), 1)
        facts.tasks.append(_task(text(group.get("groupName")) or "worker", replicas, group.get("template")))
    facts.phase = _RAY_ENDS.get(text(status.get("jobStatus")) or "")
    if facts.phase is None and status.get("jobDeploymentStatus") == "Failed":
        facts.phase = "Failed"
    if facts.phase is not None:
        facts.reason, facts.ended = text(status.get("reason")), moment(status.get("endTime"))
        facts.message = excerpt(text(status.get("message")) or "")


def _framework(facts: JobFacts, spec: dict[str, Any], status: dict[str, Any]) -> None:
    for role in mappings(spec.get("taskRoles")):
        pod = mapping(role.get("task")).get("pod")
        facts.tasks.append(_task(text(role.get("name")) or _MAIN, whole(role.get("taskNumber")) or 0, pod))
    if status.get("state") == "Completed":
        end = mapping(mapping(status.get("attemptStatus")).get("completionStatus"))
        facts.phase = "Completed" if mapping(end.get("type")).get("name") == "Succeeded" else "Failed"
        facts.reason = None if facts.phase == "Completed" else text(end.get("phrase"))
        facts.message = excerpt(text(end.get("diagnostics")) or "")
        facts.ended = moment(status.get("completionTime"))


_READERS: Final[dict[str, _Reader]] = {
    "Job": _batch,
    "VCJob": _volcano,
    "JobSet": _job_set,
    "RayJob": _ray,
    "Framework": _framework,
    **dict.fromkeys(_REPLICA_SPECS, _training),
}


def _conclude(facts: JobFacts, status: dict[str, Any], ends: dict[str, JobPhase]) -> None:
    """Use the first terminal condition, else the suspension."""
    for kind, phase in ends.items():
        for condition in _condition(status, kind):
            facts.phase, facts.reason, facts.message = phase, text(condition.get("reason")), _message(condition)
            facts.ended = moment(status.get("completionTime")) if phase == "Completed" else None
            if facts.ended is None:
                facts.ended = moment(condition.get("lastTransitionTime"))
            return
    for condition in _condition(status, "Suspended")[:1]:
        facts.phase, facts.reason, facts.message = "Pending", "JobSuspended", _message(condition)
        facts.since = moment(condition.get("lastTransitionTime"))


def _message(condition: dict[str, Any]) -> str:
    return excerpt(text(condition.get("message")) or "")


def _condition(status: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [one for one in mappings(status.get("conditions")) if one.get("type") == kind and one.get("status") == "True"]


def _pods_of(job: dict[str, Any]) -> int:
    """Return the slots of a batch/v1 Job: its completions, or else its parallelism."""
    return _or(whole(job.get("completions")), _or(whole(job.get("parallelism")), 1))


def _task(name: str, replicas: int, template: object, min_available: int | None = None) -> TaskFacts:
    spec = mapping(mapping(template).get("spec"))
    return TaskFacts(name, replicas, effective_requests(spec), min_available, text(spec.get("priorityClassName")))


def _or(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value
