"""Reads the pods of cases as equivalent pod templates: one container, affinity in Go's spelling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from engine.conformance.content import Content
from engine.events.pod_shape import PodShape
from engine.kubernetes.reading.pod_shape import pod_shape

_FREE_NAMES: Final = frozenset({"matchLabels"})
"""Fields whose keys users choose."""


def read_shape(pod: Content, classes: Mapping[str, Content]) -> PodShape:
    """Read a pod's shape.

    Args:
        pod: the pod.
        classes: priority classes by name: a pod that names one and no priority has its value.
    """
    container = {
        "resources": {"requests": pod.get("req") or {}},
        "ports": [{"hostPort": port} for port in pod.get("host_ports") or ()],
    }
    spec = {
        "containers": [container],
        "nodeSelector": pod.get("node_selector"),
        "affinity": as_json(pod.get("affinity")),
        "tolerations": as_json(pod.get("tolerations")),
        "topologySpreadConstraints": as_json(pod.get("topology_spread_constraints")),
        "priority": pod.get("priority"),
        "priorityClassName": pod.get("priority_class"),
        "preemptionPolicy": pod.get("preemption_policy"),
        "schedulingGates": [{"name": name} for name in pod.get("scheduling_gates") or ()],
    }
    shape = pod_shape({"metadata": {"labels": pod.get("labels"), "annotations": pod.get("annotations")}, "spec": spec})
    named = classes.get(shape.priority_class)
    return shape if named is None or shape.priority is not None else replace(shape, priority=named.get("value"))


def as_json(content: Any) -> Any:  # noqa: ANN401 - JSON values
    """Return content with field names of Kubernetes' JSON in place of those of Go."""
    if isinstance(content, list):
        return [as_json(one) for one in content]
    if not isinstance(content, dict):
        return content
    fields = {name[:1].lower() + name[1:]: value for name, value in content.items()}
    return {name: value if name in _FREE_NAMES else as_json(value) for name, value in fields.items()}
