"""Common steps of preempt and reclaim: make room for a task on a node by evictions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

from engine.scheduling.cluster.amounts import TOLERANCE, Amounts, add
from engine.scheduling.cluster.entities import Job, Node, Status, Task
from engine.scheduling.cluster.nodes import NodeTable
from engine.scheduling.preemption.run_times import has_run, least_run
from engine.scheduling.session import Session
from engine.scheduling.statement import Statement


def starving(session: Session) -> dict[str, list[Job]]:
    """Return starving jobs for which others may be evicted now, by queue."""
    found: dict[str, list[Job]] = {}
    for job in session.schedulable(lambda job: job.count("Pending", "Pipelined")):
        if not job.backing_off and session.job_starving(job):
            found.setdefault(job.queue, []).append(job)
    return found


def evictable(session: Session, jobs: Iterable[Job], *statuses: Status) -> Iterator[Task]:
    """Yield the pods of jobs that may be evicted: preemptable ones whose least run time is over.

    The time of a bound pod that is still starting counts from its binding.

    Args:
        session: the session; another one is requested for when the first spared pod's time is over.
        jobs: the jobs; held ones are skipped.
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
    """Return the victims that plugins permit on a node, in the order of eviction; `None`: they do not free enough.

    The list may be empty (Volcano `ValidateVictims`).

    Args:
        session: the session.
        point: extension point to ask.
        task: the preemptor.
        node: the node.
        candidates: possible victims.
        lacking: further amounts that the victims must free, so that the task's queue may take it.
    """
    victims = session.victims_for(point, task, session.victims_in_order(candidates, task))
    return victims if could_fit(session.cluster.table, task, node, victims, lacking) else None


def could_fit(table: NodeTable, task: Task, node: Node, victims: Sequence[Task], lacking: Amounts) -> bool:
    """Return whether a task fits, and its queue may take it, once all victims are gone."""
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
    """Evict victims of the first suitable node, one by one until a task fits, and pipeline the task to it.

    Args:
        session: the session.
        task: the preemptor.
        nodes: the nodes, in order.
        victims: returns the victims on a node, in the order of eviction; `None`: the node is skipped.
        enough: returns whether the task fits on a node by now.

    Returns:
        The moves, or `None` if no node is suitable; nothing has moved then.
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
