"""Shape of a pod (`engine.events.pod_shape`), from a pod template or a pod.

Unreadable parts count as absent; validation reports them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast, get_args

from engine.events.pod_shape import (
    HostPort,
    LabelSelector,
    NodeTerm,
    Operator,
    Pairs,
    PodShape,
    PodTerm,
    PreferredNodes,
    PreferredPods,
    Requirement,
    SpreadConstraint,
    Toleration,
    pairs,
)
from engine.kubernetes.reading.fields import mapping, mappings, strings, text, whole
from engine.kubernetes.reading.requests import requests_by_name

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_OPERATORS: Final[frozenset[str]] = frozenset(get_args(Operator))
_READ_BY_PLUGINS: Final = ("volcano.sh/", "scheduling.volcano.sh/")
_SLA: Final = "sla-waiting-time"
_OF_A_JOB: Final = frozenset(
    {
        "volcano.sh/preemptable",
        "volcano.sh/cooldown-time",
        "volcano.sh/revocable-zone",
        "volcano.sh/jdb-min-available",
        "volcano.sh/jdb-max-unavailable",
    }
)
"""Annotations of a job that its pods inherit (Volcano)."""


def plugin_annotations(annotations: object) -> dict[str, str]:
    """Return the annotations of a job or a pod that scheduler plugins use."""
    return {name: value for name, value in strings(annotations).items() if name.startswith(_READ_BY_PLUGINS) or name == _SLA}


def pod_shape(template: object, job_annotations: Mapping[str, str] | None = None) -> PodShape:
    """Return the shape of a pod.

    Args:
        template: pod template or pod, as decoded JSON.
        job_annotations: annotations of its job, some of which its pods inherit.
    """
    pod = mapping(template)
    metadata, spec = mapping(pod.get("metadata")), mapping(pod.get("spec"))
    nodes, near, apart = (
        mapping(mapping(spec.get("affinity")).get(name)) for name in ("nodeAffinity", "podAffinity", "podAntiAffinity")
    )
    given = {name: value for name, value in (job_annotations or {}).items() if name in _OF_A_JOB}
    never = text(spec.get("preemptionPolicy")) == "Never"
    return PodShape(
        requests=pairs({name: amount for name, amount in requests_by_name(spec).items() if amount}),
        node_selector=pairs(strings(spec.get("nodeSelector"))),
        required_nodes=_required_nodes(nodes),
        preferred_nodes=tuple(
            PreferredNodes(whole(one.get("weight")) or 0, _node_term(mapping(one.get("preference"))))
            for one in mappings(nodes.get(_PREFERRED))
        ),
        pod_affinity=tuple(map(_pod_term, mappings(near.get(_REQUIRED)))),
        pod_anti_affinity=tuple(map(_pod_term, mappings(apart.get(_REQUIRED)))),
        preferred_pods=(*_preferred_pods(near, 1), *_preferred_pods(apart, -1)),
        tolerations=tuple(map(_toleration, mappings(spec.get("tolerations")))),
        host_ports=tuple(host_ports(spec)),
        topology_spread=tuple(map(_spread, mappings(spec.get("topologySpreadConstraints")))),
        priority=whole(spec.get("priority")),
        priority_class=text(spec.get("priorityClassName")) or "",
        preemption_policy="Never" if never else "PreemptLowerPriority",
        scheduling_gates=tuple(
            name for gate in mappings(spec.get("schedulingGates")) if (name := text(gate.get("name"))) is not None
        ),
        labels=pairs(strings(metadata.get("labels"))),
        annotations=pairs(given | plugin_annotations(metadata.get("annotations"))),
    )


def _required_nodes(nodes: dict[str, Any]) -> tuple[NodeTerm, ...] | None:
    required = nodes.get(_REQUIRED)
    return None if required is None else tuple(map(_node_term, mappings(mapping(required).get("nodeSelectorTerms"))))


def _node_term(term: dict[str, Any]) -> NodeTerm:
    return NodeTerm(_requirements(term.get("matchExpressions")), _requirements(term.get("matchFields")))


def _requirements(found: object) -> tuple[Requirement, ...]:
    return tuple(
        Requirement(key, cast("Operator", operator), _texts(one.get("values")))
        for one in mappings(found)
        if (key := text(one.get("key"))) is not None and (operator := text(one.get("operator"))) in _OPERATORS
    )


def _texts(found: object) -> tuple[str, ...]:
    return tuple(one for one in found if isinstance(one, str)) if isinstance(found, list) else ()


def _selector(found: object) -> LabelSelector | None:
    if not isinstance(found, dict):
        return None
    return LabelSelector(_labels(found), _requirements(found.get("matchExpressions")))


def _labels(selector: dict[str, Any]) -> Pairs:
    return pairs(strings(selector.get("matchLabels")))


def _pod_term(term: dict[str, Any]) -> PodTerm:
    return PodTerm(
        text(term.get("topologyKey")) or "",
        _selector(term.get("labelSelector")),
        tuple(sorted(_texts(term.get("namespaces")))),
        term.get("namespaceSelector") == {},
    )


def _preferred_pods(affinity: dict[str, Any], sign: int) -> Iterator[PreferredPods]:
    for one in mappings(affinity.get(_PREFERRED)):
        yield PreferredPods(sign * (whole(one.get("weight")) or 0), _pod_term(mapping(one.get("podAffinityTerm"))))


def _toleration(found: dict[str, Any]) -> Toleration:
    return Toleration(
        text(found.get("key")) or "",
        "Exists" if text(found.get("operator")) == "Exists" else "Equal",
        text(found.get("value")) or "",
        text(found.get("effect")) or "",
    )


def host_ports(spec: dict[str, Any]) -> Iterator[HostPort]:
    """Yield the host ports of containers; with host networking every container port is one (Kubernetes)."""
    shared = spec.get("hostNetwork") is True
    for container in mappings(spec.get("containers")):
        for port in mappings(container.get("ports")):
            number = whole(port.get("hostPort")) or (whole(port.get("containerPort")) if shared else None)
            if number:
                protocol, address = text(port.get("protocol")) or "TCP", text(port.get("hostIP"))
                yield HostPort(number, protocol, address) if address else HostPort(number, protocol)


def _spread(found: dict[str, Any]) -> SpreadConstraint:
    return SpreadConstraint(
        text(found.get("topologyKey")) or "",
        whole(found.get("maxSkew")) or 1,
        text(found.get("whenUnsatisfiable")) != "ScheduleAnyway",
        _selector(found.get("labelSelector")),
        whole(found.get("minDomains")) or 1,
    )
