"""ResourceClaims (`resource.k8s.io` v1, v1beta2, v1beta1): devices by device class, as allocated or as requested."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from engine.kubernetes.reading.fields import mapping, mappings, text, whole

__all__ = [
    "RESOURCE_CLAIM",
    "Devices",
    "allocated_devices",
    "is_allocated",
    "is_resource_claim",
    "pods_reserving",
    "requested_devices",
]

RESOURCE_CLAIM: Final = "ResourceClaim"
_GROUP: Final = "resource.k8s.io/"
_MOST: Final = 128
"""Requests of a claim, alternatives of one, or allocated devices, above which a claim is not read; the API has 32, 8 and 32."""
_PODS: Final = 256
"""Pods for which a claim is reserved that are read: as many as the API allows."""
_NAME: Final = 253
"""Characters of a name of Kubernetes."""
_EXACT: Final = frozenset({None, "", "ExactCount"})


class Devices(NamedTuple):
    """Devices of one class."""

    device_class: str
    number: int
    shared: bool = False
    """Each is a share of a device (`shareID`), of a size that the claim does not state."""


class _Request(NamedTuple):
    """One request of a claim, or one alternative of it."""

    device_class: str | None
    number: int | None
    """`None`: all devices of a pool that the driver decides."""
    admin: bool
    """Access for administration, beside whoever uses the device."""


def is_resource_claim(content: dict[str, Any]) -> bool:
    """Return whether an object is a ResourceClaim of Kubernetes."""
    version = content.get("apiVersion")
    return content.get("kind") == RESOURCE_CLAIM and (not isinstance(version, str) or version.startswith(_GROUP))


def is_allocated(claim: dict[str, Any]) -> bool:
    """Return whether devices are allocated to a claim."""
    return isinstance(mapping(claim.get("status")).get("allocation"), dict)


def allocated_devices(claim: dict[str, Any]) -> tuple[Devices, ...] | None:
    """Return the devices that are allocated to a claim; `None`: they cannot be read."""
    results = mapping(mapping(mapping(claim.get("status")).get("allocation")).get("devices")).get("results")
    asked = dict(_requests(claim))
    if isinstance(results, list) and len(results) > _MOST:
        return None
    found: Counter[tuple[str, bool]] = Counter()
    for result in mappings(results):
        request = asked.get(text(result.get("request")) or "")
        if result.get("adminAccess") is True or (request is not None and request.admin):
            continue
        if request is None or request.device_class is None:
            return None
        found[request.device_class, text(result.get("shareID")) is not None] += 1
    return tuple(Devices(name, count, shared) for (name, shared), count in found.items())


def requested_devices(claim: dict[str, Any]) -> tuple[Devices, ...] | None:
    """Return the devices that a claim asks for; `None`: which or how many is decided when they are allocated."""
    found: Counter[str] = Counter()
    asked = dict(_requests(claim))
    for name, request in asked.items():
        if request.admin:
            continue
        if "/" in name or request.device_class is None or request.number is None:
            return None
        found[request.device_class] += request.number
    return tuple(Devices(name, count) for name, count in found.items()) if asked else None


def pods_reserving(claim: dict[str, Any]) -> list[str]:
    """Return the uids of the pods for which a claim is reserved, in order."""
    reserved = mapping(claim.get("status")).get("reservedFor")
    first = mappings(reserved[:_PODS] if isinstance(reserved, list) else None)
    uids = [text(one.get("uid")) for one in first if one.get("resource") == "pods"]
    return [uid for uid in uids if uid is not None and len(uid) <= _NAME]


def _requests(claim: dict[str, Any]) -> Iterator[tuple[str, _Request]]:
    """Yield the requests of a claim by name, alternatives of one as `request/alternative`; none if they are too many."""
    requests = mapping(mapping(claim.get("spec")).get("devices")).get("requests")
    if not isinstance(requests, list) or len(requests) > _MOST:
        return
    for request in mappings(requests):
        name = text(request.get("name")) or ""
        alternatives = request.get("firstAvailable")
        if isinstance(alternatives, list) and alternatives:
            for alternative in mappings(alternatives[:_MOST]):
                yield f"{name}/{text(alternative.get('name')) or ''}", _request(alternative)
        else:  # v1beta1 has the fields of `exactly` in the request itself
            exactly = request.get("exactly")
            yield name, _request(exactly if isinstance(exactly, dict) else request)


def _request(asked: dict[str, Any]) -> _Request:
    name = text(asked.get("deviceClassName"))
    number = (whole(asked.get("count")) or 1) if asked.get("allocationMode") in _EXACT else None
    return _Request(name if name is not None and len(name) <= _NAME else None, number, asked.get("adminAccess") is True)
