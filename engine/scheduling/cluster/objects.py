"""Conversion of cluster facts into the model: nodes, queues, quotas, budgets of disruptions, weights and priorities.

An object that cannot be read, which no edge lets through, counts as absent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from engine.events.inputs import NodeObserved, ObjectApplied
from engine.events.pod_shape import LabelSelector, Requirement, pairs
from engine.events.times import SECOND, Micros
from engine.kubernetes.observation.cluster_facts import ClusterFacts
from engine.scheduling.cluster.amounts import CPU, LARGEST, MEMORY, PODS, Amounts, read_amounts
from engine.scheduling.cluster.budgets import Budget, Quota
from engine.scheduling.cluster.entities import ONE_POD, Node, Taint
from engine.scheduling.cluster.notices import Tenant
from engine.scheduling.cluster.queues import Queue

IMPLIED_QUEUES: Final = ("root", "default")
"""Queues that exist undeclared: the root, and the default queue of jobs that name none (Volcano)."""

GPU: Final = "nvidia.com/gpu"

_NOT_READY: Final = Taint("node.kubernetes.io/not-ready")
_HIERARCHY: Final = "volcano.sh/hierarchy"
_WEIGHTS: Final = "volcano.sh/hierarchy-weights"
_LONGEST: Final = 10**9
"""Seconds."""
_BROKEN: Final = (ValueError, TypeError, AttributeError, KeyError)


def node_of(seen: NodeObserved) -> Node:
    """Return a node; one that is not ready has the taint `not-ready` (Kubernetes)."""
    amounts: Amounts = {CPU: seen.cpu_milli, MEMORY: seen.memory_bytes, PODS: seen.pods * ONE_POD, GPU: seen.gpu * 1000}
    taints = tuple(Taint(taint.key, taint.value, taint.effect) for taint in seen.taints)
    if seen.ready != "True" and not any(taint.key == _NOT_READY.key for taint in taints):
        taints = (*taints, _NOT_READY)
    allocatable = {name: min(amount, LARGEST) for name, amount in {**amounts, **seen.resources}.items()}
    return Node(seen.name, allocatable, dict(seen.labels), taints, unschedulable=seen.unschedulable)


def queue_of(name: str, given: ObjectApplied | None) -> Queue | None:
    """Return a queue; `None`: it does not exist."""
    if given is None:
        return Queue(name) if name in IMPLIED_QUEUES else None
    spec = given.spec
    try:
        return Queue(
            name,
            int(spec.get("weight", 1)),
            spec.get("state") or "",
            read_amounts(spec.get("capability") or {}),
            read_amounts((spec.get("guarantee") or {}).get("resource") or {}),
            read_amounts(spec.get("deserved") or {}),
            int(spec.get("priority", 0)),
            spec.get("reclaimable") is not False,
            spec.get("parent") or "",
            preemption=spec.get("preemption") or "immediate",
            notice_delay=micros(spec.get("preemptionDelaySeconds", 300)),
            reservation=micros(spec.get("reservationSeconds", 60)),
            min_run=micros(spec.get("minRunSeconds") or 0),
            annotations={
                name: spec[key] for name, key in ((_HIERARCHY, "hierarchy"), (_WEIGHTS, "hierarchyWeights")) if spec.get(key)
            },
        )
    except _BROKEN:
        return None


def micros(seconds: int) -> Micros:
    """Return a duration in microseconds, capped at 31 years."""
    return min(int(seconds), _LONGEST) * SECOND


def _objects(facts: ClusterFacts, cluster: str, kind: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield names and specifications of the objects of a kind, sorted by name."""
    yield from sorted(
        (name, given.spec) for (where, found, name), given in facts.objects.items() if where == cluster and found == kind
    )


def quotas_of(facts: ClusterFacts, cluster: str) -> list[Quota]:
    """Return the quotas of a cluster."""
    found = []
    for name, spec in _objects(facts, cluster, "ResourceQuota"):
        try:
            amounts = read_amounts(spec.get("hard") or {}), read_amounts(spec.get("used") or {})
        except _BROKEN:
            continue
        found.append(Quota(name.partition("/")[0], *amounts, scoped=spec.get("scoped") is True))
    return found


def budgets_of(facts: ClusterFacts, cluster: str) -> list[Budget]:
    """Return the pod disruption budgets of a cluster."""
    found = []
    for name, spec in _objects(facts, cluster, "PodDisruptionBudget"):
        if "selector" in spec:
            try:
                found.append(Budget(name.partition("/")[0], _selector(spec["selector"]), int(spec.get("disruptionsAllowed", 0))))
            except _BROKEN:
                continue
    return found


def _selector(spec: Mapping[str, Any]) -> LabelSelector:
    requirements = tuple(
        Requirement(one["key"], one["operator"], tuple(one.get("values") or ())) for one in spec.get("matchExpressions") or ()
    )
    return LabelSelector(pairs(spec.get("matchLabels") or {}), requirements)


def weights_of(facts: ClusterFacts, cluster: str) -> dict[str, int]:
    """Return the weight of each namespace: of the tenant of that name, else the largest of its quotas."""
    found: dict[str, int] = {}
    for name, spec in _objects(facts, cluster, "ResourceQuota"):
        weight, namespace = spec.get("weight"), name.partition("/")[0]
        if isinstance(weight, int) and weight > found.get(namespace, 0):
            found[namespace] = weight
    for name, spec in _objects(facts, cluster, "Tenant"):
        weight = spec.get("weight")
        if isinstance(weight, int) and weight > 0:
            found[name] = weight
    return found


def tenants_of(facts: ClusterFacts, cluster: str) -> dict[str, Tenant]:
    """Return priority and rights of tenants; an absent tenant has priority 0 and may not preempt."""
    found = {}
    for name, spec in _objects(facts, cluster, "Tenant"):
        priority = spec.get("priority")
        found[name] = Tenant(priority if isinstance(priority, int) else 0, spec.get("mayPreempt") is True)
    return found


class Priorities:
    """Values of the priority classes of a cluster."""

    def __init__(self, facts: ClusterFacts, cluster: str) -> None:
        self._values: dict[str, int] = {}
        self._default: int | None = None
        for name, spec in _objects(facts, cluster, "PriorityClass"):
            value = spec.get("value")
            if isinstance(value, int):
                self._values[name] = value
                if spec.get("globalDefault") is True and self._default is None:
                    self._default = value

    def value(self, name: str | None) -> int | None:
        """Return the value of a class; without a known class the default's; `None`: there is no default."""
        return self._values.get(name or "", self._default)
