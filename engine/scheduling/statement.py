"""Statements: moves of tasks that are committed or discarded together (Volcano `framework.Statement`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from engine.scheduling.cluster.entities import Node, Status, Task
from engine.scheduling.cluster.transaction import Transaction
from engine.scheduling.session import Session


class Statement(Transaction):
    """Moves within a session, committed, kept or discarded together."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        super().__init__(session.move)
        self._session = session

    def _moved(self, task: Task, status: Status, node: Node | None) -> None:
        self.record(task)
        self._session.move(task, status, node)

    def allocate(self, task: Task, node: Node) -> None:
        """Allocate idle resources of a node to a task."""
        self._moved(task, "Allocated", node)

    def pipeline(self, task: Task, node: Node) -> None:
        """Promise a task resources of a node that others have yet to release."""
        self._moved(task, "Pipelined", node)

    def evict(self, task: Task) -> None:
        """Evict a task from its node."""
        self._moved(task, "Releasing", task.node)

    @contextmanager
    def undone(self) -> Iterator[None]:
        """Move every task back for the length of the context."""
        moves = [(task, task.status, task.node) for task in self._former]
        self.discard()
        yield
        for move in moves:
            self._moved(*move)

    def keep(self) -> None:
        """Keep the moves in the session without a decision: promised places are unavailable to others."""
        self._session.decided += bool(self._former)
        self._former.clear()

    def commit(self) -> None:
        """Decide: allocated tasks are bound, evicted ones removed, promises kept."""
        outcome = self._session.outcome
        self._claim()
        for task in self._former:
            node = task.node
            if task.status == "Allocated" and node is not None:
                self._session.cluster.move(task, "Binding", node)
                outcome.bound.append((task, node.name))
                outcome.bound_of[task.job.key] = outcome.bound_of.get(task.job.key, 0) + 1
            elif task.status == "Releasing":
                outcome.evicted.append((task, self._session.action))
        self.keep()

    def _claim(self) -> None:
        """Record the claimants of evicted tasks: in the order of moves, a promised task follows the victims that make room for it.

        A task promised a free place is counted with the victim before it, or with the first one: its gang needs all places.
        """
        outcome, sizes, victim = self._session.outcome, self._session.sizes, ""
        promised: list[tuple[Task, str]] = []
        named = 0
        for task in reversed(self._former):
            node = task.node
            if task.status == "Pipelined" and node is not None:
                if named < sizes.most(task.job):
                    promised.append((task, node.name))
                    named += 1
            elif task.status == "Releasing" and (promised or victim):
                outcome.preemptors[task.key] = promised[0][0].job.key if promised else outcome.preemptors[victim]
                victim = task.key
                outcome.claims[victim], promised = promised, []
        if victim:
            outcome.claims[victim] += promised
