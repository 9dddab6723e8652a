"""Pods that a sync creates and deletes, and the condition for a task to start."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Literal, Protocol, TypeVar

from statemachines.spec import DependsOn, TaskSpec


class TaskPods(Protocol):
    """A task and its pods, for a sync."""

    @property
    def spec(self) -> TaskSpec:
        """The task."""

    @property
    def open(self) -> list[int]:
        """Its replicas that have no pod (`missing_indexes`)."""

    @property
    def left(self) -> Collection[int]:
        """Replicas whose pod is to be replaced and not yet being deleted (Volcano: out of sync)."""

    @property
    def ready(self) -> int:
        """How many of its pods are ready (`pod_ready`)."""


TaskT = TypeVar("TaskT", bound=TaskPods)


def creates_pods(group_phase: str | None) -> bool:
    """Return whether a sync may touch pods, by the phase of the job's PodGroup.

    Volcano: without a PodGroup, or while its phase is empty or Pending, only the phase function runs, with the stored counters.

    Args:
        group_phase: phase of the PodGroup; `None`: there is none yet.
    """
    return group_phase is not None and group_phase not in ("", "Pending")


def pod_name(job: str, task: str, index: int) -> str:
    """Name of the pod of one replica (Volcano: job-task-index)."""
    return f"{job}-{task}-{index}"


def missing_indexes(replicas: int, taken: Collection[int]) -> list[int]:
    """Return the replicas of a task without a pod, ascending. A deleting pod still occupies its replica."""
    return [index for index in range(replicas) if index not in taken]


def surplus_indexes(replicas: int, taken: Iterable[int]) -> list[int]:
    """Return the pods of a task beyond its replicas, which a sync deletes (scaling down removes the highest indexes)."""
    return sorted(index for index in taken if index >= replicas)


def pod_ready(phase: str, containers_ready: bool) -> bool:
    """Return whether a dependent task may rely on a pod: it succeeded, or runs with all containers ready (Volcano)."""
    return phase == "Succeeded" or (phase == "Running" and containers_ready)


def task_ready(task: TaskSpec | None, ready: int) -> bool:
    """Return whether a task that others depend on is ready.

    Args:
        task: the task; `None` (it does not exist): never ready.
        ready: how many of its pods are ready.

    Returns:
        True from minAvailable ready pods on; always, if it has no minAvailable (Volcano).
    """
    return task is not None and (task.min_available is None or ready >= task.min_available)


def dependencies_met(depends_on: DependsOn | None, is_ready: Callable[[str], bool]) -> bool:
    """Return whether a task may create pods.

    Args:
        depends_on: what it depends on; `None`: nothing.
        is_ready: returns whether the named task is ready.

    Returns:
        True if all of them are ready; with `any` and more than one name, if any is (Volcano).
    """
    if depends_on is None:
        return True
    if depends_on.any and len(depends_on.names) > 1:
        return any(is_ready(name) for name in depends_on.names)
    return all(is_ready(name) for name in depends_on.names)


def may_start(tasks: Mapping[str, TaskPods], task: TaskSpec) -> bool:
    """Return whether the dependencies of a task are ready.

    Args:
        tasks: the tasks of its job by name.
        task: the task.
    """

    def is_ready(name: str) -> bool:
        other = tasks.get(name)
        return other is not None and task_ready(other.spec, other.ready)

    return dependencies_met(task.depends_on, is_ready)


def sync_job(tasks: Mapping[str, TaskT]) -> Iterator[tuple[TaskT, Literal["delete", "create"], list[int]]]:
    """Yield the pods that a sync creates and deletes, for a job whose group allows creation.

    Args:
        tasks: its tasks by name, in the order of its specification.

    Yields:
        A task, and the replicas whose pods are to be deleted or created, ascending. Each item takes into account what the caller
        has done about the items before it.
    """
    for task in tasks.values():
        if task.left:
            yield task, "delete", sorted(index for index in task.left if index < task.spec.replicas)
        if task.open and may_start(tasks, task.spec):
            yield task, "create", task.open
