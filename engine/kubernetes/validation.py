"""Is this job acceptable? Volcano's admission rules for jobs as they stand in files, before any default.

Everything here takes decoded manifests of any form and never raises: what is not even a job is a fault as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from engine.events.jobs import Fault
from engine.kubernetes.dependencies import order_of
from engine.kubernetes.job_shapes import Task, VolcanoJob, VolcanoJobSpec
from engine.kubernetes.pod_resources import readable_quantity
from engine.kubernetes.shapes import child, read_shape
from engine.kubernetes.vcjob_rules import create_faults, size_faults, topology_faults

__all__ = ["dependency_order", "validate_create", "validate_task_topology", "validate_update"]

_QUANTITIES: Final = frozenset({"requests", "limits", "overhead"})
"""Fields that hold quantities, which are compared by value."""
_MAPS: Final = _QUANTITIES | {"annotations", "labels", "metadata", "nodeSelector", "plugins", "resources"}
"""Fields that are the same whether empty or left out; elsewhere an empty mapping says something (`emptyDir: {}`)."""


def validate_create(job: object, queues: list[dict[str, Any]], *, pod_level_resources_enabled: bool = False) -> list[Fault]:
    """Judge a new vcjob as Volcano's webhook does.

    Args:
        job: the manifest; `apiVersion` and `kind` may be missing, and nothing is filled in.
        queues: the queues that exist: `name`, `parent`, `state` of each (an empty state is Open).
        pod_level_resources_enabled: whether the cluster knows resources of whole pods; if not, they are ignored.

    Returns:
        All faults; none means accepted.
    """
    shape, faults = read_shape(VolcanoJob, job)
    if shape is None:
        return faults
    return list(create_faults(shape, queues, pod_level=pod_level_resources_enabled))


def validate_update(old: object, new: object) -> list[Fault]:
    """Judge a change of a vcjob as Volcano's webhook does.

    Only `minAvailable`, `priorityClassName` and the tasks' `replicas` and `minAvailable` may change, and the names of claims
    that the controller fills in itself. The numbers are judged anew.

    Args:
        old: the job as it stands.
        new: the job as it is to be.
    """
    before, faults = read_shape(VolcanoJob, old)
    after, more = read_shape(VolcanoJob, new)
    if before is None or after is None:
        return [*faults, *more]
    spec = after.spec or VolcanoJobSpec()
    tasks = spec.tasks or []
    for index, task in enumerate(tasks):
        path = child("spec", "tasks", index)
        if (task.replicas or 0) < 0:
            faults.append(Fault(child(path, "replicas"), "'replicas' must be >= 0"))
        if (task.min_available or 0) < 0:
            faults.append(Fault(child(path, "minAvailable"), "'minAvailable' must be >= 0"))
        faults += size_faults(task, path)
        faults += topology_faults(task, path)
    if (spec.min_available or 0) > sum(task.replicas or 0 for task in tasks):
        faults.append(Fault("spec.minAvailable", "job 'minAvailable' must not be greater than total replicas"))
    if (spec.min_available or 0) < 0:
        faults.append(Fault("spec.minAvailable", "job 'minAvailable' must be >= 0"))
    if len(tasks) != len((before.spec or VolcanoJobSpec()).tasks or []):
        faults.append(Fault("spec.tasks", "job updates may not add or remove tasks"))
        return faults
    return [*faults, *_differences(_plain(_fixed(old)), _plain(_fixed(new)), "spec")]


def validate_task_topology(task: object) -> list[Fault]:
    """Judge one task's topology policy against its CPU requests.

    Args:
        task: the task as it stands in a vcjob.
    """
    shape, faults = read_shape(Task, task)
    return faults if shape is None else list(topology_faults(shape, ""))


def dependency_order(job: object) -> list[str] | None:
    """Return the names of a vcjob's tasks, dependencies first; `None` if `dependsOn` leaves no such order.

    Args:
        job: the manifest.
    """
    shape, _ = read_shape(VolcanoJob, job)
    return None if shape is None else order_of((shape.spec or VolcanoJobSpec()).tasks or [])


def _fixed(job: Any) -> dict[str, Any]:  # noqa: ANN401 - a manifest that has the form of a job
    """Return what of a job's `spec` may not change."""
    spec = {**(job.get("spec") or {})}
    for name in ("minAvailable", "priorityClassName"):
        spec.pop(name, None)
    spec["tasks"] = [
        {name: value for name, value in task.items() if name not in {"replicas", "minAvailable"}}
        for task in spec.get("tasks") or []
    ]
    spec["volumes"] = [
        {name: value for name, value in volume.items() if name != "volumeClaimName" or volume.get("volumeClaim") is None}
        for volume in spec.get("volumes") or []
    ]
    return spec


def _plain(value: object, *, of: str = "") -> object:
    """Return a value as it is compared (Kubernetes: semantic equality): empty is left out, quantities are numbers.

    Args:
        value: the value.
        of: name of the field that holds it; what `plugins` holds is not empty even if it has no arguments.
    """
    if isinstance(value, dict):
        plain = {key: (readable_quantity(one) or one) if of in _QUANTITIES else _plain(one, of=key) for key, one in value.items()}
        return {
            key: one for key, one in plain.items() if of == "plugins" or not (one in (None, "", []) or (one == {} and key in _MAPS))
        }
    return [_plain(one) for one in value] if isinstance(value, list) else value


def _differences(old: object, new: object, path: str) -> Iterator[Fault]:
    """Yield a fault for each field that differs."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys([*old, *new]):
            yield from _differences(old.get(key), new.get(key), child(path, key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _differences(one, other, child(path, index))
    elif old != new:
        yield Fault(path, "job updates may not change fields other than minAvailable, tasks[*].replicas and priorityClassName")
