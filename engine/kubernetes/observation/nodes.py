"""Projection of a node object to an input."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final, Literal, cast

from engine.events.inputs import NodeDeleted, NodeObserved, Taint
from engine.kubernetes.errors import ProjectionError, QuantityError
from engine.kubernetes.reading.accelerators import BUILT_IN, NVIDIA, Accelerators
from engine.kubernetes.reading.fields import mapping, mappings, strings, text
from engine.kubernetes.reading.quantity import LARGEST, bytes_, milli, parse_quantity

_OWN: Final = frozenset({"cpu", "memory", "pods"})
"""Resources with fields of their own."""
_MODELS: Final = ("nvidia.com/gpu.product", "amd.com/gpu.product-name", "gpu.intel.com/product")
"""Labels with the model of a node's GPUs."""
_UNREACHABLE: Final = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})


def observe_node(node: dict[str, Any], accelerators: Accelerators = BUILT_IN) -> NodeObserved:
    """Project a node object.

    Its size is `allocatable`, otherwise `capacity`. Without a readable condition Ready it counts as ready.

    Args:
        node: the object as decoded JSON.
        accelerators: table of the resources that are GPUs.

    Raises:
        ProjectionError: `metadata.name` is missing.
    """
    metadata, spec, status = (mapping(node.get(part)) for part in ("metadata", "spec", "status"))
    labels = strings(metadata.get("labels"))
    size = mapping(status.get("allocatable")) or mapping(status.get("capacity"))
    resources = {name: amount for name in size if isinstance(name, str) and name not in _OWN and (amount := _milli(size, name))}
    gpu = min(accelerators.cards(resources, 1000), LARGEST)
    if resources.get(NVIDIA, 0) != gpu * 1000:
        resources.setdefault(NVIDIA, 0)
    return NodeObserved(
        name=_name(metadata),
        version=text(metadata.get("resourceVersion")),
        ready=_ready(status),
        unreachable=any(text(taint.get("key")) in _UNREACHABLE for taint in mappings(spec.get("taints"))),
        unschedulable=spec.get("unschedulable") is True,
        cpu_milli=milli(_amount(size, "cpu")),
        memory_bytes=bytes_(_amount(size, "memory")),
        gpu=gpu,
        pods=bytes_(_amount(size, "pods")),
        type=labels.get("node.kubernetes.io/instance-type") or labels.get("beta.kubernetes.io/instance-type"),
        gpu_model=next((labels[name] for name in _MODELS if name in labels), None),
        labels=labels,
        uid=text(metadata.get("uid")),
        resources=resources,
        taints=[
            Taint(key, text(taint.get("value")) or "", text(taint.get("effect")) or "NoSchedule")
            for taint in mappings(spec.get("taints"))
            if (key := text(taint.get("key"))) is not None
        ],
    )


def delete_node(node: dict[str, Any]) -> NodeDeleted:
    """Return the deletion of a node object.

    Raises:
        ProjectionError: `metadata.name` is missing.
    """
    metadata = mapping(node.get("metadata"))
    return NodeDeleted(_name(metadata), text(metadata.get("resourceVersion")), text(metadata.get("uid")))


def _name(metadata: dict[str, Any]) -> str:
    name = text(metadata.get("name"))
    if name is None:
        raise ProjectionError("metadata.name", "missing")
    return name


def _amount(size: dict[str, Any], name: str) -> Fraction:
    """Return the amount of a resource; 0 if it is absent or unreadable."""
    try:
        return max(Fraction(0), parse_quantity(size.get(name)))
    except QuantityError:
        return Fraction(0)


def _milli(size: dict[str, Any], name: str) -> int:
    return min(milli(_amount(size, name)), LARGEST)


def _ready(status: dict[str, Any]) -> Literal["True", "False", "Unknown"]:
    for condition in mappings(status.get("conditions")):
        if condition.get("type") == "Ready" and condition.get("status") in ("True", "False", "Unknown"):
            return cast("Literal['True', 'False', 'Unknown']", condition["status"])
    return "True"
