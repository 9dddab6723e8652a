"""A plugin for the scheduling stage: of the nodes that a pod can go to, it prefers the cheap ones."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from engine.scheduling.cluster.entities import PodClass
from engine.scheduling.configuration import PluginOption
from engine.scheduling.plugin_results import Rows, Scores
from engine.scheduling.session import Plugin


class Cheapest(Plugin):
    """Scores nodes by the label `example.com/price`, 100 for free and 0 for `cheapest.most` (10) or more; none counts as dear."""

    NAME: ClassVar[str] = "cheapest"

    def __init__(self, option: PluginOption) -> None:
        super().__init__(option)
        self._weight = option.arguments.number("cheapest.weight", 1)
        self._most = option.arguments.number("cheapest.most", 10)

    def node_order(self, pod_class: PodClass, rows: Rows) -> Scores:
        """Score some nodes for pods of one class."""
        del pod_class
        column = self.session.cluster.table.column("example.com/price")
        prices = np.array([self._most if value is None else float(value) for value in column.values])
        return self._weight * 100 * (1 - np.clip(prices / self._most, 0, 1))[column.codes][rows.rows]
