"""Preemption by dry runs: try every node, spare as many victims as possible, choose the node with the least important victims."""

from __future__ import annotations

from collections.abc import Sequence

from engine.scheduling.cluster.entities import Node, Task
from engine.scheduling.cluster.queues import Queue
from engine.scheduling.placement import Placement
from engine.scheduling.session import Session
from engine.scheduling.statement import Statement


def best_dry_run(
    session: Session, placement: Placement, queue: Queue, task: Task, nodes: Sequence[tuple[Node, list[Task]]]
) -> Statement | None:
    """Evict the victims of the best node, and promise a task the place.

    Volcano (as Kubernetes): the node with the lowest highest priority of victims, then the least sum of priorities, the fewest
    victims, the latest start of its most important victim, the first name.

    Args:
        session: the session.
        placement: finds nodes.
        queue: the task's queue.
        task: the preemptor.
        nodes: nodes with their possible victims, at least one each, in the order of eviction.

    Returns:
        The moves, or `None` if no node can be freed.
    """
    found = [
        (victims, node) for node, candidates in nodes if (victims := _fewest(session, placement, queue, task, node, candidates))
    ]
    if not found:
        return None

    def cost(choice: tuple[list[Task], Node]) -> tuple[int, int, int, int, str]:
        victims, node = choice
        top = max(victim.priority for victim in victims)
        started = min(victim.created for victim in victims if victim.priority == top)
        return top, sum(victim.priority for victim in victims), len(victims), -started, node.name

    victims, node = min(found, key=cost)
    statement = Statement(session)
    for victim in victims:
        statement.evict(victim)
    statement.pipeline(task, node)
    return statement


def _fewest(session: Session, placement: Placement, queue: Queue, task: Task, node: Node, candidates: Sequence[Task]) -> list[Task]:
    """Return the victims on a node for a task: evict until it fits, then spare as many as possible; empty: it never fits."""
    before = frozenset(session.evicted)
    # Volcano: predicates see simulated evictions only if the plugin's switch for preemption is on.
    seen = session.enabled("predicates", "preemptable")

    def fits() -> bool:
        without = frozenset(session.evicted) if seen else before
        return session.allocatable(queue, task) and placement.room(task, node) and placement.passes(task, node, without)

    trial = Statement(session)
    evicted: list[Task] = []
    for victim in candidates:
        trial.evict(victim)
        evicted.append(victim)
        if fits():
            break
    victims: list[Task] = []
    if fits():
        for victim in reversed(evicted):
            trial.restore(victim)
            if not fits():
                trial.evict(victim)
                victims.append(victim)
    trial.discard()
    return victims
