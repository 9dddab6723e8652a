"""Reclaim: a queue takes back what others hold beyond their share."""

from __future__ import annotations

import numpy as np

from engine.scheduling.actions.evictable import Evictable
from engine.scheduling.actions.victims import make_room, may_preempt, starving, victims_on
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
        (
            task
            for job in session.lines.others.values()
            if job.path and job.path[0].reclaimable and not job.held
            for task in job.with_status("Running").values()
            if task.pod_class.preemptable
        ),
    )
    queues: Ordered[Queue] = Ordered(session.cluster, session.queue_key, [session.cluster.queues[name] for name in waiting])
    while queues:
        queue = queues.pop()
        if session.overused(queue):
            continue
        jobs: Ordered[Job] = Ordered(session.cluster, session.job_key, waiting[queue.name])
        evictable = every.without(queue.name)
        while jobs:
            if session.at_limit():
                return
            _reclaim_for(session, placement, evictable, queue, jobs.pop())


def _reclaim_for(session: Session, placement: Placement, evictable: Evictable, queue: Queue, job: Job) -> None:
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
        moves = None if task.pod_class in hopeless else _make_room(session, placement, evictable, task)
        if moves is None:
            hopeless.add(task.pod_class)
        else:
            statement.merge(moves)
    if session.job_pipelined(job):
        statement.commit()
    else:
        statement.discard()


def _make_room(session: Session, placement: Placement, evictable: Evictable, task: Task) -> Statement | None:
    """Find a node and victims for a task; return the moves that have been made, or `None`."""

    def victims(node: Node) -> list[Task] | None:
        candidates = [victim for victim in evictable.on(node) if victim.status == "Running"]
        # Volcano: a node where nobody could give anything is left to other actions.
        return victims_on(session, "reclaimable", task, node, candidates, {}) if candidates else None

    def enough(node: Node) -> bool:
        return placement.room(task, node) and placement.passes(task, node)

    nodes = evictable.worth_trying(session, "reclaimable", task, np.sort(placement.resolvable(task)), {})
    return make_room(session, task, nodes, victims, enough)
