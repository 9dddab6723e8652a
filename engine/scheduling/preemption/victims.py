"""Make room for a task on a node by evicting others: what preempt and reclaim have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

from engine.scheduling.cluster.amounts import TOLERANCE, Amounts, add
from engine.scheduling.cluster.entities import Job, Node, Status, Task
from engine.scheduling.cluster.nodes import NodeTable
from engine.scheduling.preemption.run_times import has_run, least_run
from engine.scheduling.session import Session
from engine.scheduling.statement import Statement

__all__ = ["could_fit", "evictable", "make_room", "may_preempt", "starving", "victims_on"]


def starving(session: Session) -> dict[str, list[Job]]:
    """Return the jobs for which others may be evicted now, by queue."""
    found: dict[str, list[Job]] = {}
    for job in session.schedulable(lambda job: job.count("Pending", "Pipelined")):
        if not job.backing_off and session.job_starving(job):
            found.setdefault(job.queue, []).append(job)
    return found


def evictable(session: Session, jobs: Iterable[Job], *statuses: Status) -> Iterator[Task]:
    """Yield the pods of jobs that may be evicted for another: they are preemptable, and have run for as long as they may at least.

    Of a pod that has a node and is still starting the time counts from when it got that.

    Args:
        session: the session; it looks again when the first pod that is spared has run for so long.
        jobs: the jobs; of those that are held nobody is evicted.
        statuses: states of the pods.
    """
    for job in jobs:
        for status in () if job.held else statuses:
            for task in job.with_status(status).values():
                if task.pod_class.preemptable and has_run(session, least_run(job), task.running or task.bound):
                    yield task


def may_preempt(task: Task) -> bool:
    """Return whether others may be evicted for a pod."""
    shape = task.pod_class.shape
    return shape.preemption_policy != "Never" and not shape.scheduling_gates


def victims_on(
    session: Session,
    point: Literal["preemptable", "reclaimable"],
    task: Task,
    node: Node,
    candidates: Sequence[Task],
    lacking: Amounts,
) -> list[Task] | None:
    """Return whom plugins let a task evict on a node, in this order; `None`: it would not be enough.

    There may be none (Volcano `ValidateVictims`).

    Args:
        session: the session.
        point: which plugins are asked.
        task: whom it is for.
        node: where.
        candidates: whom they are asked about.
        lacking: how much the victims must give up besides, so that the task's queue may take it.
    """
    victims = session.victims_for(point, task, session.victims_in_order(candidates, task))
    return victims if could_fit(session.cluster.table, task, node, victims, lacking) else None


def could_fit(table: NodeTable, task: Task, node: Node, victims: Sequence[Task], lacking: Amounts) -> bool:
    """Return whether a task will fit when all victims are gone, and its queue may take it."""
    given: Amounts = {}
    for victim in victims:
        add(given, victim.pod_class.items)
    for name, amount in lacking.items():
        if given.get(name, 0) < amount - TOLERANCE:
            return False
    future, rows = table.future[:, node.row], table.resources
    return all(
        name in rows and amount < float(future[rows[name]]) + given.get(name, 0) + TOLERANCE
        for name, amount in task.pod_class.items
    )


def make_room(
    session: Session,
    task: Task,
    nodes: Iterable[Node],
    victims: Callable[[Node], Sequence[Task] | None],
    enough: Callable[[Node], bool],
) -> Statement | None:
    """Evict victims of the first node that will do, one by one until a task may go there, and promise it the place.

    Args:
        session: the session.
        task: whom it is for.
        nodes: which nodes, in this order.
        victims: whom may be evicted on a node, in this order; `None`: the node is passed over.
        enough: whether the task may go to a node by now.

    Returns:
        The moves, or `None` if no node will do; nothing has moved then.
    """
    for node in nodes:
        named = victims(node)
        if named is None:
            continue
        statement = Statement(session)
        for victim in named:
            if enough(node):
                break
            statement.evict(victim)
        if enough(node):
            statement.pipeline(task, node)
            return statement
        statement.discard()
    return None
