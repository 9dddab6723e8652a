"""Rules for requests and limits, of containers and of whole pods (Kubernetes: resource validation)."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Final

from engine.events.outcomes import Fault
from engine.kubernetes.errors import QuantityError
from engine.kubernetes.manifests.names import qualified_name_fault
from engine.kubernetes.manifests.pod_shapes import Container, PodSpec, Resources
from engine.kubernetes.reading.quantity import parse_quantity
from engine.kubernetes.reading.shapes import child, read_shape

_STANDARD: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_POD_LEVEL: Final = frozenset({"cpu", "memory"})
_HUGE_PAGES: Final = "hugepages-"


def resource_faults(resources: Resources | None, path: str) -> Iterator[Fault]:
    """Validate a container's requests and limits.

    Quantities must be valid and not negative, a request at most its limit. A resource that cannot be overcommitted (devices, huge
    pages) needs a limit equal to the request; devices are whole numbers.
    """
    if resources is None:
        return
    requests, limits = resources.requests or {}, resources.limits or {}
    for field, amounts in (("limits", limits), ("requests", requests)):
        for name, quantity in amounts.items():
            yield from _quantity_faults(name, quantity, child(path, field, name))
    for name, quantity in requests.items():
        asked, allowed = readable_quantity(quantity), readable_quantity(limits.get(name))
        where = child(path, "requests", name)
        if asked is None:
            continue
        if name not in limits:
            if not _overcommits(name):
                yield Fault(child(path, "limits", name), "is required, because this resource cannot be overcommitted")
        elif allowed is not None and asked > allowed:
            yield Fault(where, f"must be at most the limit, {limits[name]}")
        elif allowed is not None and asked != allowed and not _overcommits(name):
            yield Fault(where, f"must equal the limit, {limits[name]}, because this resource cannot be overcommitted")


def pod_level_faults(spec: PodSpec, path: str) -> Iterator[Fault]:
    """Validate the resources of the whole pod: each request covers its containers' requests and is at most its limit.

    Args:
        spec: specification of the pod; its `resources` are validated only here, because clusters without this feature ignore them.
        path: path of `resources`.
    """
    given = (spec.model_extra or {}).get("resources")
    if given is None:
        return
    resources, faults = read_shape(Resources, given, path)
    yield from faults
    if resources is None:
        return
    yield from resource_faults(resources, path)
    for field, amounts in (("limits", resources.limits or {}), ("requests", resources.requests or {})):
        for name in amounts:
            if name not in _POD_LEVEL and not name.startswith(_HUGE_PAGES):
                yield Fault(child(path, field, name), "only cpu, memory and huge pages can be given for a whole pod")
    for name, quantity in (resources.requests or {}).items():
        needed = _needed(spec, name)
        amount = readable_quantity(quantity)
        if amount is not None and amount < needed:
            yield Fault(child(path, "requests", name), "must be at least what the containers request together")
    for name, quantity in (resources.limits or {}).items():
        amount = readable_quantity(quantity)
        if amount is not None and any(amount < _limit(container, name) for container in spec.containers or []):
            yield Fault(child(path, "limits", name), "must be at least the limit of each container")


def readable_quantity(value: object) -> Fraction | None:
    """Return a quantity; `None` if it is missing or invalid."""
    try:
        return parse_quantity(value)
    except QuantityError:
        return None


def _quantity_faults(name: str, quantity: object, path: str) -> Iterator[Fault]:
    standard = name in _STANDARD or name.startswith(_HUGE_PAGES)
    if message := qualified_name_fault(name):
        yield Fault(path, f"the name of a resource {message}")
    elif not standard and "/" not in name:
        yield Fault(path, "is no resource of containers: write cpu, memory, ephemeral-storage, hugepages-SIZE or DOMAIN/NAME")
    try:
        amount = parse_quantity(quantity)
    except QuantityError as error:
        yield Fault(path, str(error))
        return
    if amount < 0:
        yield Fault(path, "must be at least 0")
    elif amount.denominator != 1 and not standard and not _overcommits(name):
        yield Fault(path, "must be a whole number")


def _overcommits(name: str) -> bool:
    native = "/" not in name or "kubernetes.io/" in name
    return native and not name.startswith(_HUGE_PAGES)


def _needed(spec: PodSpec, name: str) -> Fraction:
    """Return the sum over containers and sidecars, or the peak during the init containers if it is larger."""
    together = sum((_request(container, name) for container in spec.containers or []), Fraction(0))
    sidecars = peak = Fraction(0)
    for container in spec.init_containers or []:
        if container.restart_policy == "Always":
            sidecars += _request(container, name)
        else:
            peak = max(peak, sidecars + _request(container, name))
    return max(together + sidecars, peak)


def _request(container: Container, name: str) -> Fraction:
    resources = container.resources or Resources()
    return _amount(resources.requests if name in (resources.requests or {}) else resources.limits, name)


def _limit(container: Container, name: str) -> Fraction:
    return _amount((container.resources or Resources()).limits, name)


def _amount(amounts: dict[str, Any] | None, name: str) -> Fraction:
    return readable_quantity((amounts or {}).get(name)) or Fraction(0)
