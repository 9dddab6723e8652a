"""Reads the content of conformance cases into arguments of the rules.

Absent fields are 0, null or empty; names are Volcano's in snake case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from engine.events.times import SECOND
from engine.kubernetes.reading.durations import parse_duration
from engine.kubernetes.reading.quantity import parse_quantity
from statemachines.counters import Counters, Pod
from statemachines.kill import Target
from statemachines.podgroup import GroupTask, PodGroupSpec, SubGroup
from statemachines.spec import DependsOn, JobSpec, Partition, Policy, TaskSpec
from statemachines.sync import missing_indexes, pod_ready

Content = Mapping[str, Any]
"""A JSON object."""

_PARTITION_LABEL: Final = "volcano.sh/partition-id"


def read_spec(content: Content) -> JobSpec:
    """Read a job's specification."""
    return JobSpec(
        tasks=tuple(_task(task) for task in content.get("tasks") or ()),
        min_available=content.get("min_available") or 0,
        min_success=content.get("min_success"),
        max_retry=content.get("max_retry") or 0,
        queue=content.get("queue") or "",
        priority_class=content.get("priority_class_name") or None,
        policies=_policies(content),
    )


def _task(content: Content) -> TaskSpec:
    depends_on = content.get("depends_on")
    partition = content.get("partition_policy")
    return TaskSpec(
        name=content.get("name") or "",
        replicas=content.get("replicas") or 0,
        min_available=content.get("min_available"),
        max_retry=content.get("max_retry") or 0,
        policies=_policies(content),
        depends_on=DependsOn(tuple(depends_on.get("name") or ()), depends_on.get("iteration") == "any") if depends_on else None,
        partition=Partition(
            partition.get("total_partitions") or 0, partition.get("partition_size") or 0, partition.get("min_partitions") or 0
        )
        if partition
        else None,
        main=bool(content.get("main")),
        min_succeeded=content.get("min_succeeded"),
        max_failed=content.get("max_failed"),
    )


def _policies(content: Content) -> tuple[Policy, ...]:
    policies = []
    for policy in content.get("policies") or ():
        events = tuple(policy.get("events") or ())
        if policy.get("event"):
            events += (policy["event"],)
        timeout = policy.get("timeout")
        policies.append(
            Policy(policy["action"], events, policy.get("exit_code"), None if timeout is None else parse_duration(str(timeout)))
        )
    return tuple(policies)


def read_counters(content: Content) -> Counters:
    """Read the counters of a status."""
    return Counters(
        pending=content.get("pending") or 0,
        running=content.get("running") or 0,
        succeeded=content.get("succeeded") or 0,
        failed=content.get("failed") or 0,
        terminating=content.get("terminating") or 0,
        unknown=content.get("unknown") or 0,
    )


def read_task_counts(status: Content) -> dict[str, Counters]:
    """Read a status' `task_status_count`, task → pod phase → count. A task that it lacks has no entry."""
    return {
        task: read_counters({phase.lower(): number for phase, number in phases.items()})
        for task, phases in (status.get("task_status_count") or {}).items()
    }


def read_pods(content: Sequence[Content], job: str = "") -> list[Pod]:
    """Read pods.

    Args:
        content: the pods.
        job: name of the job; where it is not given, any name that ends in TASK-INDEX gives the pod its replica.
    """
    return [
        Pod(
            task=pod.get("task") or "",
            name=pod.get("name") or "",
            phase=pod.get("phase") or "",
            index=_index(pod.get("name") or "", job, pod.get("task") or ""),
            deleting=bool(pod.get("deleting")),
            out_of_sync=bool(pod.get("out_of_sync")),
            partition=_partition(pod),
            containers_ready=all(pod.get("container_ready") or ()),
        )
        for pod in content
    ]


@dataclass(slots=True)
class SyncTask:
    """A task and its pods, as a sync sees them (`statemachines.sync.TaskPods`)."""

    spec: TaskSpec
    pods: dict[int, Pod] = field(default_factory=dict)
    """By replica."""

    @property
    def open(self) -> list[int]:
        """Replicas without a pod; a deleting pod still occupies its replica."""
        return missing_indexes(self.spec.replicas, self.pods)

    @property
    def left(self) -> list[int]:
        """Replicas whose pod is out of sync."""
        return [index for index, pod in self.pods.items() if pod.out_of_sync and not pod.deleting]

    @property
    def ready(self) -> int:
        """How many pods are ready."""
        return sum(pod_ready(pod.phase, pod.containers_ready) for pod in self.pods.values())


def sync_tasks(case: Content, spec: JobSpec) -> tuple[dict[str, SyncTask], list[Pod]]:
    """Read the tasks of a specification with their pods, and those pods of its tasks that belong to no replica."""
    tasks = {task.name: SyncTask(task) for task in spec.tasks}
    loose: list[Pod] = []
    for pod in read_pods(case.get("pods") or (), case.get("job_name") or ""):
        if pod.task in tasks and pod.index is not None:
            tasks[pod.task].pods[pod.index] = pod
        elif pod.task in tasks:
            loose.append(pod)
    return tasks, loose


def _index(name: str, job: str, task: str) -> int | None:
    head, _, digits = name.rpartition("-")
    whose = head == f"{job}-{task}" if job else head.endswith(f"-{task}")
    return int(digits) if whose and digits.isascii() and digits.isdecimal() else None


def _partition(pod: Content) -> str | None:
    value = pod.get("partition")
    if value is None:
        value = (pod.get("labels") or {}).get(_PARTITION_LABEL)
    return None if value is None else str(value)


def read_target(content: Content | None) -> Target | None:
    """Read the target of a kill."""
    if not content or not content.get("type"):
        return None
    partition = content.get("partition")
    return Target(content["type"], content.get("task") or "", content.get("pod"), None if partition is None else str(partition))


def read_podgroup(content: Content | None) -> PodGroupSpec | None:
    """Read a PodGroup's specification; `None`: there is none."""
    if content is None:
        return None
    return PodGroupSpec(
        min_member=content.get("min_member") or 0,
        min_task_member=dict(content.get("min_task_member") or {}),
        queue=content.get("queue") or "",
        priority_class=content.get("priority_class_name") or "",
    )


def group_tasks(content: Sequence[Content]) -> list[GroupTask]:
    """Read tasks for the minimum resources of their group."""
    return [
        GroupTask(
            replicas=task.get("replicas") or 0,
            requests={name: parse_quantity(amount) for name, amount in (task.get("requests") or {}).items()},
            priority=task.get("priority") or 0,
            min_available=task.get("min_available"),
        )
        for task in content
    ]


def write_duration(micros: int) -> str:
    """Write a duration in seconds, or in microseconds where those are not whole."""
    return f"{micros}us" if micros % SECOND else f"{micros // SECOND}s"


def write_resources(resources: Mapping[str, Fraction]) -> dict[str, str]:
    """Write resources as quantities, in thousandths where they are no whole numbers."""
    return {
        name: str(amount.numerator) if amount.denominator == 1 else f"{-(-amount.numerator * 1000 // amount.denominator)}m"
        for name, amount in resources.items()
    }


def write_sub_groups(groups: Sequence[SubGroup]) -> list[dict[str, Any]]:
    """Write the sub-groups of a PodGroup."""
    return [
        {
            "name": group.name,
            "sub_group_size": group.size,
            "min_sub_groups": group.min_sub_groups,
            "match_label_keys": [_PARTITION_LABEL],
        }
        for group in groups
    ]
