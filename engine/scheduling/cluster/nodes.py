"""Node table: resources of all nodes as arrays, sorted by node name so that ties always go to the same node."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import numpy as np
from msgspec import json
from numpy.typing import NDArray

from engine.scheduling.cluster.amounts import CPU, MEMORY, PODS, Amounts
from engine.scheduling.cluster.entities import Node, PodClass, Taint

_FIRST: Final = (CPU, MEMORY, PODS)
_HALF: Final = 32
"""Bits."""


class Column(NamedTuple):
    """Property of all nodes: its distinct values, and the code of each node's value."""

    values: list[str | None]
    """Distinct values; `None`: the node lacks the label."""
    codes: NDArray[np.intp]


class NodeTable:
    """Arrays of resources (resources by nodes), and columns of labels and taints."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        """Nodes sorted by name, in the order of the arrays."""
        self.resources: dict[str, int] = {}
        """Resource → row of the arrays. CPU, memory and pods are the first rows, even if no node states them."""
        self.changed = np.zeros(0, np.int64)
        """Value of `clock` at the last change of each node's resources."""
        self.clock = 0
        """Number of changes of resources."""
        self.freed = 0
        """Value of `clock` at the last release of resources; since then free resources have only shrunk."""
        self._last = -1
        """Row of the last change."""
        self.layout = 0
        """Number of changes of the nodes themselves: names, labels, taints, allocatable resources."""
        self._columns: dict[str, Column] = {}
        """Label → column; filled on first use."""
        self._taints: tuple[list[tuple[Taint, ...]], NDArray[np.intp]] | None = None
        self._total: Amounts | None = None
        self._used: tuple[int, Amounts] = (-1, {})
        """Value of `clock`, and the allocated resources then."""
        self.longest_name = 0
        """Length of the longest node name as JSON (bytes)."""
        self.lay_out(())

    def lay_out(self, nodes: Iterable[Node]) -> None:
        """Rebuild the arrays for empty nodes; needed after nodes were added, removed or changed."""
        for node in self.nodes:
            node.row = -1
        self.nodes = sorted(nodes, key=lambda node: node.name)
        names = dict.fromkeys((*_FIRST, *(name for node in self.nodes for name in node.allocatable)))
        self.resources = {name: row for row, name in enumerate(names)}
        allocatable = np.zeros((len(self.resources), len(self.nodes)), np.int64)
        for row, node in enumerate(self.nodes):
            node.row = row
            for name, amount in node.allocatable.items():
                allocatable[self.resources[name], row] = amount
        self._set_arrays(allocatable)
        self.clock += 1
        self.freed = self.clock
        self.changed = np.full(len(self.nodes), self.clock, np.int64)
        self.layout += 1
        self._columns.clear()
        self._labels = {key for node in self.nodes for key in node.labels}
        self._taints = self._total = None
        self.longest_name = max((len(json.encode(node.name)) for node in self.nodes), default=0)

    def _set_arrays(self, allocatable: NDArray[np.int64]) -> None:
        self.allocatable = allocatable
        self.inverse = np.where(allocatable > 0, 1.0 / np.maximum(allocatable, 1), 0.0)
        """1 ÷ `allocatable`; 0 where that is 0."""
        self.room = np.stack([allocatable, allocatable])
        """`idle` and `future`, as one array."""
        self.idle = self.room[0]
        self.future = self.room[1]
        """Resources idle once releasing pods are gone, less promised ones (Volcano `FutureIdle`)."""

    def take(self, row: int, pod_class: PodClass, idle: int, future: int) -> None:
        """Subtract one pod's request from a node's resources, or add it back.

        Args:
            row: row of the node.
            pod_class: class of the pod.
            idle: change of idle resources: 1 subtracts the request, -1 adds it, 0 does neither.
            future: the same for future idle resources; one of both is not 0.
        """
        only = slice(row, row + 1)
        if idle == future:
            self.room[:, :, only] -= pod_class.vector if idle > 0 else -pod_class.vector
        elif idle:
            self.idle[:, only] -= idle * pod_class.vector
        else:
            self.future[:, only] -= future * pod_class.vector
        self.clock += 1
        self.changed[row] = self.clock
        self._last = row
        if idle < 0 or future < 0:
            self.freed = self.clock

    def changed_since(self, clock: int) -> slice | NDArray[np.intp]:
        """Return the rows of the nodes that changed after a value of `clock`, in the same layout."""
        if clock == self.clock - 1:  # a session places one pod after the other
            return slice(self._last, self._last + 1)
        return np.flatnonzero(self.changed > clock)

    def few_changed_since(self, clock: int, most: int) -> list[int] | None:
        """Return the same as `changed_since` if these are at most some nodes; `None`: they are more."""
        if clock == self.clock - 1:
            return [self._last]
        rows = np.flatnonzero(self.changed > clock)
        return rows.tolist() if len(rows) <= most else None

    def future_of(self, name: str) -> NDArray[np.int64]:
        """Return the future idle amount of a resource by node; 0 if no node states it."""
        return self._of(name, self.future)

    def allocatable_of(self, name: str) -> NDArray[np.int64]:
        """Return the allocatable amount of a resource by node; 0 if no node states it."""
        return self._of(name, self.allocatable)

    def _of(self, name: str, amounts: NDArray[np.int64]) -> NDArray[np.int64]:
        row = self.resources.get(name)
        return np.zeros(len(self.nodes), np.int64) if row is None else amounts[row]

    def column(self, key: str) -> Column:
        """Return the column of a label; a label that no node has is not cached."""
        if key not in self._labels:
            return Column([None], np.zeros(len(self.nodes), np.intp))
        found = self._columns.get(key)
        if found is None:
            found = self._columns[key] = _column([node.labels.get(key) for node in self.nodes])
        return found

    def names(self) -> Column:
        """Return the column of node names."""
        return Column([node.name for node in self.nodes], np.arange(len(self.nodes)))

    def by_taints(self, value: Callable[[tuple[Taint, ...]], float]) -> NDArray[np.float64]:
        """Return by node a value that depends on its taints alone; `value` is called once per distinct set of taints."""
        if self._taints is None:
            sets: dict[tuple[Taint, ...], int] = {}
            codes = np.array([sets.setdefault(node.taints, len(sets)) for node in self.nodes], np.intp)
            self._taints = (list(sets), codes)
        distinct, codes = self._taints
        return np.array([value(taints) for taints in distinct], np.float64)[codes] if distinct else np.zeros(0)

    def unschedulable(self) -> NDArray[np.bool_]:
        """Return a mask of the cordoned nodes."""
        return np.array([node.unschedulable for node in self.nodes], np.bool_)

    def used(self) -> Amounts:
        """Return the allocated resources of all nodes; read-only."""
        if self._used[0] != self.clock:
            sums = _row_sums(self.allocatable - self.idle)
            self._used = (self.clock, {name: sums[row] for name, row in self.resources.items()})
        return self._used[1]

    def total(self) -> Amounts:
        """Return the allocatable resources of all nodes; read-only."""
        if self._total is None:
            sums = _row_sums(self.allocatable)
            self._total = {name: sums[row] for name, row in self.resources.items() if sums[row]}
        return self._total


def _row_sums(amounts: NDArray[np.int64]) -> list[int]:
    """Return the exact sum of each row: disks of a few thousand nodes, in thousandths of a byte, exceed 64 bits."""
    high, low = (amounts >> _HALF).sum(axis=1), (amounts & ((1 << _HALF) - 1)).sum(axis=1)
    return [(above << _HALF) + below for above, below in zip(high.tolist(), low.tolist(), strict=True)]


def _column(values: list[str | None]) -> Column:
    distinct: dict[str | None, int] = {}
    codes = np.array([distinct.setdefault(value, len(distinct)) for value in values], np.intp)
    return Column(list(distinct), codes)
