"""Make room for a task on a node by evicting others: what preempt and reclaim have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.scheduling.model.amounts import TOLERANCE, Amounts, add
from engine.scheduling.model.entities import Node, Task
from engine.scheduling.model.nodes import NodeTable
from engine.scheduling.session import Session
from engine.scheduling.statement import Statement

__all__ = ["could_fit", "evict_until"]


def could_fit(table: NodeTable, task: Task, node: Node, victims: Sequence[Task], lacking: Amounts) -> bool:
    """Return whether a task will fit when all victims are gone; there may be none (Volcano `ValidateVictims`).

    Args:
        table: the nodes.
        task: whom it is for.
        node: where.
        victims: whom may be evicted there.
        lacking: how much the victims must give up besides, so that the task's queue may take it.
    """
    given: Amounts = {}
    for victim in victims:
        add(given, victim.pod_class.items)
    if any(given.get(name, 0) < amount - TOLERANCE for name, amount in lacking.items()):
        return False
    future = table.future[:, node.row]
    return all(
        amount < float(future[table.resources[name]]) + given.get(name, 0) + TOLERANCE for name, amount in task.pod_class.items
    )


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
