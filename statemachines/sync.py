"""Which pods a sync creates and deletes, and when a task may start."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from statemachines.counters import Counters, Pod, count, count_tasks
from statemachines.spec import DependsOn, JobSpec, TaskSpec

__all__ = [
    "SyncPlan",
    "creates_pods",
    "dependencies_met",
    "missing_indexes",
    "pod_name",
    "ready_pods",
    "surplus_indexes",
    "sync_job",
    "task_ready",
]


def creates_pods(group_phase: str | None) -> bool:
    """Tell whether a sync may touch pods, by the phase of the job's PodGroup.

    Volcano: without a PodGroup, or while its phase is empty or Pending, only the phase function runs, on the stored counters.

    Args:
        group_phase: phase of the PodGroup; `None`: there is none yet.
    """
    return group_phase is not None and group_phase not in ("", "Pending")


def pod_name(job: str, task: str, index: int) -> str:
    """Name of the pod of one replica (Volcano: job-task-index)."""
    return f"{job}-{task}-{index}"


def missing_indexes(replicas: int, taken: Collection[int]) -> list[int]:
    """Return the replicas of a task that have no pod, ascending. A deleting pod still takes its place."""
    return [index for index in range(replicas) if index not in taken]


def surplus_indexes(replicas: int, taken: Iterable[int]) -> list[int]:
    """Return the pods of a task beyond its replicas, which a sync deletes (scaling down removes the highest indexes)."""
    return sorted(index for index in taken if index >= replicas)


def ready_pods(pods: Iterable[Pod]) -> int:
    """Count the pods that a dependent task may rely on: succeeded, or running with all containers ready."""
    return sum(pod.phase == "Succeeded" or (pod.phase == "Running" and pod.containers_ready) for pod in pods)


def task_ready(task: TaskSpec | None, ready: int) -> bool:
    """Tell whether a task that others depend on is ready.

    Args:
        task: the task; `None` (it does not exist): never ready.
        ready: its pods by `ready_pods`.

    Returns:
        True from minAvailable ready pods on; always, if it has no minAvailable (Volcano).
    """
    return task is not None and (task.min_available is None or ready >= task.min_available)


def dependencies_met(depends_on: DependsOn | None, is_ready: Callable[[str], bool]) -> bool:
    """Tell whether a task may create pods.

    Args:
        depends_on: what it depends on; `None`: nothing.
        is_ready: says of a task by name whether it is ready.

    Returns:
        True if all of them are ready; with `any` and more than one name, if any is (Volcano).
    """
    if depends_on is None:
        return True
    if depends_on.any and len(depends_on.names) > 1:
        return any(is_ready(name) for name in depends_on.names)
    return all(is_ready(name) for name in depends_on.names)


@dataclass(slots=True)
class SyncPlan:
    """What one sync does."""

    create: list[tuple[str, int]] = field(default_factory=list)
    """Replicas to be given a pod: (task, index)."""
    delete: list[Pod] = field(default_factory=list)
    """Pods beyond the replicas, and pods that are out of sync."""
    counters: Counters = field(default_factory=Counters)
    """What Volcano's status shows afterwards; a pod that is deleted here is terminating in addition to its phase."""
    tasks: dict[str, Counters] = field(default_factory=dict)


def sync_job(spec: JobSpec, pods: Mapping[str, Mapping[int, Pod]], surplus: Iterable[Pod] = ()) -> SyncPlan:
    """Plan one sync of a job whose group lets it create pods.

    Args:
        spec: the specification.
        pods: task → index → pod. Tasks that the specification lacks are left alone.
        surplus: pods of the specification's tasks that belong to no replica.

    Returns:
        The plan. A created pod counts as pending.
    """
    plan = SyncPlan()
    ready: dict[str, bool] = {}

    def is_ready(name: str) -> bool:
        if name not in ready:
            ready[name] = task_ready(spec.task(name), ready_pods(pods.get(name, {}).values()))
        return ready[name]

    counted: list[Pod] = []
    for task in spec.tasks:
        own = pods.get(task.name, {})
        plan.delete.extend(own[index] for index in surplus_indexes(task.replicas, own))
        for index, pod in own.items():
            if index < task.replicas:
                counted.append(pod)
                if pod.out_of_sync and not pod.deleting:
                    plan.delete.append(pod)
        missing = missing_indexes(task.replicas, own)
        if missing and dependencies_met(task.depends_on, is_ready):
            for index in missing:
                plan.create.append((task.name, index))
                counted.append(Pod(task.name, "", "Pending", index))
    plan.delete.extend(surplus)
    plan.counters = count(counted)
    plan.counters.terminating += len(plan.delete)
    plan.tasks = count_tasks(counted)
    return plan
