"""Proportion: queues share the cluster by their weights.

Extension points: `queue_order`, `reclaimable`, `overused`, `allocatable`, `preemptive`, `excess`, `lacking`, `share_of`,
`job_enqueueable`, `job_enqueued`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import ClassVar

from engine.scheduling.cluster.amounts import Amounts, add, at_most, dominant_share, is_nothing, largest, missing, subtract, within
from engine.scheduling.cluster.entities import Task
from engine.scheduling.cluster.queues import Queue
from engine.scheduling.configuration import PluginOption
from engine.scheduling.plugin_results import QueueShare
from engine.scheduling.plugins.queue_limits import LimitsQueues, excess, real_capability, without_places
from engine.scheduling.session import Session


@dataclass(slots=True, eq=False)
class Portion:
    """Share of a queue in the cluster."""

    queue: Queue
    limit: Amounts
    deserved: Amounts = field(default_factory=dict)
    ceiling: Amounts = field(default_factory=dict)
    """Deserved amounts that limit placement."""

    @property
    def share(self) -> float:
        """Share of its deserved resources that the queue holds."""
        return dominant_share(self.queue.allocated, self.deserved)


class Proportion(LimitsQueues):
    """Weighted shares of queues that have jobs (Volcano `proportion`)."""

    NAME: ClassVar[str] = "proportion"
    COUNTS_VICTIMS_BY = "queue"

    def __init__(self, option: PluginOption) -> None:
        super().__init__(option)
        self._basis: object = None
        """Inputs of the present portions, compared to reuse them."""
        self._limits: tuple[object, dict[str, Amounts]] = (None, {})
        """Inputs of the limits of all queues, and the limits."""

    def open(self, session: Session) -> None:
        """Divide the cluster among the queues; portions of the last session are reused if their inputs are equal."""
        super().open(session)
        cluster = session.cluster
        asking = [
            (name, queue, dict(queue.requested)) for name, queue in sorted(cluster.queues.items()) if name in cluster.jobs_of_queue
        ]
        basis = (session.total, [*cluster.queues.values()], asking)
        if basis == self._basis:
            return
        self._basis = None  # set again below: after a failure the next session recomputes
        if self._limits[0] != basis[:2]:
            guaranteed: Amounts = {}
            for queue in cluster.queues.values():
                add(guaranteed, queue.guarantee.items())
            limits = {
                name: real_capability(queue.capability, session.total, guaranteed, queue.guarantee)
                for name, queue in cluster.queues.items()
            }
            self._limits = (basis[:2], limits)
        self._portions = {name: Portion(queue, self._limits[1][name]) for name, queue, _ in asking}
        share_out(session.total, list(self._portions.values()))
        for portion in self._portions.values():
            portion.ceiling = without_places(portion.deserved, portion.queue.capability)
        self._basis = basis

    def queue_order(self, queue: Queue) -> tuple[float, float]:
        """Order by priority, then by smaller share of the deserved resources."""
        portion = self._portions.get(queue.name)
        if portion is None:
            return (-queue.priority, 0.0)
        return (-queue.priority, portion.share)

    def share_of(self, queue: Queue) -> QueueShare | None:
        """Return a queue's deserved resources, limit and share; `None`: it has no jobs."""
        portion = self._portions.get(queue.name)
        return None if portion is None else QueueShare(self.NAME, portion.deserved, portion.limit, portion.share)

    def overused(self, queue: Queue) -> bool:
        """Return whether a queue holds its deserved amount of every resource."""
        portion = self._portions.get(queue.name)
        return portion is not None and at_most(portion.deserved, queue.allocated)

    def allocatable(self, queue: Queue, task: Task) -> bool:
        """Return whether a queue is open and with the task stays within its deserved amounts of the requested resources."""
        portion = self._portions.get(queue.name)
        return portion is not None and queue.open and within(queue.allocated, task.pod_class.items, portion.ceiling)

    def lacking(self, queue: Queue, task: Task) -> tuple[str, Amounts]:
        """Return the amounts by which a task exceeds the deserved resources of its queue."""
        portion = self._portions.get(queue.name)
        return self.NAME, {} if portion is None else missing(queue.allocated, task.pod_class.items, portion.ceiling)

    def preemptive(self, queue: Queue, task: Task) -> bool:
        """Return the same as `allocatable`: a queue reclaims up to its deserved resources."""
        return self.allocatable(queue, task)

    def excess(self, queue: Queue, other: Queue, names: Iterable[str], change: Mapping[str, float]) -> float:
        """Return the largest relative excess over the deserved amount of some resources, after a change."""
        del other
        return excess(queue.allocated, change, self._portions[queue.name].deserved, names)

    def limits(self, queue: Queue) -> Iterable[tuple[Queue, Amounts]]:
        """Return the limit of the job's queue."""
        yield queue, self._portions[queue.name].limit

    def reclaimable(self, task: Task, candidates: list[Task]) -> list[Task]:
        """Return tasks of queues that exceed their deserved resources, until they no longer do."""
        del task
        left: dict[str, Amounts] = {}
        victims = []
        for victim in candidates:
            queue = victim.job.path[0]
            allocated = left.setdefault(queue.name, dict(queue.allocated))
            if not at_most(allocated, self._portions[queue.name].deserved):
                subtract(allocated, victim.pod_class.items)
                victims.append(victim)
        return victims


def share_out(total: Amounts, portions: list[Portion]) -> None:
    """Compute deserved resources: by weight, at most a queue's limit and request, at least its guarantee.

    Volcano: what one queue leaves is divided among the others, until all requests are met or nothing is left.
    """
    left = dict(total)
    hungry = list(portions)
    while weight := sum(portion.queue.weight for portion in hungry):
        before = dict(left)
        still = []
        given: Amounts = {}
        for portion in hungry:
            old, queue = portion.deserved, portion.queue
            limit, requested = portion.limit, queue.requested
            capped = {
                name: min(
                    old.get(name, 0) + before.get(name, 0) * queue.weight / weight, limit.get(name, inf), requested.get(name, 0)
                )
                for name in old | before
            }
            portion.deserved = largest(capped, queue.guarantee) if queue.guarantee else capped
            add(given, portion.deserved.items())
            subtract(given, old.items())
            if not at_most(queue.requested, portion.deserved) and portion.deserved != old:
                still.append(portion)
        left = {name: max(0.0, amount - given.get(name, 0)) for name, amount in left.items()}
        if is_nothing(left) or left == before:
            break
        hungry = still
