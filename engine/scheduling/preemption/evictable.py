"""Upper bounds of the resources that evictions could free on each node, so most nodes need no search for victims."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from engine.scheduling.cluster.amounts import TOLERANCE, Amounts
from engine.scheduling.cluster.entities import Job, Node, PodClass, Task
from engine.scheduling.cluster.nodes import NodeTable
from engine.scheduling.plugin_results import Mask
from engine.scheduling.preemption.victims import could_fit
from engine.scheduling.session import Session

_FEW: Final = 4
"""Nodes to try before plugins are asked about all victims at once: mostly one of the first nodes suffices."""
_MANY: Final = 12
"""Nodes to try before plugins are asked again: they name fewer victims while a job is promised nodes."""


class VictimClasses:
    """Representative pods, one of each job and class, in rounds without two of the same job or queue."""

    def __init__(self, every: Sequence[Task]) -> None:
        """Choose one pod of each job and class."""
        self.every = every
        self._of_queue: dict[tuple[str, PodClass], list[Task]] = {}
        for one in every:
            self._of_queue.setdefault((one.job.queue, one.pod_class), []).append(one)
        self.rounds = {
            "job": _in_rounds(every, lambda one: one.job.key),
            "queue": _in_rounds([alike[0] for alike in self._of_queue.values()], lambda one: one.job.queue),
        }

    def alike(self, by: str, some: AbstractSet[Task]) -> Iterable[Task]:
        """Return the pods represented by some pods of a round."""
        return some if by == "job" else [one for first in some for one in self._of_queue[first.job.queue, first.pod_class]]


class Evictable:
    """Pods that may be evicted when an action begins, by node."""

    def __init__(self, table: NodeTable, tasks: Sequence[Task], rows: NDArray[np.intp], equivalence_key: NDArray[np.intp]) -> None:
        """Index the pods in the order of their rows, with a number for each job and class."""
        self._table = table
        self._tasks = tasks
        self._rows = rows
        every = np.arange(len(table.nodes))
        self._first = np.searchsorted(rows, every)
        self._end = np.searchsorted(rows, every, side="right")
        _, first, self._kind_of = np.unique(equivalence_key, return_index=True, return_inverse=True)
        self._kinds = VictimClasses([tasks[at] for at in first.tolist()])
        vectors = [task.pod_class.vector[:, 0] for task in self._kinds.every]
        self._vectors = np.array(vectors, np.int64).reshape(len(vectors), len(table.resources)).T
        self._freed = self._sum(np.ones(len(tasks), np.bool_))
        """Resources of the pods by node. Evicted ones stay included, and count as future idle as well."""
        self._preemptor: tuple[object, ...] = ()
        """Last preemptor, the victims that plugins may name for it, and their resources by node."""
        self._named = np.ones(len(tasks), np.bool_)
        self._named_freed = self._freed

    @classmethod
    def of(cls, table: NodeTable, tasks: Iterable[Task]) -> Evictable:
        """Index pods in any order, without those that are on no node of the table."""
        found = [task for task in tasks if task.node is not None and task.node.row >= 0]
        rows = np.array([task.node.row for task in found if task.node is not None], np.intp)
        order = np.argsort(rows, kind="stable")
        kinds: dict[tuple[Job, PodClass], int] = {}
        equivalence_key = np.array([kinds.setdefault((task.job, task.pod_class), len(kinds)) for task in found], np.intp)
        return cls(table, [found[at] for at in order.tolist()], rows[order], equivalence_key[order])

    def without(self, queue: str) -> Evictable:
        """Return the pods of other queues."""
        others = np.array([kind.job.queue != queue for kind in self._kinds.every], np.bool_)
        chosen = np.flatnonzero(others[self._kind_of])
        return Evictable(self._table, [self._tasks[at] for at in chosen.tolist()], self._rows[chosen], self._kind_of[chosen])

    def _sum(self, tasks: Mask) -> NDArray[np.int64]:
        """Return the resources of some of the pods by node."""
        amounts = self._vectors[:, self._kind_of] * tasks
        sums = np.zeros((len(self._vectors), len(self._tasks) + 1), np.int64)
        np.cumsum(amounts, axis=1, out=sums[:, 1:])
        found: NDArray[np.int64] = sums[:, self._end] - sums[:, self._first]
        return found

    def on(self, node: Node) -> Sequence[Task]:
        """Return the pods that were on a node when the action began."""
        return self._tasks[self._first[node.row] : self._end[node.row]]

    def worth_trying(
        self,
        session: Session,
        point: Literal["preemptable", "reclaimable"],
        task: Task,
        rows: NDArray[np.intp],
        lacking: Amounts,
    ) -> Iterator[Node]:
        """Yield the nodes where a task could fit if all pods that plugins may name were evicted.

        Args:
            session: the session.
            point: extension point to ask.
            task: the task.
            rows: rows of the nodes, in order.
            lacking: least amounts to evict, so that the task's queue may take it.
        """
        freed, among, batch = self._freed, None, _FEW
        if self._preemptor == (task.job, task.pod_class, task.priority):
            freed, among, batch = self._named_freed, self._named, _MANY
        rows = rows[self._enough(task, freed, lacking)[rows]]
        while len(rows):
            for row in rows[:batch].tolist():
                if could_fit(self._table, task, self._table.nodes[row], self._left(row, among), lacking):
                    yield self._table.nodes[row]
            rows = rows[batch:]
            if len(rows):
                self._ask(session, point, task)
                among, batch = self._named, _MANY
                rows = rows[self._enough(task, self._named_freed, lacking)[rows]]

    def _left(self, row: int, among: Mask | None) -> list[Task]:
        """Return those pods of a node, or of some of them, that are not evicted yet."""
        here = range(self._first[row], self._end[row])
        return [self._tasks[at] for at in here if (among is None or among[at]) and self._tasks[at].status != "Releasing"]

    def _ask(self, session: Session, point: str, task: Task) -> None:
        """Ask plugins which victims they may name for a task.

        They name no more for later tasks of the same job: its share has grown, those of others have not.
        """
        self._preemptor = (task.job, task.pod_class, task.priority)
        named = _may_be_named(session, point, task, self._kinds)
        kinds = np.array([kind in named for kind in self._kinds.every], np.bool_)
        self._named = kinds[self._kind_of]
        left = self._named
        if session.evicted:
            left = left & np.array([victim.status != "Releasing" for victim in self._tasks], np.bool_)
        self._named_freed = self._sum(left)

    def _enough(self, task: Task, freed: NDArray[np.int64], lacking: Amounts) -> Mask:
        """Return the nodes where evicting these amounts makes room for a task, and frees what its queue lacks."""
        found: Mask = (self._table.future + freed - task.pod_class.vector >= task.pod_class.least).all(axis=0)
        for name, amount in lacking.items():
            if name in self._table.resources:  # otherwise no node was found for the task
                found &= freed[self._table.resources[name]] >= amount - TOLERANCE
        return found


def _may_be_named(session: Session, point: str, task: Task, classes: VictimClasses) -> set[Task]:
    """Return the victim classes that plugins may name on some node: a superset of those that they will name.

    Args:
        session: the session.
        point: `preemptable` or `reclaimable`.
        task: the preemptor.
        classes: candidates, one pod of each job and class.
    """
    found: set[Task] = set()
    for tier in session.functions(point):
        left = set(classes.every)
        for function in tier:
            by = session.counts_by.get(function, "")
            for asked in classes.rounds.get(by, ()):
                named: list[Task] | None = function(task, asked)
                if named is not None:
                    left.difference_update(classes.alike(by, set(asked).difference(named)))
            if not left:
                break
        found |= left
    return found


def _in_rounds(tasks: Iterable[Task], owner: Callable[[Task], str]) -> list[list[Task]]:
    """Return tasks in lists with at most one of each owner."""
    rounds: list[list[Task]] = []
    seen: dict[str, int] = {}
    for one in tasks:
        at = seen[owner(one)] = seen.get(owner(one), -1) + 1
        if at == len(rounds):
            rounds.append([])
        rounds[at].append(one)
    return rounds
