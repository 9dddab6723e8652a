"""Pod table: the fields of a pod that decide its state and reason. The first matching row wins.

Rows have the numbers of the lifecycle rules. Regular containers decide; if none has ended, init containers do. Reasons are the
closed vocabulary, except that a bound waiting pod has its own waiting reason (`ImagePullBackOff`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.kubernetes.observation.view import PodView
from engine.kubernetes.reading.fields import moment, text
from statemachines.vocabulary import AttemptPhase


class Verdict(NamedTuple):
    """The table's verdict on a pod."""

    phase: AttemptPhase
    reason: str | None
    row: int
    """Row of the table that matched."""


_BY_STATUS: Final[dict[str, tuple[AttemptPhase, str]]] = {
    "Evicted": ("Failed", "EvictedByNode"),
    "Terminated": ("Failed", "NodeShutdown"),
    "Shutdown": ("Failed", "NodeShutdown"),
    "Preempting": ("Failed", "PreemptedByKubelet"),
}
_BY_DISRUPTION: Final[dict[str, tuple[AttemptPhase, str, int]]] = {
    "PreemptionByScheduler": ("Failed", "PreemptedByScheduler", 2),
    "EvictionByEvictionAPI": ("Failed", "EvictedByApi", 3),
    # A pod does not show the loss of its node: the lifecycle stage corrects row 4 by the node's state.
    "DeletionByTaintManager": ("Failed", "EvictedByTaint", 4),
    "DeletionByPodGC": ("Lost", "NodeLost", 5),
}
_NOT_BLOCKED: Final = frozenset({"ContainerCreating", "PodInitializing"})
_UNKNOWN_END: Final = "ContainerStatusUnknown"
_START_ERRORS: Final = frozenset({"StartError", "ContainerCannotRun"})


def judge(pod: PodView, *, deleted: bool = False, inferred: bool = False) -> Verdict:
    """Return state and reason of a pod.

    Args:
        pod: its last known state.
        deleted: the object was deleted; a terminal state in it remains valid.
        inferred: the deletion was not observed; a full list lacks the pod.
    """
    phase = pod.phase
    if phase == "Succeeded":
        return Verdict("Succeeded", None, 1)
    if phase == "Failed":
        return (None if _disrupted_after_end(pod) else _disrupted(pod)) or _failed(pod)
    if deleted:
        cause = _disrupted(pod)
        if cause is not None:
            return cause._replace(row=15)
        return Verdict("Lost", "EndUnknown", 15) if inferred else Verdict("Failed", "DeletedByApi", 15)
    if pod.deletion is not None:
        cause = _disrupted(pod)
        return Verdict("Terminating", cause.reason if cause is not None else None, 16)
    if phase == "Unknown":
        return Verdict("Running" if pod.has_started else "Bound", "Suspect", 17)
    if phase == "Running":
        looping = any(container.waiting == "CrashLoopBackOff" for container in pod.containers)
        return Verdict("Running", "CrashLooping" if looping else None, 18)
    return _pending(pod) if phase == "Pending" else Verdict("Pending", "Queued", 23)


def exit_code(pod: PodView) -> int | None:
    """Return the deciding exit code (row 14): that of the first container to end with a code other than 0.

    A code that a kubelet reports for a container whose end it missed is ignored.
    """
    bad = [one for one in pod.deciding if one.exit_code and one.reason != _UNKNOWN_END]
    if len(bad) > 1:
        # A container without an end time cannot be the first.
        bad.sort(key=lambda one: (one.finished is None, one.finished or 0))
    return bad[0].exit_code if bad else None


def _disrupted(pod: PodView) -> Verdict | None:
    """Rows 2 to 6: the condition DisruptionTarget."""
    reason = pod.disruption
    if reason is None:
        return None
    if reason == "TerminationByKubelet":
        return Verdict(*_BY_STATUS.get(pod.reason or "", ("Failed", "EvictedByNode")), 6)
    found = _BY_DISRUPTION.get(reason)
    return Verdict(*found) if found is not None else None


def _failed(pod: PodView) -> Verdict:
    """Rows 7 to 14."""
    reason = pod.reason
    if reason is not None:
        if reason == "NodeLost":
            return Verdict("Lost", "NodeLost", 7)
        if reason in _BY_STATUS:
            return Verdict(*_BY_STATUS[reason], 7)
        if reason == "DeadlineExceeded":
            return Verdict("Failed", "TimedOut", 8)
        if not pod.has_started:
            # A kubelet rejects pods with an open set of reasons (UnexpectedAdmissionError, OutOfcpu, NodeAffinity, …), and sets
            # none for failures of containers.
            return Verdict("Failed", "RejectedByNode", 9)
    ends = {container.reason for container in pod.deciding if container.terminated}
    if "OOMKilled" in ends:
        return Verdict("Failed", "OomKilled", 10)
    if _UNKNOWN_END in ends and not _deleted_before_end(pod):
        return Verdict("Lost", "ExitUnknown", 11)
    code = exit_code(pod) or 0
    if not ends.isdisjoint(_START_ERRORS) or 126 <= code <= 128:
        return Verdict("Failed", "StartError", 12)
    if _deleted_before_end(pod):
        return Verdict("Failed", "DeletedByApi", 12)
    if 129 <= code <= 192:
        return Verdict("Failed", "KilledBySignal", 13)
    return Verdict("Failed", "AppFailed", 14)


def _deleted_before_end(pod: PodView) -> bool:
    """Return true if the pod was deleted before the end of its containers (row 12a).

    The same second counts as before: Kubernetes truncates times, and a program that handles SIGTERM ends in that second. When a pod
    is deleted, a kubelet reports an end without a time for containers that have not started.
    """
    end = _last_end(pod)
    return pod.deletion_asked is not None and (end is None or pod.deletion_asked <= end)


def _disrupted_after_end(pod: PodView) -> bool:
    """Return true if the containers had ended before the pod was evicted, because a drain also evicts ended pods."""
    end = _last_end(pod)
    announced = moment(pod.true("DisruptionTarget").get("lastTransitionTime"))
    by_others = pod.disruption in {"EvictionByEvictionAPI", "DeletionByTaintManager"}
    return by_others and end is not None and announced is not None and end < announced


def _last_end(pod: PodView) -> int | None:
    """Return the end of the last container (microseconds); `None` if no container has one."""
    return max((one.finished for one in pod.deciding if one.finished is not None), default=None)


def _pending(pod: PodView) -> Verdict:
    """Rows 19 to 23."""
    if pod.node is None:
        scheduled = pod.conditions.get("PodScheduled", {})
        if scheduled.get("status") == "False":
            reason = text(scheduled.get("reason"))
            if reason == "SchedulingGated":
                return Verdict("Pending", "Gated", 19)
            if reason in {"Unschedulable", "SchedulerError"}:
                return Verdict("Pending", reason, 20)
    for container in (*pod.containers, *pod.inits):
        if container.waiting is not None and container.waiting not in _NOT_BLOCKED:
            return Verdict("Bound", container.waiting, 21)
    if pod.node is None:
        return Verdict("Pending", "Queued", 23)
    # A sidecar keeps running when the pod is initialised.
    initializing = any(one.running for one in pod.inits) and not pod.true("Initialized")
    return Verdict("Bound", "Initializing" if initializing else "Starting", 22)
