"""Rules for queues, from Volcano's admission: of one queue alone, and of one in its hierarchy.

Volcano reads a hierarchy for plugin `drf` from two annotations, and one for plugin `capacity` from `spec.parent`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from math import isfinite
from typing import Any, Final

from engine.events.bounds import QUEUE_DEPTH
from engine.events.outcomes import Fault
from engine.kubernetes.reading.quantity import parse_quantity
from engine.kubernetes.reading.shapes import child

HIERARCHY: Final = "volcano.sh/hierarchy"
HIERARCHY_WEIGHTS: Final = "volcano.sh/hierarchy-weights"
CLOSED_BY_PARENT: Final = "volcano.sh/closed-by-parent"
"""Annotation of a queue that was closed with its parent, and reopens with it."""
ROOT: Final = "root"
"""Name of the root queue, which exists without being applied."""

Spec = Mapping[str, Any]
"""`spec` of a queue, as in `lahar.object.applied`."""


def rooted(hierarchy: str, weights: str) -> tuple[str, str]:
    """Return a path and its weights with the root, which may be omitted in the annotations."""
    if not hierarchy or hierarchy.partition("/")[0] == ROOT:
        return hierarchy, weights
    return f"{ROOT}/{hierarchy}", f"1/{weights}"


def annotation_faults(hierarchy: str, weights: str) -> Iterator[Fault]:
    """Validate a queue's hierarchy annotations."""
    if not hierarchy and not weights:
        return
    path = "metadata.annotations"
    if len(hierarchy.split("/")) != len(weights.split("/")):
        yield Fault(path, f"{HIERARCHY} must have the same length with {HIERARCHY_WEIGHTS}")
        return
    for weight in weights.split("/"):
        try:
            number = float(weight)
        except ValueError:
            number = float("nan")
        if not isfinite(number):
            yield Fault(path, f"{weight} in the {weights} is invalid number")
        elif number <= 0:
            yield Fault(path, f"{weight} in the {weights} must be larger than 0")


def tree_faults(name: str, queues: Mapping[str, Spec]) -> Iterator[Fault]:
    """Validate a queue in the hierarchy of its cluster.

    Args:
        name: name of the queue.
        queues: `spec` by name of all queues, including this one.
    """
    yield from _path_faults(name, queues)
    fault = _parent_fault(name, queues)
    if fault is not None:
        yield fault
        return
    below = [other for other, spec in queues.items() if other not in {name, ROOT} and _parent(spec) == name]
    if name != ROOT:
        yield from _capability_faults(name, queues)
    for other in below:
        for found in _capability_faults(other, queues):
            yield Fault("spec.capability", f"queue {other} below it: {found.message}")
    for summed in (name, _parent(queues[name])):
        if summed in queues and (summed == name or name != ROOT):
            yield from _sum_faults(summed, queues)


def _path_faults(name: str, queues: Mapping[str, Spec]) -> Iterator[Fault]:
    path = queues[name].get("hierarchy", "")
    for other, spec in sorted(queues.items()):
        theirs = spec.get("hierarchy", "")
        if path and theirs and other != name and theirs.startswith(f"{path}/"):
            yield Fault("metadata.annotations", f"{path} is not allowed to be in the sub path of {theirs} of queue {other}")
        elif path and theirs and other != name and path.startswith(f"{theirs}/"):
            yield Fault("metadata.annotations", f"{theirs} of queue {other} is not allowed to be in the sub path of {path}")


def _parent_fault(name: str, queues: Mapping[str, Spec]) -> Fault | None:
    above, at = [name], ROOT if name == ROOT else _parent(queues[name])
    while at != ROOT:
        if at == above[-1]:
            return Fault("spec.parent", f"queue {at} cannot use itself as parent")
        if at in above:
            return Fault("spec.parent", f"queue {at} stands above itself: {' → '.join([*above, at])}")
        if at not in queues:
            return Fault("spec.parent", f"failed to get parent queue of queue {above[-1]}: there is no queue {at!r}")
        if len(above) >= QUEUE_DEPTH:
            return Fault("spec.parent", f"queue {name} is more than {QUEUE_DEPTH} queues below the root")
        above.append(at)
        at = _parent(queues[at])
    return None


def _capability_faults(name: str, queues: Mapping[str, Spec]) -> Iterator[Fault]:
    """Compare a queue's capability with that of the nearest ancestor that limits the resource."""
    for resource, amount in (queues[name].get("capability") or {}).items():
        at = _parent(queues[name])
        while at in queues:
            limit = (queues[at].get("capability") or {}).get(resource)
            if limit is not None:
                if parse_quantity(amount) > parse_quantity(limit):
                    message = f"capability of {resource} ({amount}) exceeds that of queue {at} above it ({limit})"
                    yield Fault(child("spec", "capability", resource), message)
                break
            if at == ROOT:
                break
            at = _parent(queues[at])


def _sum_faults(name: str, queues: Mapping[str, Spec]) -> Iterator[Fault]:
    """Compare a queue's deserved and guaranteed resources with the sums over its children."""
    below = [spec for other, spec in queues.items() if other not in {name, ROOT} and _parent(spec) == name]
    for field, amounts in (("guarantee", _guarantee), ("deserved", _deserved)):
        for resource, amount in amounts(queues[name]).items():
            total = sum((parse_quantity(amounts(spec).get(resource, 0)) for spec in below), Fraction(0))
            if total > parse_quantity(amount):
                message = f"{field} of {resource} of the queues below {name} ({float(total):g}) exceeds its own ({amount})"
                yield Fault(child("spec", field, resource), message)


def _guarantee(spec: Spec) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (spec.get("guarantee") or {}).get("resource") or {}
    return found


def _deserved(spec: Spec) -> Mapping[str, Any]:
    return spec.get("deserved") or {}


def _parent(spec: Spec) -> str:
    return spec.get("parent") or ROOT
