"""Reclaim: evict pods of queues that exceed their share, in favour of other queues."""

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


def reclaim(session: Session, placement: Placement) -> None:
    """Reclaim for starving jobs, for all of a queue before the next queue is chosen.

    Volcano: an overused queue reclaims nothing; a statement is committed if its whole job is pipelined.
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
    """Reclaim until a job is pipelined whole, or discard; return whether it found victims."""
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
    """Find a node and victims for a task; return the moves made, or `None`."""

    def victims(node: Node) -> list[Task] | None:
        candidates = [victim for victim in others.on(node) if victim.status == "Running"]
        # Volcano: a node without possible victims is left to other actions.
        found = victims_on(session, "reclaimable", task, node, candidates, {}) if candidates else None
        if found is None:
            return None
        return _in_order(session, task, found)

    def enough(node: Node) -> bool:
        return placement.room(task, node) and placement.passes(task, node)

    nodes = others.worth_trying(session, "reclaimable", task, np.sort(placement.resolvable(task)), {})
    return make_room(session, task, nodes, victims, enough)


def _in_order(session: Session, task: Task, victims: Iterable[Task]) -> list[Task]:
    """Return the victims that the order of queues permits, each as if those before it had left.

    The order is strict: the queue of an evicted pod always exceeded its deserved resources by more than the claimant's queue does
    afterwards. So queues cannot reclaim from each other forever.
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
    """Return whether a victim's queue exceeds its deserved resources by more than a task's queue will.

    A queue that stays within its deserved resources takes from one that exceeds them in any resource of the victim. Otherwise the
    resources of the victim that the task requests are compared.

    Args:
        excess: the plugin's measure.
        victim: the victim.
        lost: amounts that its queue has lost by then (negative).
        task: the task.
    """
    own, other = task.job.path[0], victim.job.path[0]
    asked, taken = task.pod_class.request, victim.pod_class.request
    after = excess(own, other, asked, asked)
    before = excess(other, own, taken, lost)
    if after > 0:
        before = min(before, excess(other, own, taken.keys() & asked.keys(), lost))
    return after < before
