"""The latest time that an object shows: when a recorded stream, which carries no times of its own, was at that object."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from engine.kubernetes.reading.fields import mapping, mappings, moment

__all__ = ["shown_time"]

_OF_METADATA: Final = ("creationTimestamp", "deletionTimestamp")
_OF_CONDITION: Final = ("lastTransitionTime", "lastHeartbeatTime", "lastProbeTime", "lastUpdateTime")
_OF_STATUS: Final = ("startTime", "completionTime")


def shown_time(content: dict[str, Any]) -> int | None:
    """Return the latest time that stands in an object's metadata, taints, status and conditions (microseconds).

    A pod knows more: use the time of its observation.

    Args:
        content: an object of any kind, as decoded JSON.

    Returns:
        `None` where it shows no time.
    """
    return max(_times(content), default=None)


def _times(content: dict[str, Any]) -> Iterator[int]:
    metadata, spec, status = (mapping(content.get(part)) for part in ("metadata", "spec", "status"))
    told = [metadata.get(field) for field in _OF_METADATA]
    told += [status.get(field) for field in _OF_STATUS]
    told += [taint.get("timeAdded") for taint in mappings(spec.get("taints"))]
    told += [condition.get(field) for condition in mappings(status.get("conditions")) for field in _OF_CONDITION]
    state = mapping(status.get("state"))
    told.append(state.get("lastTransitionTime"))
    yield from (time for value in told if (time := moment(value)) is not None)
