"""Nodeorder: Kubernetes' scores of nodes, by free resources, preferences and taints.

Extension points: `node_order`, `batch_node_order`.
"""

from __future__ import annotations

from typing import ClassVar, Final
from weakref import WeakKeyDictionary

import numpy as np

from engine.events.pod_shape import PodTerm
from engine.scheduling.cluster.entities import PodClass
from engine.scheduling.cluster.presence import by_domain
from engine.scheduling.cluster.selectors import node_terms, pod_term_matches, tolerated
from engine.scheduling.configuration import PluginOption
from engine.scheduling.plugin_results import Preference, Rows, Scores
from engine.scheduling.session import Plugin

_BEST: Final = 100.0
_WEIGHTS: Final = {
    "leastrequested": 1,
    "mostrequested": 0,
    "balancedresource": 1,
    "nodeaffinity": 2,
    "podaffinity": 2,
    "tainttoleration": 3,
    "podtopologyspread": 2,
}


class NodeOrder(Plugin):
    """Kubernetes' scores, each from 0 to 100 times its weight (Volcano `nodeorder`). Images are not observed, so not scored."""

    NAME: ClassVar[str] = "nodeorder"
    SCORES_ONE_NODE = True

    def __init__(self, option: PluginOption) -> None:
        super().__init__(option)
        self._weights = {name: option.arguments.number(f"{name}.weight", weight) for name, weight in _WEIGHTS.items()}
        self._static_of: WeakKeyDictionary[PodClass, tuple[int, list[Preference]]] = WeakKeyDictionary()
        """Class → layout of the table, preferences that depend on nodes alone."""

    def node_order(self, pod_class: PodClass, rows: Rows) -> Scores | None:
        """Score by CPU and memory: least and most allocated, balanced allocation."""
        del pod_class
        least, most, balanced = (self._weights[name] for name in ("leastrequested", "mostrequested", "balancedresource"))
        if not (least or most or balanced):
            return None
        # CPU and memory are the first resources of every table.
        cpu, memory = ((left + abs(left)) * 0.5 for left in rows.left[:2])  # at least 0
        score = (cpu + memory) * ((least - most) * 0.5)
        if balanced:
            # The standard deviation of two numbers is half their difference.
            score = score - abs(cpu - memory) * (balanced * 0.5)
        scores: Scores = (score + (most + balanced)) * _BEST
        return scores

    def batch_node_order(self, pod_class: PodClass, namespace: str) -> list[Preference]:
        """Score by preferred node and pod affinity, PreferNoSchedule taints, and topology spread."""
        shape = pod_class.shape
        found: list[Preference] = []
        layout = self.session.cluster.table.layout
        static = self._static_of.get(pod_class)
        if static is None or static[0] != layout:
            static = self._static_of[pod_class] = (layout, self._static(pod_class))
        found += static[1]
        if shape.preferred_pods:
            found.append((self._weights["podaffinity"], self._preferred_pods(pod_class, namespace)))
        soft = [one for one in shape.topology_spread if not one.required]
        if soft:
            counts = [self._near(PodTerm(one.topology_key, one.selector), namespace) for one in soft]
            found.append((self._weights["podtopologyspread"], -np.sum(counts, axis=0)))
        return found

    def _static(self, pod_class: PodClass) -> list[Preference]:
        """Return preferences that depend on nodes alone."""
        table, shape = self.session.cluster.table, pod_class.shape
        found: list[Preference] = []
        if shape.preferred_nodes:
            raw = np.sum([one.weight * node_terms(table, [one.term]) for one in shape.preferred_nodes], axis=0)
            found.append((self._weights["nodeaffinity"], raw.astype(np.float64)))
        tolerations = [one for one in shape.tolerations if one.effect in {"", "PreferNoSchedule"}]
        taints = table.by_taints(
            lambda taints: -sum(taint.effect == "PreferNoSchedule" and not tolerated(taint, tolerations) for taint in taints)
        )
        if taints.any():
            found.append((self._weights["tainttoleration"], taints))
        return found

    def _preferred_pods(self, pod_class: PodClass, namespace: str) -> Scores:
        return np.asarray(np.sum([one.weight * self._near(one.term, namespace) for one in pod_class.shape.preferred_pods], axis=0))

    def _near(self, term: PodTerm, namespace: str) -> Scores:
        """Return by node the number of pods in its domain that a term matches."""
        cluster = self.session.cluster
        cluster.presence.start(cluster.table)
        counts = cluster.presence.count(lambda kind: pod_term_matches(term, namespace, kind), len(cluster.table.nodes))
        return by_domain(counts, cluster.table.column(term.topology_key))[0].astype(np.float64)
