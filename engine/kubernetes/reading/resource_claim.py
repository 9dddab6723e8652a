"""ResourceClaims (`resource.k8s.io` v1, v1beta2, v1beta1): devices by device class, as allocated or as requested."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from engine.kubernetes.reading.fields import mapping, mappings, text, whole

RESOURCE_CLAIM: Final = "ResourceClaim"
_GROUP: Final = "resource.k8s.io/"
_MOST: Final = 128
"""Maximum number of requests of a claim, alternatives of a request, or allocated devices; the API allows 32, 8 and 32."""
_PODS: Final = 256
"""Maximum number of pods of a claim, the API's limit."""
_NAME: Final = 253
"""Maximum length of a Kubernetes name (characters)."""
_EXACT: Final = frozenset({None, "", "ExactCount"})


class Devices(NamedTuple):
    """Devices of one class."""

    device_class: str
    number: int
    shared: bool = False
    """True if each is a share of a device (`shareID`), of a size unknown to the claim."""


class _Request(NamedTuple):
    """Request of a claim, or an alternative of it."""

    device_class: str | None
    number: int | None
    """Number of devices; `None`: all devices of a pool that the driver selects."""
    admin: bool
    """True for administrative access, beside the device's user."""


def is_resource_claim(content: dict[str, Any]) -> bool:
    """Return true if an object is a ResourceClaim of Kubernetes."""
    version = content.get("apiVersion")
    return content.get("kind") == RESOURCE_CLAIM and (not isinstance(version, str) or version.startswith(_GROUP))


def is_allocated(claim: dict[str, Any]) -> bool:
    """Return true if a claim has allocated devices."""
    return isinstance(mapping(claim.get("status")).get("allocation"), dict)


def allocated_devices(claim: dict[str, Any]) -> tuple[Devices, ...] | None:
    """Return the allocated devices of a claim; `None` if they cannot be read."""
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
    """Return the requested devices of a claim; `None` if class or number is decided at allocation."""
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
    """Yield the requests of a claim by name, alternatives as `request/alternative`; none if there are too many."""
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
