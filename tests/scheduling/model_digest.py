"""Digest of a cluster's model, and a stage that compares it before and after each round."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import fields
from typing import Any

from clusters import recounted
from msgspec import msgpack

from engine.events import Data, Event
from engine.events.times import Micros
from engine.scheduling.cluster.entities import Job, Node, Task
from engine.scheduling.cluster.model import Cluster
from engine.scheduling.stage import SchedulingStage
from engine.scheduling.state.shard import State, TrackedJob

_COUNTS = {"role_ready", "role_pending", "role_best_effort", "allocated", "requested"}
"""Fields of which an absent name and zero are the same."""


def digest(cluster: Cluster) -> dict[str, Any]:
    """Return all that events made of a model, in any order of its tables; not what readers keep of it, nor counts of changes."""
    cluster.settle()
    table = cluster.table
    jobs = {id(job): job for job in cluster.jobs.values()}
    jobs |= {id(task.job): task.job for node in cluster.nodes.values() for task in node.tasks.values()}
    return {
        "jobs": sorted((_job(job) for job in jobs.values()), key=lambda job: str(job["key"])),
        "tasks": {task.key: _task(task) for job in jobs.values() for task in job.tasks.values()},
        "nodes": {name: _node(node) for name, node in cluster.nodes.items()},
        "queues": {name: _fields(queue) for name, queue in cluster.queues.items()},
        "classes": {shape: (one.users, one.vector.tolist(), one.least.tolist()) for shape, one in cluster.classes.items()},
        "arrays": [table.resources, table.allocatable.tolist(), table.idle.tolist(), table.future.tolist()],
        "namespaces": {name: _nonzero(held) for name, held in cluster.allocated_by_namespace.items() if any(held.values())},
        "limits": [repr(cluster.quotas), repr(cluster.budgets), cluster.namespace_weights, cluster.tenants],
        "notices": {ident: repr(notice) for ident, notice in cluster.notices.items()},
        "sets": [dict(cluster.noticed), set(cluster.claimants), dict(cluster.jobs_of_queue)],
    }


def _fields(one: Any, *without: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in (field.name for field in fields(one) if field.name not in without):
        value = getattr(one, name)
        found[name] = _nonzero(value) if name in _COUNTS else dict(value) if isinstance(value, dict) else value
    return found


def _nonzero(counts: dict[str, float]) -> dict[str, float]:
    return {name: count for name, count in counts.items() if count}


def _job(job: Job) -> dict[str, Any]:
    found = _fields(job, "path", "allocations", "tasks", "by_status", "sub_groups", "pods", "pages", "bindings", "head", "group")
    if isinstance(job, TrackedJob):
        found["records"] = [msgpack.encode(one) for one in (job.head, job.group, [pod.attempt for pod in job.pods.values()])]
    found["path"] = [queue.name for queue in job.path]
    found["tasks"] = sorted(job.tasks)
    found["by_status"] = {status: sorted(tasks) for status, tasks in job.by_status.items() if tasks}
    if job.sub_groups is not None:
        gangs = sorted({task.sub_group for task in job.tasks.values()})
        found["sub_groups"] = job.sub_groups.lacking(), [(gang, job.sub_groups.needed(gang)) for gang in gangs]
    return found


def _task(task: Task) -> dict[str, Any]:
    return _fields(task, "job", "pod_class", "node", "attempt") | {"node": None if task.node is None else task.node.name}


def _node(node: Node) -> dict[str, Any]:
    return _fields(node, "tasks") | {"tasks": sorted(node.tasks)}


class WatchedStage(SchedulingStage):
    """Stage that records in `faults` whatever a round left changed before its first event, and sums that do not add up."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.faults: list[str] = []
        self.rounds = 0

    def fire(self, state: State, now: Micros, error: str | None = None) -> Generator[Event[Data], None, None]:
        before = {name: digest(cluster.model) for name, cluster in state.clusters.items()}
        events = super().fire(state, now, error)
        try:
            first = next(events, None)
        finally:
            self.rounds += 1
            for name, cluster in state.clusters.items():
                self.faults += _differences(before[name], digest(cluster.model))
                self.faults += recounted(cluster.model)
        if first is not None:
            yield first
            yield from events


def _differences(before: dict[str, Any], after: dict[str, Any]) -> Iterable[str]:
    return [f"{part} differ: {before[part]} {after[part]}" for part in before if before[part] != after[part]]
