"""Binpack: fill nodes that are in use before others."""

from __future__ import annotations

from typing import ClassVar, Final
from weakref import WeakKeyDictionary

import numpy as np

from engine.scheduling.answers import Rows, Scores
from engine.scheduling.configuration import PluginOption
from engine.scheduling.errors import ConfigurationError
from engine.scheduling.model.amounts import CPU, MEMORY
from engine.scheduling.model.entities import PodClass
from engine.scheduling.session import Plugin

__all__ = ["BinPack"]

_BEST: Final = 100.0


class BinPack(Plugin):
    """Score by how full a node would be (Volcano `binpack`).

    Arguments: `binpack.weight`, `binpack.cpu`, `binpack.memory`, all 1; `binpack.resources`: names of others with commas, each
    with `binpack.resources.NAME`, 1.
    """

    NAME: ClassVar[str] = "binpack"

    def __init__(self, option: PluginOption) -> None:
        super().__init__(option)
        arguments = option.arguments
        self._weight = arguments.number("binpack.weight", 1)
        self._resources = {CPU: arguments.number("binpack.cpu", 1), MEMORY: arguments.number("binpack.memory", 1)}
        for name in arguments.text("binpack.resources").split(","):
            if name.strip():
                self._resources[name.strip()] = arguments.number(f"binpack.resources.{name.strip()}", 1)
        for name, weight in self._resources.items():
            if weight < 0:
                raise ConfigurationError(f"argument of binpack: the weight of {name} must not be below zero")
        self._of_class: WeakKeyDictionary[PodClass, tuple[int, list[tuple[int, float]]]] = WeakKeyDictionary()
        """Class → layout of the table, rows of the resources that count, each with its weight (they add up to one)."""

    def node_order(self, pod_class: PodClass, rows: Rows) -> Scores | None:
        """Score by the weighted mean of what would be used of each weighted resource that is asked for.

        Volcano: a node that would have less than nothing left of one of them has 0; a resource without a weight is passed over.

        Summed node by node, in the order of the resources' names: a matrix product rounds differently for other numbers of nodes
        and on other processors, and nodes that are alike would no longer have equal scores.
        """
        layout = self.session.cluster.table.layout
        found = self._of_class.get(pod_class)
        if found is None or found[0] != layout:
            found = self._of_class[pod_class] = (layout, self._weigh(pod_class))
        _, weights = found
        if not (self._weight and weights):
            return None
        used: Scores = np.ones(rows.left.shape[1])
        for row, weight in weights:
            used -= weight * rows.left[row]
        score: Scores = used * (self._weight * _BEST)
        score[(rows.after[[row for row, _ in weights]] < 0).any(axis=0)] = 0.0
        return score

    def _weigh(self, pod_class: PodClass) -> list[tuple[int, float]]:
        rows = self.session.cluster.table.resources
        found = [(rows[name], weight) for name, _ in pod_class.items if name in rows and (weight := self._resources.get(name, 0))]
        total = sum(weight for _, weight in found)
        return [(row, weight / total) for row, weight in found]
