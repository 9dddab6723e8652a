"""Levels of writes to the model, each discarded as a whole: a session always, a statement where it finds no way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from engine.scheduling.cluster.entities import Node, Status, Task


class Transaction:
    """Former states and nodes of the tasks that one level of writes moved, in the order of their first moves."""

    __slots__ = ("_former", "_move")

    def __init__(self, move: Callable[[Task, Status, Node | None], None]) -> None:
        """Begin a level.

        Args:
            move: function that moves a task in the model, used to move it back.
        """
        self._move = move
        self._former: dict[Task, tuple[Status, Node | None]] = {}

    def __len__(self) -> int:
        return len(self._former)

    def record(self, task: Task) -> None:
        """Record a task that is about to be moved; its first move counts."""
        self._former.setdefault(task, (task.status, task.node))

    def restore(self, task: Task) -> None:
        """Move one task back; the level no longer includes it."""
        self._move_back(task, *self._former.pop(task))

    def discard(self) -> None:
        """Move every task back, the last one first; the level is empty then."""
        while self._former:
            task, former = self._former.popitem()
            self._move_back(task, *former)

    def _move_back(self, task: Task, status: Status, node: Node | None) -> None:
        if task.status != status or task.node is not node:
            self._move(task, status, node)

    def merge(self, other: Self) -> None:
        """Take over the moves of another level, which is empty then."""
        for task, former in other._former.items():
            self._former.setdefault(task, former)
        other._former.clear()
