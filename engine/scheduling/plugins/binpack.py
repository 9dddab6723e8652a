"""Binpack: fill nodes that are in use before others."""

from __future__ import annotations

from typing import ClassVar, Final

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
        self._of_class: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}

    def node_order(self, pod_class: PodClass, rows: Rows) -> Scores | None:
        """Score by the weighted mean of what would be used of each weighted resource that is asked for.

        Volcano: a node that would have less than nothing left of one of them has 0; a resource without a weight is passed over.
        """
        table = self.session.cluster.table
        key = (pod_class.number, table.layout)
        found = self._of_class.get(key)
        if found is None:
            weighed = [(table.resources[name], self._resources[name]) for name, _ in pod_class.items if name in self._resources]
            columns = np.array([column for column, _ in weighed], np.intp)
            weights = np.array([weight for _, weight in weighed])
            found = self._of_class[key] = (columns, weights / weights.sum() if weights.sum() else weights)
        columns, weights = found
        if not self._weight or not len(columns):
            return None
        has = rows.allocatable(columns)
        used = has - rows.idle(columns) + pod_class.vector[columns, None]
        score = weights @ (used / np.maximum(has, 1))
        score[(used > has).any(axis=0)] = 0.0
        score *= self._weight * _BEST
        return np.asarray(score)
