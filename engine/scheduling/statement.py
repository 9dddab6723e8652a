"""Statements: moves of tasks that stand or fall together (Volcano `framework.Statement`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from engine.scheduling.cluster.entities import Node, Status, Task
from engine.scheduling.session import Session

__all__ = ["Statement"]


@dataclass(slots=True, frozen=True)
class _Move:
    task: Task
    status: Status
    node: Node | None
    """State and node before it."""


class Statement:
    """Moves that change the session at once, until they are committed or undone."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._moves: list[_Move] = []

    def __len__(self) -> int:
        return len(self._moves)

    def _move(self, task: Task, status: Status, node: Node | None) -> None:
        self._moves.append(_Move(task, task.status, task.node))
        self._session.cluster.move(task, status, node)

    def allocate(self, task: Task, node: Node) -> None:
        """Give a task a place that is free."""
        self._move(task, "Allocated", node)

    def pipeline(self, task: Task, node: Node) -> None:
        """Promise a task a place that others have yet to leave."""
        self._move(task, "Pipelined", node)

    def evict(self, task: Task) -> None:
        """Send a task away from its node."""
        self._session.evicted.add(task)
        self._move(task, "Releasing", task.node)

    def restore(self, task: Task) -> None:
        """Take back the eviction of a task."""
        for at, move in enumerate(self._moves):
            if move.task is task:
                del self._moves[at]
                self._undo(move)
                return

    def merge(self, other: Statement) -> None:
        """Take over the moves of another statement, which is empty then."""
        self._moves += other._moves
        other._moves = []

    def discard(self) -> None:
        """Undo everything, the last move first."""
        while self._moves:
            self._undo(self._moves.pop())

    @contextmanager
    def undone(self) -> Iterator[None]:
        """Undo everything for a while."""
        done = [(move.task, move.task.status, move.task.node) for move in self._moves]
        self.discard()
        yield
        for task, status, node in done:
            if status == "Releasing":
                self._session.evicted.add(task)
            self._move(task, status, node)

    def _undo(self, move: _Move) -> None:
        if move.task.status == "Releasing":
            self._session.evicted.discard(move.task)
        self._session.cluster.move(move.task, move.status, move.node)

    def keep(self) -> None:
        """Leave the moves in the session, though nothing is decided: what is promised is taken for others."""
        self._session.decided += bool(self._moves)
        self._moves = []

    def commit(self) -> None:
        """Decide: what was allocated is bound, what was evicted has to go, what was promised is kept."""
        outcome = self._session.outcome
        self._claim()
        for move in self._moves:
            task, node = move.task, move.task.node
            if task.status == "Allocated" and node is not None:
                self._session.cluster.move(task, "Binding", node)
                outcome.bound.append((task, node.name))
                outcome.bound_of[task.job.key] = outcome.bound_of.get(task.job.key, 0) + 1
            elif task.status == "Releasing":
                outcome.evicted.append((task, self._session.action))
        self.keep()

    def _claim(self) -> None:
        """Note for which tasks others are evicted: those that are promised a place follow the victims that leave it.

        A task that is promised a free place belongs to the victim before it, or to the first one: its gang needs all places.
        """
        outcome, sizes, victim = self._session.outcome, self._session.sizes, ""
        promised: list[tuple[Task, str]] = []
        named = 0
        for move in reversed(self._moves):
            task, node = move.task, move.task.node
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
