"""Make room for a task on a node by evicting others: what preempt and reclaim have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from engine.scheduling.model.amounts import TOLERANCE, Amounts, add
from engine.scheduling.model.entities import Node, Task
from engine.scheduling.model.nodes import NodeTable
from engine.scheduling.session import Session
from engine.scheduling.statement import Statement

__all__ = ["could_fit", "evict_until", "victims_on"]


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
    return all(amount < float(future[rows[name]]) + given.get(name, 0) + TOLERANCE for name, amount in task.pod_class.items)


def evict_until(session: Session, task: Task, node: Node, victims: Sequence[Task], enough: Callable[[], bool]) -> Statement | None:
    """Evict victims of a node one by one until a task may go there, and promise it the place.

    Args:
        session: the session.
        task: whom it is for.
        node: where.
        victims: whom may be evicted, in this order.
        enough: whether the task may go there by now.

    Returns:
        The moves, or `None` if all victims together are not enough; nothing has moved then.
    """
    statement = Statement(session)
    for victim in victims:
        if enough():
            break
        statement.evict(victim)
    if enough():
        statement.pipeline(task, node)
        return statement
    statement.discard()
    return None
