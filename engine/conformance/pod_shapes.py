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

__all__ = ["read_shape"]

_REQUIRED = "RequiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "PreferredDuringSchedulingIgnoredDuringExecution"


def read_shape(pod: Content, classes: Mapping[str, Content]) -> PodShape:
    """Read a pod's shape.

    Args:
        pod: the pod.
        classes: priority classes by name: a pod that names one and no priority has its value.
    """
    affinity = pod.get("affinity") or {}
    nodes, near, apart = (_at(affinity, name) or {} for name in ("NodeAffinity", "PodAffinity", "PodAntiAffinity"))
    required = _at(nodes, _REQUIRED)
    named = classes.get(pod.get("priority_class") or "") or {}
    priority = pod.get("priority")
    requests = {name: int(amount) for name, amount in read_amounts(pod.get("req") or {}).items()}
    return PodShape(
        requests=pairs(requests),
        node_selector=pairs(pod.get("node_selector") or {}),
        required_nodes=None if required is None else tuple(map(_node_term, _at(required, "NodeSelectorTerms") or ())),
        preferred_nodes=tuple(
            PreferredNodes(_at(one, "Weight") or 0, _node_term(_at(one, "Preference") or {}))
            for one in _at(nodes, _PREFERRED) or ()
        ),
        pod_affinity=tuple(map(_pod_term, _at(near, _REQUIRED) or ())),
        pod_anti_affinity=tuple(map(_pod_term, _at(apart, _REQUIRED) or ())),
        preferred_pods=(*_preferred_pods(near, 1), *_preferred_pods(apart, -1)),
        tolerations=tuple(
            Toleration(_at(one, "Key") or "", _at(one, "Operator") or "Equal", _at(one, "Value") or "", _at(one, "Effect") or "")
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


def _at(content: Content, name: str) -> Any:  # noqa: ANN401 - JSON values
    """Return a field by its name in Go, or in Kubernetes' JSON."""
    return content.get(name, content.get(name[0].lower() + name[1:]))


def _requirements(content: Any) -> tuple[Requirement, ...]:  # noqa: ANN401 - JSON values
    return tuple(
        Requirement(_at(one, "Key"), cast("Any", _at(one, "Operator")), tuple(_at(one, "Values") or ())) for one in content or ()
    )


def _node_term(term: Content) -> NodeTerm:
    return NodeTerm(_requirements(_at(term, "MatchExpressions")), _requirements(_at(term, "MatchFields")))


def _selector(content: Content | None) -> LabelSelector | None:
    if content is None:
        return None
    return LabelSelector(pairs(_at(content, "MatchLabels") or {}), _requirements(_at(content, "MatchExpressions")))


def _pod_term(term: Content) -> PodTerm:
    return PodTerm(
        _at(term, "TopologyKey") or "", _selector(_at(term, "LabelSelector")), tuple(sorted(_at(term, "Namespaces") or ()))
    )


def _preferred_pods(affinity: Content, sign: int) -> Iterator[PreferredPods]:
    for one in _at(affinity, _PREFERRED) or ():
        yield PreferredPods(sign * (_at(one, "Weight") or 0), _pod_term(_at(one, "PodAffinityTerm") or {}))


def _spread(content: Content) -> SpreadConstraint:
    return SpreadConstraint(
        _at(content, "TopologyKey") or "",
        _at(content, "MaxSkew") or 1,
        (_at(content, "WhenUnsatisfiable") or "DoNotSchedule") == "DoNotSchedule",
        _selector(_at(content, "LabelSelector")),
        _at(content, "MinDomains") or 1,
    )
