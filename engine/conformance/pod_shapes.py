"""Reads what a case says of a pod: one container's requests, and affinity in Go's spelling of the Kubernetes fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from engine.conformance.content import Content
from engine.events.pod_shape import (
    HostPort,
    LabelSelector,
    NodeTerm,
    PodShape,
    PodTerm,
    PreferredNodes,
    PreferredPods,
    Requirement,
    SpreadConstraint,
    Toleration,
    pairs,
)
from engine.scheduling.model.amounts import read_amounts

__all__ = ["field_of", "read_shape"]

_REQUIRED = "RequiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "PreferredDuringSchedulingIgnoredDuringExecution"


def read_shape(pod: Content, classes: Mapping[str, Content]) -> PodShape:
    """Read a pod's shape.

    Args:
        pod: the pod.
        classes: priority classes by name: a pod that names one and no priority has its value.
    """
    affinity = pod.get("affinity") or {}
    nodes, near, apart = (field_of(affinity, name) or {} for name in ("NodeAffinity", "PodAffinity", "PodAntiAffinity"))
    required = field_of(nodes, _REQUIRED)
    named = classes.get(pod.get("priority_class") or "") or {}
    priority = pod.get("priority")
    requests = {name: int(amount) for name, amount in read_amounts(pod.get("req") or {}).items()}
    return PodShape(
        requests=pairs(requests),
        node_selector=pairs(pod.get("node_selector") or {}),
        required_nodes=None if required is None else tuple(map(_node_term, field_of(required, "NodeSelectorTerms") or ())),
        preferred_nodes=tuple(
            PreferredNodes(field_of(one, "Weight") or 0, _node_term(field_of(one, "Preference") or {}))
            for one in field_of(nodes, _PREFERRED) or ()
        ),
        pod_affinity=tuple(map(_pod_term, field_of(near, _REQUIRED) or ())),
        pod_anti_affinity=tuple(map(_pod_term, field_of(apart, _REQUIRED) or ())),
        preferred_pods=(*_preferred_pods(near, 1), *_preferred_pods(apart, -1)),
        tolerations=tuple(
            Toleration(
                field_of(one, "Key") or "",
                field_of(one, "Operator") or "Equal",
                field_of(one, "Value") or "",
                field_of(one, "Effect") or "",
            )
            for one in pod.get("tolerations") or ()
        ),
        host_ports=tuple(HostPort(port) for port in pod.get("host_ports") or ()),
        topology_spread=tuple(map(_spread, pod.get("topology_spread_constraints") or ())),
        priority=named.get("value") if priority is None else priority,
        priority_class=pod.get("priority_class") or "",
        preemption_policy=pod.get("preemption_policy") or "PreemptLowerPriority",
        scheduling_gates=tuple(pod.get("scheduling_gates") or ()),
        labels=pairs(pod.get("labels") or {}),
        annotations=pairs(pod.get("annotations") or {}),
    )


def field_of(content: Content, name: str) -> Any:  # noqa: ANN401 - JSON values
    """Return a field by its name in Go, or in Kubernetes' JSON."""
    return content.get(name, content.get(name[0].lower() + name[1:]))


def _requirements(content: Any) -> tuple[Requirement, ...]:  # noqa: ANN401 - JSON values
    return tuple(
        Requirement(field_of(one, "Key"), cast("Any", field_of(one, "Operator")), tuple(field_of(one, "Values") or ()))
        for one in content or ()
    )


def _node_term(term: Content) -> NodeTerm:
    return NodeTerm(_requirements(field_of(term, "MatchExpressions")), _requirements(field_of(term, "MatchFields")))


def _selector(content: Content | None) -> LabelSelector | None:
    if content is None:
        return None
    return LabelSelector(pairs(field_of(content, "MatchLabels") or {}), _requirements(field_of(content, "MatchExpressions")))


def _pod_term(term: Content) -> PodTerm:
    return PodTerm(
        field_of(term, "TopologyKey") or "",
        _selector(field_of(term, "LabelSelector")),
        tuple(sorted(field_of(term, "Namespaces") or ())),
    )


def _preferred_pods(affinity: Content, sign: int) -> Iterator[PreferredPods]:
    for one in field_of(affinity, _PREFERRED) or ():
        yield PreferredPods(sign * (field_of(one, "Weight") or 0), _pod_term(field_of(one, "PodAffinityTerm") or {}))


def _spread(content: Content) -> SpreadConstraint:
    return SpreadConstraint(
        field_of(content, "TopologyKey") or "",
        field_of(content, "MaxSkew") or 1,
        (field_of(content, "WhenUnsatisfiable") or "DoNotSchedule") == "DoNotSchedule",
        _selector(field_of(content, "LabelSelector")),
        field_of(content, "MinDomains") or 1,
    )
