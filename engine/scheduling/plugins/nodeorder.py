"""Nodeorder: score nodes as Kubernetes does, by what is left of them, by preferences and by taints."""

from __future__ import annotations

from typing import ClassVar, Final

import numpy as np

from engine.events.pod_shape import PodTerm
from engine.scheduling.answers import Mask, Rows, Scores
from engine.scheduling.configuration import PluginOption
from engine.scheduling.model.amounts import CPU, MEMORY
from engine.scheduling.model.entities import PodClass
from engine.scheduling.model.presence import by_domain
from engine.scheduling.model.selectors import node_terms, pod_term_matches, tolerated
from engine.scheduling.session import Plugin

__all__ = ["NodeOrder"]

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
    """Kubernetes' scores, each from 0 to 100 times its weight (Volcano `nodeorder`). Images are not known, so not scored."""

    NAME: ClassVar[str] = "nodeorder"

    def __init__(self, option: PluginOption) -> None:
        super().__init__(option)
        self._weights = {name: option.arguments.number(f"{name}.weight", weight) for name, weight in _WEIGHTS.items()}

    def node_order(self, pod_class: PodClass, rows: Rows) -> Scores | None:
        """Score by CPU and memory: how much is left, how much is used, how evenly."""
        least, most, balanced = (self._weights[name] for name in ("leastrequested", "mostrequested", "balancedresource"))
        if not (least or most or balanced):
            return None
        resources = self.session.cluster.table.resources
        columns = np.array([resources[CPU], resources[MEMORY]], np.intp)
        has = rows.allocatable(columns)
        left = (rows.idle(columns) - pod_class.vector[columns, None]) / np.maximum(has, 1)
        cpu, memory = np.maximum(left, 0.0)
        mean = (cpu + memory) * 0.5
        score = (least - most) * mean
        if balanced:
            # The standard deviation of two numbers is half their difference.
            score -= balanced * 0.5 * np.abs(cpu - memory)
        return np.asarray(_BEST * (score + (most + balanced)))

    def batch_node_order(self, pod_class: PodClass, namespace: str, feasible: Mask) -> Scores | None:
        """Score by preferences of nodes and pods, taints that are only discouraged, and even spreading.

        Each is scaled so that the best of the feasible nodes has 100; what is the same for all nodes is left out.
        """
        parts = [
            (self._weights["nodeaffinity"], self._preferred_nodes(pod_class)),
            (self._weights["tainttoleration"], self._taints(pod_class)),
            (self._weights["podaffinity"], self._preferred_pods(pod_class, namespace)),
            (self._weights["podtopologyspread"], self._spread(pod_class, namespace)),
        ]
        score: Scores | None = None
        for weight, raw in parts:
            if weight and raw is not None and feasible.any():
                low, high = raw[feasible].min(), raw[feasible].max()
                if high > low:
                    part = weight * _BEST * (raw - low) / (high - low)
                    score = part if score is None else score + part
        return score

    def _preferred_nodes(self, pod_class: PodClass) -> Scores | None:
        preferred = pod_class.shape.preferred_nodes
        if not preferred:
            return None
        table = self.session.cluster.table
        return np.asarray(np.sum([one.weight * node_terms(table, [one.term]) for one in preferred], axis=0), np.float64)

    def _taints(self, pod_class: PodClass) -> Scores | None:
        tolerations = [one for one in pod_class.shape.tolerations if one.effect in {"", "PreferNoSchedule"}]
        raw = self.session.cluster.table.by_taints(
            lambda taints: -sum(taint.effect == "PreferNoSchedule" and not tolerated(taint, tolerations) for taint in taints)
        )
        return raw if raw.any() else None

    def _preferred_pods(self, pod_class: PodClass, namespace: str) -> Scores | None:
        preferred = pod_class.shape.preferred_pods
        if not preferred:
            return None
        return np.asarray(np.sum([one.weight * self._near(one.term, namespace) for one in preferred], axis=0))

    def _near(self, term: PodTerm, namespace: str) -> Scores:
        """Return how many pods that a term matches share a domain with each node."""
        cluster = self.session.cluster
        cluster.presence.start(cluster.table)
        counts = cluster.presence.count(lambda kind: pod_term_matches(term, namespace, kind), len(cluster.table.nodes))
        return by_domain(counts, cluster.table.column(term.topology_key))[0].astype(np.float64)

    def _spread(self, pod_class: PodClass, namespace: str) -> Scores | None:
        soft = [one for one in pod_class.shape.topology_spread if not one.required]
        if not soft:
            return None
        return np.asarray(-np.sum([self._near(PodTerm(one.topology_key, one.selector), namespace) for one in soft], axis=0))
