"""Preempt: within a queue, the pods of more important jobs take the place of others'; within a job, of its own lesser ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.scheduling.actions.dry_run import best_dry_run
from engine.scheduling.actions.evictable import Evictable
from engine.scheduling.actions.victims import could_fit, evict_until
from engine.scheduling.model.entities import Job, Node, PodClass, Task
from engine.scheduling.model.queues import Queue
from engine.scheduling.ordering import Ordered
from engine.scheduling.placement import Placement
from engine.scheduling.session import Session
from engine.scheduling.statement import Statement

__all__ = ["preempt"]


def preempt(session: Session, placement: Placement) -> None:
    """Preempt for the jobs that starve, queue by queue.

    Volcano: between jobs a statement is decided if the whole job is pipelined; within a job after each task, until one fails.
    Argument `enableTopologyAwarePreemption`: dry runs choose the node whose victims matter least.
    """
    dry_run = session.begin("preempt").truth("enableTopologyAwarePreemption", default=False)
    starving: dict[str, list[Job]] = {}
    for job in session.schedulable():
        if session.job_starving(job):
            starving.setdefault(job.queue, []).append(job)
    if not starving:
        return
    search = _Search(session, placement, Evictable(session.cluster), dry_run=dry_run)
    queues: Ordered[Queue] = Ordered(session.queue_key, [session.cluster.queues[name] for name in starving])
    while queues:
        queue = queues.pop()
        jobs: Ordered[Job] = Ordered(session.job_key, starving[queue.name])
        while jobs:
            _preempt_others(search, queue, jobs.pop())
        for job in starving[queue.name]:
            _preempt_own(search, queue, job)


@dataclass(slots=True, frozen=True)
class _Search:
    """What looking for nodes and victims takes."""

    session: Session
    placement: Placement
    evictable: Evictable
    dry_run: bool


def _preemptors(session: Session, job: Job) -> list[Task]:
    """Return a job's pending tasks that may preempt, the first one last."""
    found = [
        task
        for task in job.with_status("Pending").values()
        if task.pod_class.shape.preemption_policy != "Never" and not task.pod_class.shape.scheduling_gates
    ]
    found.sort(key=session.task_key, reverse=True)
    return found


def _preempt_others(search: _Search, queue: Queue, job: Job) -> None:
    """Preempt other jobs of the queue for a job, for all of what it needs or for nothing."""
    session = search.session
    statement = Statement(session)
    tasks = _preemptors(session, job)
    hopeless: set[PodClass] = set()

    def other(victim: Task) -> bool:
        return victim.job is not job and victim.job.queue == job.queue

    while tasks and session.job_starving(job):
        task = tasks.pop()
        moves = None if task.pod_class in hopeless else _make_room(search, queue, task, other)
        if moves is None:
            hopeless.add(task.pod_class)
        else:
            statement.merge(moves)
    if session.job_pipelined(job):
        statement.commit()
    else:
        statement.discard()
        if job.key not in session.outcome.reasons:  # what allocate lacked says more
            session.explain(job, "NoVictims", subject=queue.name)


def _preempt_own(search: _Search, queue: Queue, job: Job) -> None:
    """Let a job's more important tasks take the place of its lesser ones."""
    if not job.count("Running", "Bound"):
        return
    tasks = _preemptors(search.session, job)
    while tasks:
        moves = _make_room(search, queue, tasks.pop(), lambda victim: victim.job is job)
        if moves is None:
            break
        moves.commit()


def _make_room(search: _Search, queue: Queue, task: Task, wanted: Callable[[Task], bool]) -> Statement | None:
    """Find a node and victims for a task; return the moves that have been made, or `None`."""
    session, placement = search.session, search.placement

    def victims_on(node: Node) -> list[Task] | None:
        candidates = [
            victim
            for victim in node.tasks.values()
            if victim.status in {"Bound", "Running"}
            and not victim.job.held
            and victim.pod_class.preemptable
            and (victim.pod_class.best_effort or not task.pod_class.best_effort)
            and wanted(victim)
        ]
        victims = session.victims_for("preemptable", task, session.victims_in_order(candidates, task))
        return victims if could_fit(session.cluster.table, task, node, victims) else None

    possible = search.evictable.possible(task, lambda other: other is queue)
    nodes = [node for node in placement.resolvable(task) if possible[node.row]]
    if search.dry_run:
        return best_dry_run(session, placement, queue, task, [(node, found) for node in nodes if (found := victims_on(node))])
    for node in nodes:
        victims = victims_on(node)
        if victims is not None:

            def enough(node: Node = node) -> bool:
                return session.allocatable(queue, task) and placement.room(task, node) and placement.passes(task, node)

            moves = evict_until(session, task, node, victims, enough)
            if moves is not None:
                return moves
    return None
