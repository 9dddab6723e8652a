"""What proportion and capacity have in common: who may be let in by what a queue may hold at most."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf

from engine.scheduling.model.amounts import CPU, MEMORY, PODS, Amounts, add, within
from engine.scheduling.model.cluster import Cluster
from engine.scheduling.model.entities import Job
from engine.scheduling.model.queues import Queue
from engine.scheduling.plugins.admission import claimed, elastic

__all__ = ["Claims", "missing", "real_capability", "without_places"]


def real_capability(capability: Amounts, total: Amounts, guaranteed: Amounts, guarantee: Amounts) -> Amounts:
    """Return what a queue can hold at most: its capability, but not what is guaranteed to others (Volcano).

    A resource is missing where neither the cluster has any nor the queue limits it. CPU and memory of 0 are no limits.
    """
    free = {name: amount - guaranteed.get(name, 0) + guarantee.get(name, 0) for name, amount in total.items()}
    limits = {name: inf if amount <= 0 and name in {CPU, MEMORY} else amount for name, amount in capability.items()}
    found = {name: min(limits.get(name, inf), free.get(name, 0)) for name in limits.keys() | free.keys()}
    return without_places(found, capability)


def without_places(amounts: Amounts, capability: Amounts) -> Amounts:
    """Return amounts without places for pods, unless a queue limits those itself: Volcano does not compare them."""
    return {name: amount for name, amount in amounts.items() if name != PODS or PODS in capability}


def missing(used: Amounts, part: Iterable[tuple[str, float]], limit: Mapping[str, float]) -> Amounts:
    """Return how much of what is asked for would be beyond a limit."""
    return {
        name: used.get(name, 0) + amount - limit.get(name, 0)
        for name, amount in part
        if amount > 0 and not within(used, [(name, amount)], limit)
    }


class Claims:
    """By queue, and those above it: what is held and claimed, less what is held beyond minima."""

    def __init__(self, cluster: Cluster) -> None:
        self._extra: dict[str, Amounts] = {}
        for job in cluster.jobs.values():
            for queue in job.path:
                extra = self._extra.setdefault(queue.name, {})
                add(extra, claimed(job).items())
                add(extra, ((name, -amount) for name, amount in elastic(job).items()))

    def of(self, queue: Queue) -> Amounts:
        """Return what counts against a queue's limit when another job asks to be let in."""
        found = dict(queue.allocated)
        add(found, self._extra.get(queue.name, {}).items())
        return found

    def let_in(self, job: Job) -> None:
        """Count what a job has been let in for."""
        if job.min_resources is not None:
            for queue in job.path:
                add(self._extra.setdefault(queue.name, {}), job.min_resources.items())
