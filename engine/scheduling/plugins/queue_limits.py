"""Base of `proportion` and `capacity`: admission within the limits of queues."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from math import inf

from engine.scheduling.cluster.amounts import CPU, MEMORY, PODS, TOLERANCE, Amounts, add, missing, within
from engine.scheduling.cluster.entities import Job, Minimum
from engine.scheduling.cluster.queues import Queue
from engine.scheduling.limits import explain_queue_too_small
from engine.scheduling.plugin_results import PERMIT, REJECT, Vote
from engine.scheduling.session import Plugin, Session


def real_capability(capability: Amounts, total: Amounts, guaranteed: Amounts, guarantee: Amounts) -> Amounts:
    """Return the most that a queue can hold: its capability, less the guarantees of other queues (Volcano).

    A resource is absent if the cluster has none and the queue does not limit it. CPU and memory of 0 are no limits.
    """
    free = {name: max(0, amount - guaranteed.get(name, 0)) + guarantee.get(name, 0) for name, amount in total.items()}
    limits = {name: inf if amount <= 0 and name in {CPU, MEMORY} else amount for name, amount in capability.items()}
    found = {name: min(limits.get(name, inf), free.get(name, 0)) for name in limits.keys() | free.keys()}
    return without_places(found, capability)


def without_places(amounts: Amounts, capability: Amounts) -> Amounts:
    """Return amounts without the number of pods, which Volcano does not compare unless the queue limits it."""
    return {name: amount for name, amount in amounts.items() if name != PODS or PODS in capability}


def excess(held: Amounts, change: Mapping[str, float], deserved: Amounts, names: Iterable[str]) -> float:
    """Return the largest relative excess of held over deserved resources; the number of pods does not count.

    Args:
        held: held amounts.
        change: amounts added to them; negative: removed.
        deserved: deserved amounts; absent: 0.
        names: resources to compare.
    """
    found = 0.0
    for name in names:
        due = deserved.get(name, 0)
        over = held.get(name, 0) + change.get(name, 0) - due
        if over >= TOLERANCE and name != PODS:
            found = max(found, over / due if due > 0 else inf)
    return found


class LimitsQueues(Plugin, ABC):
    """Base of plugins that limit the resources of queues."""

    def open(self, session: Session) -> None:
        """Reset the claims of the last session."""
        super().open(session)
        self._extra: dict[str, Amounts] | None = None

    @abstractmethod
    def limits(self, queue: Queue) -> Iterable[tuple[Queue, Amounts]]:
        """Return the queues to which a job of a queue counts, each with its limit."""

    def alike(self, job: Job) -> Minimum | None:
        """Return the minimum resources: jobs of a queue with equal ones are equal here."""
        return job.minimum

    def job_enqueueable(self, job: Job) -> Vote:
        """Permit a job of an open queue whose minimum resources fit within all limits."""
        queue = job.path[0]
        if not queue.open:
            self.session.explain(job, "QueueNotOpen", self.NAME, queue.name)
            return REJECT
        if job.min_resources is None:
            return PERMIT
        for limited, limit in self.limits(queue):
            claims = dict(limited.allocated)
            add(claims, self._claimed().get(limited.name, {}).items())
            if not within(claims, job.min_resources.items(), limit):
                if not explain_queue_too_small(self.session, job, queue, self.NAME, job.min_resources):
                    lacking = missing(claims, job.min_resources.items(), limit)
                    self.session.explain(job, "QueueLimit", self.NAME, limited.name, lacking)
                return REJECT
        return PERMIT

    def job_enqueued(self, job: Job) -> None:
        """Add an admitted job's minimum resources."""
        if job.min_resources is not None:
            for queue in job.path:
                add(self._claimed().setdefault(queue.name, {}), job.min_resources.items())

    def _claimed(self) -> dict[str, Amounts]:
        """Return by queue the claims of jobs in and below it, less their resources beyond the minimum."""
        if self._extra is None:
            self._extra = {}
            for name, extra in self.session.inqueue.extra().items():
                for queue in self.session.cluster.path_of(name):
                    add(self._extra.setdefault(queue.name, {}), extra.items())
        return self._extra
