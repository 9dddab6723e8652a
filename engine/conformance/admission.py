"""Volcano's admission rules for jobs as written in files, before any default.

The functions take decoded manifests of any form and never raise: a manifest that is no job has faults, too.
"""

from __future__ import annotations

from typing import Any, cast

from engine.events.outcomes import Fault
from engine.kubernetes.manifests.dependencies import order_of
from engine.kubernetes.manifests.job_shapes import Task, VolcanoJob, VolcanoJobSpec
from engine.kubernetes.manifests.update_rules import update_faults
from engine.kubernetes.manifests.vcjob_rules import create_faults, topology_faults
from engine.kubernetes.reading.shapes import read_shape


def validate_create(job: object, queues: list[dict[str, Any]], *, pod_level_resources_enabled: bool = False) -> list[Fault]:
    """Validate a new vcjob as Volcano's webhook does.

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
    """Validate an update of a vcjob as Volcano's webhook does (`update_rules`).

    Args:
        old: the present job.
        new: the updated job.
    """
    before, faults = read_shape(VolcanoJob, old)
    after, more = read_shape(VolcanoJob, new)
    if before is None or after is None:
        return [*faults, *more]
    return list(
        update_faults(after.spec or VolcanoJobSpec(), cast("Any", old).get("spec") or {}, cast("Any", new).get("spec") or {})
    )


def validate_task_topology(task: object) -> list[Fault]:
    """Validate a task's topology policy against its CPU requests.

    Args:
        task: the task of a vcjob.
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
