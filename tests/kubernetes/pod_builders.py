"""Pods as an API server writes them, to start from in tests: each part open to be replaced."""

from __future__ import annotations

from typing import Any

CREATED = "2026-03-01T10:00:00Z"
SCHEDULED = "2026-03-01T10:00:02Z"
INITIALIZED = "2026-03-01T10:00:04Z"
STARTED = "2026-03-01T10:00:07Z"
FINISHED = "2026-03-01T10:05:07Z"


def at(minute: int, second: int = 0) -> int:
    """Return the moment so many minutes after 10:00 on the day of all these pods, in microseconds."""
    return 1_772_359_200_000_000 + (minute * 60 + second) * 1_000_000


def waiting(reason: str, **fields: Any) -> dict[str, Any]:
    return status({"waiting": {"reason": reason}}, **fields)


def running(started: str = STARTED, **fields: Any) -> dict[str, Any]:
    return status({"running": {"startedAt": started}}, **fields)


def terminated(
    code: int = 0, reason: str | None = None, finished: str | None = FINISHED, started: str | None = STARTED, **fields: Any
) -> dict[str, Any]:
    how = reason or ("Completed" if code == 0 else "Error")
    return status({"terminated": {"exitCode": code, "reason": how, "startedAt": started, "finishedAt": finished}}, **fields)


def status(state: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"name": "c", "image": "busybox", "lastState": {}, "ready": False, "restartCount": 0, "state": state, **fields}


def condition(kind: str, value: str = "True", since: str = SCHEDULED, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "status": value, "lastProbeTime": None, "lastTransitionTime": since, **fields}


def disrupted(reason: str) -> dict[str, Any]:
    return condition("DisruptionTarget", since="2026-03-01T10:04:00Z", reason=reason)


def pod(
    phase: str | None = "Running",
    *containers: dict[str, Any],
    conditions: tuple[dict[str, Any], ...] = (),
    metadata: dict[str, Any] | None = None,
    spec: dict[str, Any] | None = None,
    node: str | None = "n1",
    **fields: Any,
) -> dict[str, Any]:
    """Return a pod with these container statuses; `fields` go to its status."""
    state: dict[str, Any] = {"conditions": list(conditions), "qosClass": "Burstable", **fields}
    if phase is not None:
        state["phase"] = phase
    if containers:
        state["containerStatuses"] = list(containers)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "train-0",
            "namespace": "research",
            "uid": "11111111-2222-3333-4444-555555555555",
            "resourceVersion": "4711",
            "creationTimestamp": CREATED,
            **(metadata or {}),
        },
        "spec": {
            "containers": [{"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}],
            **({"nodeName": node} if node else {}),
            **(spec or {}),
        },
        "status": state,
    }


DELETING = {"deletionTimestamp": "2026-03-01T10:06:30Z", "deletionGracePeriodSeconds": 30}


def owner(kind: str, api_version: str = "batch/v1", uid: str = "owner-uid", **fields: Any) -> dict[str, Any]:
    reference = {"apiVersion": api_version, "kind": kind, "name": "train", "uid": uid, "controller": True, **fields}
    return {"ownerReferences": [reference]}
