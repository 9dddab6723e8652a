"""Reclaim: a queue takes back what others hold beyond their share."""

from __future__ import annotations

import numpy as np

from engine.scheduling.actions.evictable import Evictable
from engine.scheduling.actions.hopeless import Hopeless
from engine.scheduling.actions.victims import evictable, make_room, may_preempt, starving, victims_on
from engine.scheduling.limits import explain_limit
from engine.scheduling.model.entities import Job, Node, PodClass, Task
from engine.scheduling.model.queues import Queue
from engine.scheduling.ordering import Ordered
from engine.scheduling.placement import Placement
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
        evictable(session, (job for job in session.lines.others.values() if job.path and job.path[0].reclaimable), "Running"),
    )
    hopeless = Hopeless(session)
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
        queues = {victim.job.queue: victim.job.path[0] for victim in found}
        givers = {name for name, queue in queues.items() if _may_take_from(session, queue, task)}
        return [victim for victim in found if victim.job.queue in givers]

    def enough(node: Node) -> bool:
        return placement.room(task, node) and placement.passes(task, node)

    nodes = others.worth_trying(session, "reclaimable", task, np.sort(placement.resolvable(task)), {})
    return make_room(session, task, nodes, victims, enough)


def _may_take_from(session: Session, queue: Queue, task: Task) -> bool:
    """Return whether a task's queue, with the task, holds what it deserves at most, or is less above it than another is now.

    This is a strict order: after one queue has taken something from another, that one may not take the same from it.
    """
    own = task.job.path[0]
    for tier in session.functions("excess"):
        for function in tier:
            excess: float = function(own, queue, task, more=True)
            if excess > 0 and excess >= function(queue, own, task, more=False):
                return False
    return True
