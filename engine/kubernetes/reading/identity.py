"""Identity of a pod: its job, slot, queue and tenant, from owners, annotations and labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from engine.events.inputs import OTHER, POD
from engine.kubernetes.reading.fields import mapping, mappings, text, whole
from engine.kubernetes.reading.owner_labels import COMPLETION_INDEX, Join, joined_slot, number, task_of

SERVICE_KINDS: Final = frozenset({"DaemonSet", "Deployment", "Node", "ReplicaSet", "ReplicationController", "StatefulSet"})
"""Controllers of services, which are not listed or billed as jobs. A static pod belongs to its node."""
SCHEDULE_KINDS: Final = frozenset(
    {
        "AdvancedCronJob",
        "CronJob",
        "CronWorkflow",
        "RayCronJob",
        "ScaledJob",
        "ScheduledSparkApplication",
        "ScheduledWorkflow",
    }
)
"""Kinds that start jobs by a schedule, or by the length of a queue: each started object is a job."""

_QUEUE_NAMES: Final = (
    "volcano.sh/queue-name",
    "scheduling.volcano.sh/queue-name",
    "kueue.x-k8s.io/queue-name",
    "kai.scheduler/queue",
)


def job_kind(kind: str | None, api_version: object) -> str | None:
    """Return the kind of a job object; Volcano's `Job` is a `VCJob`, Flyte's `flyteworkflow` a `FlyteWorkflow`."""
    if kind == "flyteworkflow":
        return "FlyteWorkflow"
    if kind == "Job" and isinstance(api_version, str) and api_version.startswith("batch.volcano.sh/"):
        return "VCJob"
    return kind


def pod_job_kind(owner: str | None, spec: dict[str, Any]) -> str:
    """Return the kind of a pod's job: the kind of its owner, or `Pod`; `Other` for a service.

    Args:
        owner: kind of the owner, as returned by `job_kind`; `None`: the pod has none.
        spec: specification of the pod. A pod without owner that is always restarted is a service.
    """
    if owner is None:
        return POD if text(spec.get("restartPolicy")) in {"Never", "OnFailure"} else OTHER
    return OTHER if owner in SERVICE_KINDS else owner


def controller(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the owner reference that controls an object, or an empty mapping."""
    for owner in mappings(metadata.get("ownerReferences")):
        if owner.get("controller") is True:
            return owner
    return mapping(None)


def is_part(metadata: dict[str, Any]) -> bool:
    """Return true if a job object is a part of the job that controls it."""
    owner = controller(metadata)
    kind = text(owner.get("kind"))
    return text(owner.get("uid")) is not None and kind is not None and kind not in SCHEDULE_KINDS | SERVICE_KINDS


def owner_above(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the owner, beside the controlling pod, of an object that a pod controls, or an empty mapping."""
    owners = (owner for owner in mappings(metadata.get("ownerReferences")) if text(owner.get("kind")) not in {None, POD})
    return next((owner for owner in owners if text(owner.get("uid"))), mapping(None))


def slot_of(
    name: str, annotations: dict[str, Any], labels: dict[str, Any], join: Join | None = None
) -> tuple[str | None, int | None]:
    """Return task and index of a pod; each is `None` if unknown.

    Lahar's own annotations take precedence; then Volcano's (a pod without an index annotation has the name JOB-TASK-INDEX), those
    of an owner above the controller, the completion index of an indexed Job, and labels of other operators.

    Args:
        name: name of the pod.
        annotations: annotations of the pod.
        labels: labels of the pod.
        join: row by which it belongs to an owner above its controller.
    """
    task = text(annotations.get("lahar/task"))
    if task is not None:
        return task, whole(annotations.get("lahar/index"))
    task = text(annotations.get("volcano.sh/task-spec")) or text(labels.get("volcano.sh/task-spec"))
    if task is not None:
        index = number("volcano.sh/task-index", annotations, labels)
        return task, whole(name.rpartition("-")[2]) if index is None else index
    if join is not None:
        return joined_slot(join, annotations, labels)
    index = number(COMPLETION_INDEX, annotations, labels)
    return task_of(annotations, labels) if index is None else (None, index)


def queue_of(annotations: dict[str, Any], labels: dict[str, Any]) -> str | None:
    """Return the queue of an object for Volcano, Kueue or KAI, from a label or annotation."""
    for name in _QUEUE_NAMES:
        found = text(annotations.get(name)) or text(labels.get(name))
        if found is not None:
            return found
    return None


def people(labels: dict[str, Any]) -> tuple[str | None, str | None, str | None]:
    """Return tenant, project and user of an object."""
    return text(labels.get("lahar/tenant")), text(labels.get("lahar/project")), text(labels.get("lahar/user"))


def job_name(manifest: Mapping[str, Any]) -> tuple[str, str, str | None]:
    """Return namespace, name and uid of a job from its manifest, as far as present."""
    metadata = mapping(manifest.get("metadata"))
    name = text(metadata.get("name")) or text(metadata.get("generateName")) or ""
    return text(metadata.get("namespace")) or "default", name, text(metadata.get("uid"))
