"""Shape of a pod for scheduling: its requests, its placement constraints, and the fields that plugins read.

Replicas of a task share one template, so thousands of pods have one shape. Shapes are immutable and compare by value: replicas of
equal shape are filtered and scored once for all. Mappings are tuples of pairs sorted by name, so that equal content is equal and
has the same hash; `pairs` makes them.

Field names and meanings are Kubernetes' (`core/v1` PodSpec), in snake case.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeVar

from statemachines.spec import Amount
from statemachines.value import Value

Pairs = tuple[tuple[str, str], ...]
"""A mapping of names to values, in order of the names."""

V = TypeVar("V")

PREEMPTABLE: Final = "volcano.sh/preemptable"
"""Annotation or label of pods and groups (Volcano)."""
REVOCABLE_ZONE: Final = "volcano.sh/revocable-zone"
"""Annotation of pods, label of nodes (Volcano)."""
TASK_SPEC: Final = "volcano.sh/task-spec"
"""Annotation or label of pods: the name of their task (Volcano)."""

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]


def pairs(mapping: Mapping[str, V]) -> tuple[tuple[str, V], ...]:
    """Return a mapping as sorted pairs."""
    return tuple(sorted(mapping.items()))


def parse_bool(text: str) -> bool:
    """Return the boolean value of a label; text that Go's `strconv.ParseBool` refuses is false (Volcano)."""
    return text in {"1", "t", "T", "true", "TRUE", "True"}


class Requirement(Value):
    """One condition on labels (or on a node's fields)."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()


class NodeTerm(Value):
    """One term of node affinity: all of its requirements must hold. A term without any matches no node."""

    labels: tuple[Requirement, ...] = ()
    """`matchExpressions`."""
    fields: tuple[Requirement, ...] = ()
    """`matchFields`; Kubernetes knows `metadata.name`."""


class PreferredNodes(Value):
    """A node term that adds its weight to a node's score."""

    weight: int
    """1 to 100."""
    term: NodeTerm


class LabelSelector(Value):
    """Selects pods by labels; without conditions all."""

    match_labels: Pairs = ()
    requirements: tuple[Requirement, ...] = ()


class PodTerm(Value):
    """One term of pod affinity or anti-affinity: pods in the same topology domain as the node."""

    topology_key: str
    """Label of nodes whose values are the domains."""
    selector: LabelSelector | None = None
    """`None` matches no pod."""
    namespaces: tuple[str, ...] = ()
    """Empty: the pod's own."""
    all_namespaces: bool = False
    """`namespaceSelector: {}`."""


class PreferredPods(Value):
    """A pod term that adds its weight to the score of a domain's nodes, once for each matching pod there."""

    weight: int
    """1 to 100; negative for anti-affinity."""
    term: PodTerm


class Toleration(Value):
    """Taints that the pod tolerates."""

    key: str = ""
    """Empty with `Exists`: every taint."""
    operator: Literal["Equal", "Exists"] = "Equal"
    value: str = ""
    effect: str = ""
    """Empty: every effect."""


class HostPort(Value):
    """A port of the node that the pod occupies."""

    port: int
    protocol: str = "TCP"
    ip: str = "0.0.0.0"  # noqa: S104 - Kubernetes' word for all addresses; nothing is bound here


class SpreadConstraint(Value):
    """Spread of matching pods over topology domains."""

    topology_key: str
    max_skew: int = 1
    required: bool = True
    """`whenUnsatisfiable: DoNotSchedule`; otherwise it only counts in scores."""
    selector: LabelSelector | None = None
    min_domains: int = 1


class PodShape(Value):
    """A task's pod as scheduling sees it, without fields that differ between replicas."""

    requests: tuple[tuple[str, Amount], ...] = ()
    """Effective requests by resource name: memory in bytes, everything else in thousandths (Volcano). None: best effort."""
    node_selector: Pairs = ()
    required_nodes: tuple[NodeTerm, ...] | None = None
    """Terms of which one must match; `None`: no constraint, empty: no node matches (Kubernetes)."""
    preferred_nodes: tuple[PreferredNodes, ...] = ()
    pod_affinity: tuple[PodTerm, ...] = ()
    """Required."""
    pod_anti_affinity: tuple[PodTerm, ...] = ()
    """Required."""
    preferred_pods: tuple[PreferredPods, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    topology_spread: tuple[SpreadConstraint, ...] = ()
    priority: int | None = None
    """Value of the pod's priority class; `None`: the pod states none."""
    priority_class: str = ""
    preemption_policy: Literal["PreemptLowerPriority", "Never"] = "PreemptLowerPriority"
    scheduling_gates: tuple[str, ...] = ()
    """The pod is not scheduled while it has one."""
    labels: Pairs = ()
    """Labels of the template, without those that name a replica."""
    annotations: Pairs = ()
    """Annotations of the template that plugins read."""

    @property
    def preemptable(self) -> bool:
        """Whether others may take its place: by the annotation, else the label, else yes (Volcano)."""
        for stated in (dict(self.annotations), dict(self.labels)):
            if PREEMPTABLE in stated:
                return parse_bool(stated[PREEMPTABLE])
        return True

    @property
    def revocable_zone(self) -> str:
        """`*`: it may run on revocable nodes; empty: it may not (Volcano).

        It may if the annotation for zones is `*`, or that is absent and the annotation for preemption is true.
        """
        stated = dict(self.annotations)
        if REVOCABLE_ZONE in stated:
            return "*" if stated[REVOCABLE_ZONE] == "*" else ""
        return "*" if parse_bool(stated.get(PREEMPTABLE, "")) else ""

    @property
    def role(self) -> str:
        """The name of its task, by the annotation or the label; empty: none."""
        return dict(self.annotations).get(TASK_SPEC) or dict(self.labels).get(TASK_SPEC) or ""
