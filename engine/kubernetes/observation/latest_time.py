"""Latest time in an object, which dates its place in a recorded stream without times of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from engine.kubernetes.reading.fields import deletion_asked, last_write, mapping, mappings, moment

_OF_CONDITION: Final = ("lastTransitionTime", "lastHeartbeatTime", "lastProbeTime", "lastUpdateTime")
_OF_STATUS: Final = (
    *("startTime", "completionTime", "endTime", "startedAt", "finishedAt", "stoppedAt", "terminationTime"),
    *("lastSubmissionAttemptTime", "transitionTime"),
)
"""Time fields in the status of jobs of all kinds."""


def shown_time(content: dict[str, Any]) -> int | None:
    """Return the latest time in an object's metadata, taints, status and conditions (microseconds).

    For a deletion it is the time of its request: the deletionTimestamp of a pod is the end of its grace period. For a pod, use the
    time of its observation too.

    Args:
        content: an object of any kind, or a CloudEvent, as decoded JSON.

    Returns:
        The time; `None` if there is none.
    """
    if "specversion" in content:
        return moment(content.get("time"))
    return max(_times(content), default=None)


def _times(content: dict[str, Any]) -> Iterator[int]:
    metadata, spec, status = (mapping(content.get(part)) for part in ("metadata", "spec", "status"))
    yield from (time for time in (deletion_asked(metadata), last_write(metadata)) if time is not None)
    told = [metadata.get("creationTimestamp")]
    told += [status.get(field) for field in _OF_STATUS]
    told += [taint.get("timeAdded") for taint in mappings(spec.get("taints"))]
    told += [condition.get(field) for condition in mappings(status.get("conditions")) for field in _OF_CONDITION]
    state = mapping(status.get("state"))
    told.append(state.get("lastTransitionTime"))
    yield from (time for value in told if (time := moment(value)) is not None)
