"""Reclaim: a queue takes back what others hold beyond their share."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from engine.scheduling.cluster.amounts import Amounts, subtract
from engine.scheduling.cluster.entities import Job, Node, PodClass, Task
from engine.scheduling.cluster.queues import Queue
from engine.scheduling.limits import explain_limit
from engine.scheduling.ordering import Ordered
from engine.scheduling.placement import Placement
from engine.scheduling.preemption.evictable import Evictable
from engine.scheduling.preemption.hopeless_searches import HopelessSearches
from engine.scheduling.preemption.victims import evictable, make_room, may_preempt, starving, victims_on
from engine.scheduling.session import Session
from engine.scheduling.statement import Statement

__all__ = ["reclaim"]


def reclaim(session: Session, placement: Placement) -> None:
    """Reclaim for the jobs that starve, for all of a queue before the next queue is chosen.

    Volcano: an overused queue reclaims nothing; a statement is decided if its whole job is pipelined.
    """
    session.begin("reclaim")
    waiting = starving(session)
    if not waiting:
        return
    every = Evictable.of(
        session.cluster.table,
        evictable(
            session, (job for job in session.pending_queue.others.values() if job.path and job.path[0].reclaimable), "Running"
        ),
    )
    hopeless = HopelessSearches(session)
    queues: Ordered[Queue] = Ordered(session.cluster, session.queue_key, [session.cluster.queues[name] for name in waiting])
    while queues:
        queue = queues.pop()
        if session.overused(queue):
            continue
        jobs: Ordered[Job] = Ordered(session.cluster, session.job_key, waiting[queue.name])
        others = every.without(queue.name)
        while jobs:
            if session.at_limit():
                return
            job = jobs.pop()
            if not hopeless.includes(job) and not _reclaim_for(session, placement, others, queue, job):
                hopeless.add(job)


def _reclaim_for(session: Session, placement: Placement, others: Evictable, queue: Queue, job: Job) -> bool:
    """Reclaim for a job, for all of what it needs or for nothing; return whether that found anything."""
    statement = Statement(session)
    hopeless: set[PodClass] = set()
    for task in session.in_order(job.with_status("Pending").values()):
        if not session.job_starving(job):
            break
        if not may_preempt(task):
            continue
        if not session.preemptive(queue, task):
            if job.key not in session.outcome.explained:
                explain_limit(session, job, queue, task)
            continue
        moves = None if task.pod_class in hopeless else _make_room(session, placement, others, task)
        if moves is None:
            hopeless.add(task.pod_class)
        else:
            statement.merge(moves)
    found = len(statement) > 0 and session.job_pipelined(job)
    if found:
        statement.commit()
    else:
        statement.discard()
    return found


def _make_room(session: Session, placement: Placement, others: Evictable, task: Task) -> Statement | None:
    """Find a node and victims for a task; return the moves that have been made, or `None`."""

    def victims(node: Node) -> list[Task] | None:
        candidates = [victim for victim in others.on(node) if victim.status == "Running"]
        # Volcano: a node where nobody could give anything is left to other actions.
        found = victims_on(session, "reclaimable", task, node, candidates, {}) if candidates else None
        if found is None:
            return None
        return _in_order(session, task, found)

    def enough(node: Node) -> bool:
        return placement.room(task, node) and placement.passes(task, node)

    nodes = others.worth_trying(session, "reclaimable", task, np.sort(placement.resolvable(task)), {})
    return make_room(session, task, nodes, victims, enough)


def _in_order(session: Session, task: Task, victims: Iterable[Task]) -> list[Task]:
    """Return the victims that the order of queues lets a task have, each as if those before it had gone.

    This is a strict order, whatever pods ask for: a pod that goes always stood further above what its queue deserves than the pod
    that comes does then. So reclaiming from each other in a circle comes to an end.
    """
    functions = [function for tier in session.functions("excess") for function in tier]
    gone: dict[str, Amounts] = {}
    found = []
    for victim in victims:
        lost = gone.setdefault(victim.job.queue, {})
        if all(_stands_higher(function, victim, lost, task) for function in functions):
            subtract(lost, victim.pod_class.items)
            found.append(victim)
    return found


def _stands_higher(excess: Callable[..., float], victim: Task, lost: Amounts, task: Task) -> bool:
    """Return whether a victim's queue is further above what it deserves than a task's will be.

    A queue that will hold at most what it deserves takes from one that holds more of anything that the victim takes. Else what the
    victim takes of what the task asks for is compared.

    Args:
        excess: the plugin's measure.
        victim: the victim.
        lost: what its queue has lost by then (negative).
        task: the task.
    """
    own, other = task.job.path[0], victim.job.path[0]
    asked, taken = task.pod_class.request, victim.pod_class.request
    after = excess(own, other, asked, asked)
    before = excess(other, own, taken, lost)
    if after > 0:
        before = min(before, excess(other, own, taken.keys() & asked.keys(), lost))
    return after < before
