"""Binpack: fill nodes that are in use before others.

Extension points: `node_order`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, NamedTuple
from weakref import WeakKeyDictionary

from engine.scheduling.cluster.amounts import CPU, MEMORY
from engine.scheduling.cluster.entities import PodClass
from engine.scheduling.configuration import PluginOption
from engine.scheduling.errors import ConfigurationError
from engine.scheduling.plugin_results import Mask, Rows, Scores
from engine.scheduling.session import Plugin

_BEST: Final = 100.0


class _Weights(NamedTuple):
    """Weights of the resources that a class of pods requests; they add up to one."""

    rows: list[tuple[int, float, Mask | None]]
    """Row of the table, weight, nodes without the resource (`None`: all nodes have some)."""
    known: float
    """Sum of the weights of resources that at least one node has."""


class BinPack(Plugin):
    """Score nodes by their utilisation with the pod on them (Volcano `binpack`).

    Arguments: `binpack.weight`, `binpack.cpu`, `binpack.memory`, all 1; `binpack.resources`: names of further resources,
    separated by commas, each with `binpack.resources.NAME`, 1.
    """

    NAME: ClassVar[str] = "binpack"
    SCORES_ONE_NODE = True

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
        self._of_class: WeakKeyDictionary[PodClass, tuple[int, _Weights]] = WeakKeyDictionary()
        """Class → layout of the table, weights."""

    def node_order(self, pod_class: PodClass, rows: Rows) -> Scores | None:
        """Score nodes by the weighted mean utilisation of the requested resources that have a weight.

        Volcano: a node on which one of them would be exceeded scores 0; a resource that a node lacks counts with its weight as
        unused; a resource without a weight is ignored.

        Scores are summed resource by resource, in a fixed order: a matrix product rounds differently with the number of nodes and
        the processor, so equal nodes would no longer have equal scores.
        """
        layout = self.session.cluster.table.layout
        found = self._of_class.get(pod_class)
        if found is None or found[0] != layout:
            found = self._of_class[pod_class] = (layout, self._weigh(pod_class))
        _, weights = found
        if not (self._weight and weights.rows):
            return None
        used: Any = weights.known
        fits: Any = True
        for row, weight, lacking in weights.rows:
            used = used - weight * rows.left[row]
            holds = rows.after[row] >= 0
            if lacking is not None:
                used = used - weight * lacking[rows.rows]
                holds = holds | lacking[rows.rows]
            fits = holds & fits
        score: Scores = used * (self._weight * _BEST) * fits
        return score

    def _weigh(self, pod_class: PodClass) -> _Weights:
        table = self.session.cluster.table
        asked = {name: weight for name, _ in pod_class.items if (weight := self._resources.get(name, 0))}
        total = sum(asked.values())
        rows = []
        for name, weight in asked.items():
            if name in table.resources:
                row = table.resources[name]
                lacking = table.allocatable[row] == 0
                rows.append((row, weight / total, lacking if lacking.any() else None))
        unknown = sum(weight for name, weight in asked.items() if name not in table.resources)
        return _Weights(rows, 1.0 - unknown / total if total else 0.0)
