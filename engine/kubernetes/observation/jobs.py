"""Job objects of all supported kinds: requests from their specification, phase from their status."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from engine.events.inputs import JobDeleted, JobObserved
from engine.kubernetes.errors import ProjectionError
from engine.kubernetes.observation.kinds.argo_workflow import read_workflow
from engine.kubernetes.observation.kinds.batch_job import read_batch_job
from engine.kubernetes.observation.kinds.flyte_workflow import read_flyte_workflow
from engine.kubernetes.observation.kinds.framework import read_framework
from engine.kubernetes.observation.kinds.job_facts import JobFacts
from engine.kubernetes.observation.kinds.job_set import read_job_set
from engine.kubernetes.observation.kinds.kueue_workload import read_workload
from engine.kubernetes.observation.kinds.ray_cluster import read_ray_cluster
from engine.kubernetes.observation.kinds.ray_job import read_ray_job
from engine.kubernetes.observation.kinds.spark_application import read_spark_application
from engine.kubernetes.observation.kinds.tekton_run import read_tekton_run
from engine.kubernetes.observation.kinds.train_job import read_train_job
from engine.kubernetes.observation.kinds.training_jobs import REPLICA_SPECS, read_training_job
from engine.kubernetes.observation.kinds.volcano_job import read_volcano_job
from engine.kubernetes.reading.fields import last_write, mapping, moment, strings, text
from engine.kubernetes.reading.identity import controller, job_kind, people, queue_of

READERS: Final[dict[str, Callable[[JobFacts, dict[str, Any], dict[str, Any]], None]]] = {
    "Job": read_batch_job,
    "VCJob": read_volcano_job,
    "JobSet": read_job_set,
    "RayJob": read_ray_job,
    "SparkApplication": read_spark_application,
    "TrainJob": read_train_job,
    "Framework": read_framework,
    "RayCluster": read_ray_cluster,
    "Workflow": read_workflow,
    "FlyteWorkflow": read_flyte_workflow,
    "TaskRun": read_tekton_run,
    "PipelineRun": read_tekton_run,
    "Workload": read_workload,
    **dict.fromkeys(REPLICA_SPECS, read_training_job),
}
"""Reader of specification and status by kind."""


GROUPS: Final = {
    "Job": "batch",
    "RayCluster": "ray.io",
    "Workflow": "argoproj.io",
    "FlyteWorkflow": "flyte.lyft.com",
    "TaskRun": "tekton.dev",
    "PipelineRun": "tekton.dev",
    "Workload": "kueue.x-k8s.io",
}
"""Supported API group of kinds that several groups have."""


def read_kind(content: dict[str, Any]) -> str | None:
    """Return the kind of a job object; `None` for an unsupported kind, and for a part of another job."""
    kind = _known_kind(content)
    return None if _above(kind, content) is not None else kind


def part_of(content: dict[str, Any]) -> str | None:
    """Return the kind of the job to which an object belongs as a part; `None` if it is a job of its own."""
    return _above(_known_kind(content), content)


def _above(kind: str | None, content: dict[str, Any]) -> str | None:
    if kind not in {"RayCluster", "Workload"}:
        return None
    above = text(controller(mapping(content.get("metadata"))).get("kind"))
    return above if kind == "Workload" or above in {"RayJob", "RayService"} else None


def _known_kind(content: dict[str, Any]) -> str | None:
    version = content.get("apiVersion")
    kind = job_kind(text(content.get("kind")), version)
    if kind not in READERS:
        return None
    meant = GROUPS.get(kind)
    if meant is not None and isinstance(version, str) and version.partition("/")[0] != meant:
        return None  # items of an old List lack their version
    return kind


def read_job_facts(content: dict[str, Any]) -> JobFacts | None:
    """Return the facts of a job object, without its unreadable parts; `None` for an unsupported kind."""
    kind = read_kind(content)
    if kind is None:
        return None
    metadata = mapping(content.get("metadata"))
    facts = JobFacts(kind, queue=queue_of(mapping(metadata.get("annotations")), mapping(metadata.get("labels"))))
    READERS[kind](facts, mapping(content.get("spec")), mapping(content.get("status")))
    if facts.priority_class is None and kind != "VCJob":  # Volcano: the group's class is that of the job itself
        facts.priority_class = next((task.priority_class for task in facts.tasks if task.priority_class is not None), None)
    return facts


def observe_job(content: dict[str, Any]) -> JobObserved:
    """Project a job object of another controller.

    Raises:
        ProjectionError: the kind is not supported, or `metadata.name` is missing.
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
    lower = facts.kind in REPLICA_SPECS
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
        retry_count=facts.retry_count,
        job_version=facts.job_version,
        owner_decides=facts.owner_decides,
        runs_again=facts.runs_again,
        written=last_write(metadata),
    )


def delete_job(content: dict[str, Any]) -> JobDeleted:
    """Return the deletion of a job object."""
    metadata = mapping(content.get("metadata"))
    return JobDeleted(
        text(metadata.get("resourceVersion")), text(metadata.get("namespace")), deleted=moment(metadata.get("deletionTimestamp"))
    )
