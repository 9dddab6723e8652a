"""Advice to operators for each reason why a job or a replica does not run."""

from __future__ import annotations

from collections.abc import Iterable
from shlex import quote
from typing import Final

_IMAGE: Final = "check the name of its image, and the pull secret of its namespace"
_LAST_RUN: Final = "read what its last run wrote: `kubectl -n {namespace} logs {pod} --all-containers --previous`"
_PREPARED: Final = (
    "if that takes long, read its events, which name what its kubelet waits for: `kubectl -n {namespace} describe pod {pod}`"
)
_NODE: Final = "look at its node: `lahar why --node {node}`"

_ADVICE: Final[dict[str, str]] = {
    "JobSuspended": "it starts when its `spec.suspend` is false; a queue such as Kueue sets that when there is room",
    "ValidationFailed": "its operator refuses it, so it never starts by itself: correct what its message names",
    "Unschedulable": "no node fits: free or add what the message names, or ask for less",
    "Gated": "the owner of its scheduling gates has to remove them: `kubectl -n {namespace} get pod {pod} -o yaml`",
    "Queued": "no scheduler has looked at it: check that the one of its `spec.schedulerName` runs",
    "SchedulerError": "the scheduler failed: read its log",
    "Starting": _PREPARED,
    "Initializing": _PREPARED,
    "ErrImagePull": _IMAGE,
    "ImagePullBackOff": _IMAGE,
    "InvalidImageName": _IMAGE,
    "CreateContainerConfigError": "a ConfigMap, a Secret or a key that it names is missing",
    "RunContainerError": "check its command, mounts and devices",
    "StartError": "check its command and its image",
    "CrashLoopBackOff": _LAST_RUN,
    "CrashLooping": _LAST_RUN,
    "OomKilled": "raise its memory limit, or reduce its memory use",
    "Suspect": _NODE,
    "NodeLost": _NODE,
    "EvictedByNode": _NODE,
}


def advice(reasons: Iterable[tuple[str | None, str, str | None]], namespace: str) -> list[str]:
    """Return advice, once per reason that has some, in the given order.

    Args:
        reasons: reason, pod and node (if any).
        namespace: namespace of the pods.
    """
    found: dict[str, None] = {}
    for reason, pod, node in reasons:
        text = _ADVICE.get(reason or "")
        if text is not None and (node or "{node}" not in text):
            found[f"{reason}: " + text.format(namespace=quote(namespace), pod=quote(pod), node=quote(node or ""))] = None
    return list(found)
