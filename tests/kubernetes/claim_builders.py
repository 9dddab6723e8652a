"""ResourceClaims, and pods that use them."""

from __future__ import annotations

from typing import Any

BEGAN, ENDED = "2026-04-01T08:00:00Z", "2026-04-01T09:00:00Z"
GPU = "gpu.nvidia.com"


def exactly(device_class: str = GPU, name: str = "gpu", **fields: Any) -> dict[str, Any]:
    """Return a request of a claim."""
    return {"name": name, "exactly": {"deviceClassName": device_class, **fields}}


def results(request: str, count: int = 1, **fields: Any) -> list[dict[str, Any]]:
    """Return devices allocated to a request."""
    return [
        {"request": request, "driver": "gpu.nvidia.com", "pool": "n1", "device": f"gpu-{number}", **fields}
        for number in range(count)
    ]


def claim(
    *requests: dict[str, Any],
    name: str = "one",
    allocated: list[dict[str, Any]] | None = None,
    pods: tuple[str, ...] = (),
    owner: str | None = None,
    version: str | None = "1",
    api: str = "v1",
    uid: str | None = None,
) -> dict[str, Any]:
    """Return a claim: of one GPU unless requests are given, reserved for pods, made for the pod `owner`."""
    metadata: dict[str, Any] = {"name": name, "namespace": "lab", "uid": uid or f"uid-{name}", "resourceVersion": version}
    if owner is not None:
        above = {"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": owner, "controller": True}
        metadata["ownerReferences"] = [above]
    status: dict[str, Any] = {"reservedFor": [{"resource": "pods", "name": uid, "uid": uid} for uid in pods]}
    if allocated is not None:
        status["allocation"] = {"devices": {"results": allocated}}
    return {
        "apiVersion": f"resource.k8s.io/{api}",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": {"devices": {"requests": list(requests) or [exactly()]}},
        "status": status,
    }


def pod(uid: str, *claims: str, phase: str = "Running", version: int = 1, asked: dict[str, str] | None = None) -> dict[str, Any]:
    """Return a pod that uses claims, those whose name begins with `made` from templates."""
    state: dict[str, Any] = {"running": {"startedAt": BEGAN}}
    if phase == "Succeeded":
        state = {"terminated": {"exitCode": 0, "startedAt": BEGAN, "finishedAt": ENDED}}
    made = [name.startswith("made") for name in claims]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{uid}-0",
            "namespace": "lab",
            "uid": uid,
            "resourceVersion": f"{version}",
            "creationTimestamp": BEGAN,
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": uid, "uid": f"job-{uid}", "controller": True}],
        },
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "c", "resources": {"limits": asked or {}}}],
            "resourceClaims": [
                {"name": f"c{number}", **({"resourceClaimTemplateName": "t"} if own else {"resourceClaimName": name})}
                for number, (name, own) in enumerate(zip(claims, made, strict=True))
            ],
        },
        "status": {
            "phase": phase,
            "startTime": BEGAN,
            "containerStatuses": [{"name": "c", "state": state}] if phase != "Pending" else [],
            "resourceClaimStatuses": [
                {"name": f"c{number}", "resourceClaimName": name}
                for number, (name, own) in enumerate(zip(claims, made, strict=True))
                if own
            ],
        },
    }
