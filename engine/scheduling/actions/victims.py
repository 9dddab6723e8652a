"""Make room for a task on a node by evicting others: what preempt and reclaim have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.scheduling.model.amounts import Amounts, add, at_most
from engine.scheduling.model.entities import Node, Task
from engine.scheduling.model.nodes import NodeTable
from engine.scheduling.session import Session
from engine.scheduling.statement import Statement

__all__ = ["could_fit", "evict_until"]


def could_fit(table: NodeTable, task: Task, node: Node, victims: Sequence[Task]) -> bool:
    """Return whether a task will fit on a node when all victims are gone; there may be none (Volcano `ValidateVictims`)."""
    room: Amounts = {name: float(table.future[row, node.row]) for name, row in table.resources.items()}
    for victim in victims:
        add(room, victim.pod_class.items)
    return at_most(task.pod_class.request, room)


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
