"""Counts of pods by node, read by affinity, anti-affinity, topology spread and host ports.

Selectors cannot distinguish pods of one class and namespace, so each is evaluated once per such pair, not per pod. Counting starts
on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from engine.scheduling.cluster.entities import Node, PodClass, Task
from engine.scheduling.cluster.nodes import Column, NodeTable

PodKind = tuple[PodClass, str]
"""Class and namespace of pods."""


class Presence:
    """Counts of pods by class and namespace, one array over the nodes each."""

    def __init__(self) -> None:
        self._counts: dict[PodKind, NDArray[np.int64]] = {}
        self._counting = False
        self.picky: set[PodClass] = set()
        """Classes with placed pods that repel others, by anti-affinity or host ports."""

    def forget(self) -> None:
        """Drop all counts; they are rebuilt on next use. Needed after nodes were added or removed."""
        self._counts.clear()
        self._counting = False

    def drop(self, pod_class: PodClass) -> None:
        """Drop a class that has no pods left."""
        self.picky.discard(pod_class)
        for kind in [kind for kind in self._counts if kind[0] is pod_class]:
            del self._counts[kind]

    def start(self, table: NodeTable) -> None:
        """Start counting, with the pods of all nodes; no-op if it has started."""
        if not self._counting:
            self._counting = True
            for node in table.nodes:
                for task in node.tasks.values():
                    self._change(task, node, 1, len(table.nodes))

    def change(self, task: Task, node: Node, by: int, width: int) -> None:
        """Count a pod that is added to a node (1) or removed from it (-1).

        Args:
            task: the pod.
            node: the node.
            by: 1 or -1.
            width: number of nodes.
        """
        shape = task.pod_class.shape
        if by > 0 and (shape.pod_anti_affinity or shape.host_ports):
            self.picky.add(task.pod_class)
        if self._counting and node.row >= 0:
            self._change(task, node, by, width)

    def _change(self, task: Task, node: Node, by: int, width: int) -> None:
        kind = (task.pod_class, task.job.namespace)
        counts = self._counts.get(kind)
        if counts is None:
            counts = self._counts[kind] = np.zeros(width, np.int64)
        counts[node.row] += by

    def kinds(self) -> Iterator[tuple[PodKind, NDArray[np.int64]]]:
        """Yield all pairs with their counts by node."""
        yield from self._counts.items()

    def count(self, matches: Callable[[PodKind], bool], width: int) -> NDArray[np.int64]:
        """Return the number of matching pods by node."""
        total = np.zeros(width, np.int64)
        for kind, counts in self.kinds():
            if matches(kind):
                total += counts
        return total


def by_domain(counts: NDArray[np.int64], domain: Column) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Sum counts of nodes over the domains that they lie in.

    Returns:
        For each node the sum of its domain, and whether it lies in one.
    """
    sums = np.bincount(domain.codes, weights=counts, minlength=len(domain.values)).astype(np.int64)
    inside = np.array([value is not None for value in domain.values], np.bool_)
    return np.where(inside, sums, 0)[domain.codes], inside[domain.codes]
