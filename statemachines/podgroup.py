"""The PodGroup that Volcano makes of a job: minimum members and minimum resources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from statemachines.kill import KillPlan
from statemachines.spec import JobSpec, Partition, TaskSpec

Resources = dict[str, Fraction]
"""Resource name → amount."""

_COUNTED: Final = ("pods", "count/pods")


@dataclass(slots=True)
class GroupTask:
    """One task's part of a group's minimum resources."""

    replicas: int
    requests: Mapping[str, Fraction] = field(default_factory=dict)
    """Requests of one pod, in the resources' base units."""
    priority: int = 0
    """Value of the pods' priority class; 0 if it has none."""
    min_available: int | None = None


@dataclass(slots=True)
class SubGroup:
    """One task's partitions, each a gang of its own."""

    name: str
    size: int
    min_sub_groups: int


@dataclass(slots=True)
class PodGroupSpec:
    """The group's specification without its resources."""

    min_member: int = 0
    min_task_member: dict[str, int] = field(default_factory=dict)
    queue: str = ""
    priority_class: str = ""
    sub_groups: list[SubGroup] = field(default_factory=list)


def min_task_member(task: TaskSpec) -> int:
    """Return how many pods of a task the group needs: minAvailable, else its minimum of partitions, else all replicas."""
    if task.min_available is not None:
        return task.min_available
    partition = task.partition
    if partition is not None and partition.min and partition.size:
        return partition.min * partition.size
    return task.replicas


def podgroup_spec(spec: JobSpec, before: PodGroupSpec | None = None) -> PodGroupSpec:
    """Return the group of a job.

    Args:
        spec: the job.
        before: the present group, `None` if there is none. Its members of tasks that the job lacks stay, and so does its queue
            (Volcano updates neither).
    """
    members = dict(before.min_task_member) if before is not None else {}
    members.update((task.name, min_task_member(task)) for task in spec.tasks)
    return PodGroupSpec(
        min_member=spec.min_available,
        min_task_member=members,
        queue=before.queue if before is not None and before.queue else spec.queue,
        priority_class=spec.priority_class or "",
        sub_groups=[_sub_group(task.name, task.partition) for task in spec.tasks if task.partition is not None],
    )


def _sub_group(name: str, partition: Partition) -> SubGroup:
    return SubGroup(name, partition.size, partition.min)


def deletes_podgroup(plan: KillPlan | None) -> bool:
    """Return whether a kill deletes the group: only a kill of the whole job does."""
    return plan is not None and plan.version_delta > 0


def pod_usage(requests: Mapping[str, Fraction]) -> Resources:
    """Return one pod's usage of a quota: its requests, plain and as `requests.NAME`, and `pods` and `count/pods`."""
    usage: Resources = dict.fromkeys(_COUNTED, Fraction(1))
    for name, amount in requests.items():
        usage[name] = amount
        usage[f"requests.{name}"] = amount
    return usage


def _by_priority(tasks: Iterable[GroupTask]) -> list[GroupTask]:
    # sorted() is stable, so tasks of one priority stay in the job's order.
    return sorted(tasks, key=lambda task: -task.priority)


def _add(total: Resources, task: GroupTask, pods: int) -> None:
    if pods > 0:
        for name, amount in pod_usage(task.requests).items():
            total[name] = total.get(name, Fraction(0)) + amount * pods


def first_pods(tasks: Iterable[GroupTask], count: int) -> Resources:
    """Return the resources of the first `count` pods, tasks of higher priority first, each with all its replicas."""
    total: Resources = {}
    for task in _by_priority(tasks):
        pods = min(count, task.replicas)
        _add(total, task, pods)
        count -= pods
    return total


def task_minima_first(tasks: Iterable[GroupTask], job_min_available: int) -> Resources:
    """Return the resources of `job_min_available` pods: first every task's minimum, then by priority from the replicas left.

    A task without a minimum gives its pods in the second round only.
    """
    ordered = _by_priority(tasks)
    left = job_min_available
    total: Resources = {}
    for task in ordered:
        pods = min(task.min_available or 0, left)
        _add(total, task, pods)
        left -= pods
    for task in ordered:
        pods = min(task.replicas - (task.min_available or 0), left)
        _add(total, task, pods)
        left -= max(pods, 0)
    return total


def min_resources(tasks: Sequence[GroupTask], job_min_available: int) -> Resources:
    """Return the group's minResources (Volcano).

    If the job's minimum is less than the sum of the tasks' (a missing one counting as all replicas), the first pods by priority;
    else the tasks' minima, filled up by priority.
    """
    minima = sum(task.replicas if task.min_available is None else task.min_available for task in tasks)
    if job_min_available < minima:
        return first_pods(tasks, job_min_available)
    return task_minima_first(tasks, job_min_available)
