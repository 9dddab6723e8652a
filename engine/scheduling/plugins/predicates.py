"""Predicates: filter nodes for a pod by everything but free resources.

Extension points: `predicate`, `pod_predicate`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from typing import ClassVar, Final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from engine.events.pod_shape import HostPort, PodTerm, SpreadConstraint
from engine.scheduling.cluster.entities import PodClass, Taint, Task
from engine.scheduling.cluster.presence import PodKind, by_domain
from engine.scheduling.cluster.selectors import node_terms, pod_term_matches, tolerated
from engine.scheduling.configuration import PluginOption
from engine.scheduling.plugin_results import Mask, Verdict
from engine.scheduling.session import Plugin

_CORDON: Final = Taint("node.kubernetes.io/unschedulable")
_ANY: Final = "0.0.0.0"  # noqa: S104 - nothing is bound here
_KEPT: Final = 1_000
"""Greatest number of classes whose verdicts are cached between rounds: each takes a few bytes per node."""
_SWITCHES: Final = ("NodeAffinity", "NodePorts", "TaintToleration", "PodAffinity", "PodTopologySpread")


class Predicates(Plugin):
    """Kubernetes' filters (Volcano `predicates`).

    Arguments `predicate.NodeAffinityEnable`, `…NodePortsEnable`, `…TaintTolerationEnable`, `…PodAffinityEnable`,
    `…PodTopologySpreadEnable`: all true.
    """

    NAME: ClassVar[str] = "predicates"

    def __init__(self, option: PluginOption) -> None:
        super().__init__(option)
        self._on = {name for name in _SWITCHES if option.arguments.truth(f"predicate.{name}Enable", default=True)}
        self._judged: WeakKeyDictionary[PodClass, tuple[int, list[Verdict]]] = WeakKeyDictionary()
        """Class → layout of the table, verdicts that depend on nodes alone."""

    def predicate(self, pod_class: PodClass) -> list[Verdict]:
        """Filter by cordons, selectors, node affinity and taints: evictions cannot change these."""
        layout = self.session.cluster.table.layout
        judged = self._judged.get(pod_class)
        if judged is None or judged[0] != layout:
            if len(self._judged) >= _KEPT:
                self._judged.clear()
            judged = self._judged[pod_class] = (layout, list(self._judge(pod_class)))
        return judged[1]

    def _judge(self, pod_class: PodClass) -> Iterator[Verdict]:
        table, shape = self.session.cluster.table, pod_class.shape
        if not tolerated(_CORDON, shape.tolerations):
            yield Verdict("NodeUnschedulable", ~table.unschedulable(), resolvable=False)
        if "NodeAffinity" in self._on and shape.node_selector:
            passes = np.ones(len(table.nodes), np.bool_)
            for key, wanted in shape.node_selector:
                column = table.column(key)
                passes &= np.array([value == wanted for value in column.values], np.bool_)[column.codes]
            yield Verdict("NodeSelector", passes, resolvable=False)
        if "NodeAffinity" in self._on and shape.required_nodes is not None:
            yield Verdict("NodeAffinity", node_terms(table, shape.required_nodes), resolvable=False)
        if "TaintToleration" in self._on:
            refused = table.by_taints(
                lambda taints: any(
                    taint.effect in {"NoSchedule", "NoExecute"} and not tolerated(taint, shape.tolerations) for taint in taints
                )
            )
            yield Verdict("Taint", refused == 0, resolvable=False)

    def pod_predicate(self, pod_class: PodClass, namespace: str, without: AbstractSet[Task]) -> Iterator[Verdict]:
        """Filter by ports, pod affinity, anti-affinity and topology spread: these depend on other pods."""
        shape, presence = pod_class.shape, self.session.cluster.presence
        picky = presence.picky
        if not (picky or shape.host_ports or shape.pod_affinity or shape.pod_anti_affinity or shape.topology_spread):
            return
        presence.start(self.session.cluster.table)
        if "NodePorts" in self._on and shape.host_ports:
            taken = self._count(lambda kind: _conflict(shape.host_ports, kind[0].shape.host_ports), without)
            yield Verdict("HostPort", taken == 0)
        if "PodAffinity" in self._on:
            if shape.pod_affinity:
                yield Verdict("PodAffinity", self._near(pod_class, namespace, without), resolvable=False)
            if shape.pod_anti_affinity or any(other.shape.pod_anti_affinity for other in picky):
                yield Verdict("PodAntiAffinity", self._apart(pod_class, namespace, without))
        if "PodTopologySpread" in self._on:
            for constraint in shape.topology_spread:
                if constraint.required:
                    yield Verdict("TopologySpread", self._even(constraint, pod_class, namespace, without))

    def _count(self, matches: Callable[[PodKind], bool], without: AbstractSet[Task]) -> NDArray[np.int64]:
        """Return by node the number of matching pods."""
        cluster = self.session.cluster
        counts = cluster.presence.count(matches, len(cluster.table.nodes))
        for task in without:
            if task.node is not None and task.node.row >= 0 and matches((task.pod_class, task.job.namespace)):
                counts[task.node.row] -= 1
        return counts

    def _in_domain(self, term: PodTerm, namespace: str, without: AbstractSet[Task]) -> tuple[NDArray[np.int64], Mask]:
        """Return by node the number of matching pods in its domain, and whether it has a domain."""
        counts = self._count(lambda kind: pod_term_matches(term, namespace, kind), without)
        return by_domain(counts, self.session.cluster.table.column(term.topology_key))

    def _near(self, pod_class: PodClass, namespace: str, without: AbstractSet[Task]) -> Mask:
        """Filter by affinity: the domain holds a pod that each term matches.

        Kubernetes: the first pod of a group with affinity to itself may go to any domain.
        """
        terms = pod_class.shape.pod_affinity
        found = [self._in_domain(term, namespace, without) for term in terms]
        inside = np.logical_and.reduce([inside for _, inside in found])
        passes: Mask = np.logical_and.reduce([sums > 0 for sums, _ in found]) & inside
        nobody = not any(sums.any() for sums, _ in found)
        if nobody and all(pod_term_matches(term, namespace, (pod_class, namespace)) for term in terms):
            return np.asarray(inside)
        return passes

    def _apart(self, pod_class: PodClass, namespace: str, without: AbstractSet[Task]) -> Mask:
        """Filter by anti-affinity, the pod's own and that of the pods on the nodes."""
        passes = np.ones(len(self.session.cluster.table.nodes), np.bool_)
        for term in pod_class.shape.pod_anti_affinity:
            passes &= self._in_domain(term, namespace, without)[0] == 0
        kinds = [kind for kind, counts in self.session.cluster.presence.kinds() if kind[0].shape.pod_anti_affinity and counts.any()]
        for kind in kinds:
            for term in kind[0].shape.pod_anti_affinity:
                if pod_term_matches(term, kind[1], (pod_class, namespace)):
                    counts = self._count(kind.__eq__, without)
                    passes &= by_domain(counts, self.session.cluster.table.column(term.topology_key))[0] == 0
        return passes

    def _even(self, constraint: SpreadConstraint, pod_class: PodClass, namespace: str, without: AbstractSet[Task]) -> Mask:
        """Filter by spread: with the pod, no domain exceeds the smallest one by more than `max_skew` pods.

        Kubernetes: domains are those of nodes that the pod's selector and affinity admit.
        """
        table, shape = self.session.cluster.table, pod_class.shape
        term = PodTerm(constraint.topology_key, constraint.selector)
        sums, inside = self._in_domain(term, namespace, without)
        eligible = inside.copy()
        for key, wanted in shape.node_selector:
            column = table.column(key)
            eligible &= np.array([value == wanted for value in column.values], np.bool_)[column.codes]
        if shape.required_nodes is not None:
            eligible &= node_terms(table, shape.required_nodes)
        domains = len(set(table.column(constraint.topology_key).codes[eligible].tolist()))
        least = int(sums[eligible].min()) if domains >= constraint.min_domains and eligible.any() else 0
        itself = pod_term_matches(term, namespace, (pod_class, namespace))
        return inside & (sums + itself - least <= constraint.max_skew)


def _conflict(wanted: tuple[HostPort, ...], taken: tuple[HostPort, ...]) -> bool:
    return any(
        one.port == other.port and one.protocol == other.protocol and (one.ip == other.ip or _ANY in {one.ip, other.ip})
        for one in wanted
        for other in taken
    )
