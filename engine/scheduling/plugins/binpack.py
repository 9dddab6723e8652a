"""Binpack: fill nodes that are in use before others."""

from __future__ import annotations

from typing import ClassVar, Final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

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
        self._of_class: WeakKeyDictionary[PodClass, tuple[int, Scores, NDArray[np.intp]]] = WeakKeyDictionary()
        """Class → layout of the table, weights of its resources (they add up to one), those that count."""

    def node_order(self, pod_class: PodClass, rows: Rows) -> Scores | None:
        """Score by the weighted mean of what would be used of each weighted resource that is asked for.

        Volcano: a node that would have less than nothing left of one of them has 0; a resource without a weight is passed over.
        """
        layout = self.session.cluster.table.layout
        found = self._of_class.get(pod_class)
        if found is None or found[0] != layout:
            found = self._of_class[pod_class] = (layout, *self._weigh(pod_class))
        _, weights, columns = found
        if not (self._weight and len(columns)):
            return None
        score = (1.0 - weights @ rows.left) * (self._weight * _BEST)
        score[(rows.after[columns] < 0).any(axis=0)] = 0.0
        return np.asarray(score)

    def _weigh(self, pod_class: PodClass) -> tuple[Scores, NDArray[np.intp]]:
        resources = self.session.cluster.table.resources
        weights = np.zeros(len(resources))
        for name, _ in pod_class.items:
            weights[resources[name]] = self._resources.get(name, 0)
        return weights / (weights.sum() or 1.0), np.flatnonzero(weights)
