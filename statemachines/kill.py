"""Pods that a kill deletes, and Volcano's status after it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

from statemachines.counters import Counters, Pod
from statemachines.vocabulary import Action, FailureClass

RETAIN_SOFT: Final[frozenset[str]] = frozenset({"Succeeded", "Failed"})
"""Pods of these phases survive a soft kill."""
RETAIN_NONE: Final[frozenset[str]] = frozenset()

KillScope = Literal["all", "unfinished", "target", "surplus"]
"""Scope of a kill: every pod, unfinished pods, pods of its target, pods beyond the replicas."""


@dataclass(slots=True, frozen=True)
class Target:
    """Part of a job that RestartTask, RestartPod or RestartPartition kills."""

    type: Literal["task", "pod", "partition"]
    task: str
    pod: str | None = None
    """Name of the pod (type pod)."""
    partition: str | None = None
    """The partition's number as text (type partition)."""


@dataclass(slots=True)
class KillPlan:
    """Result of planning a kill."""

    delete: list[Pod] = field(default_factory=list)
    """Pods to delete, after they are marked out of sync (Volcano: so that their end raises no event)."""
    deleting: int = 0
    """Pods in its scope that were being deleted already; they are not deleted twice."""
    version_delta: int = 0
    """1: the whole job is killed. Volcano bumps `status.version` and deletes the PodGroup then, and only then."""


def last_retry(retry_count: int, max_retry: int, cause: FailureClass | None = None) -> bool:
    """Return whether a kill belongs to the last retry (Volcano: retryCount >= maxRetry - 1 on entry).

    Args:
        retry_count: retries before the action.
        max_retry: retries of the specification; 0 makes every attempt the last retry.
        cause: class of the failure behind the kill. One that uses no retry leaves one more; a permanent one leaves none.
    """
    if cause == "permanent":
        return True
    burnt = 1 if cause is None or cause == "user" else 0
    return retry_count + burnt >= max_retry


def retained(
    effect: str, retry_count: int, max_retry: int, *, action: Action | str = "", cause: FailureClass | None = None
) -> frozenset[str]:
    """Return the phases of the pods that a kill of the whole job retains.

    Volcano: at the last retry finished pods and their logs survive even a RestartJob. RequeueJob checks no retries, so it never
    retains pods.

    Args:
        effect: `kill_soft` or `kill_none`.
        retry_count: retries before the action.
        max_retry: retries of the specification.
        action: the action of the kill.
        cause: class of the failure behind it; `None`: none.
    """
    if effect == "kill_soft":
        return RETAIN_SOFT
    if action != "RequeueJob" and last_retry(retry_count, max_retry, cause):
        return RETAIN_SOFT
    return RETAIN_NONE


def kill_job(pods: Iterable[Pod], retain: frozenset[str]) -> KillPlan:
    """Plan a kill of the whole job: every pod whose phase is not retained is deleted."""
    plan = KillPlan(version_delta=1)
    for pod in pods:
        if pod.deleting:
            plan.deleting += 1
        elif pod.phase not in retain:
            plan.delete.append(pod)
    return plan


def kill_target(pods: Iterable[Pod], target: Target | None) -> KillPlan | None:
    """Plan a kill of a part of a job; it retains no phase.

    Args:
        pods: pods of the job; those of other tasks are ignored.
        target: the part; `None`: the action names none and kills no pod, but the phase still changes.

    Returns:
        The plan; `None` for a partition that does not exist: then not even the phase changes (Volcano).
    """
    plan = KillPlan()
    found = False
    for pod in pods:
        if target is None or not _within(pod, target):
            continue
        found = True
        if pod.deleting:
            plan.deleting += 1
        else:
            plan.delete.append(pod)
    if target is not None and target.type == "partition" and not found:
        return None
    return plan


def _within(pod: Pod, target: Target) -> bool:
    if pod.task != target.task:
        return False
    if target.type == "pod":
        return pod.name == target.pod
    if target.type == "partition":
        return pod.partition is not None and pod.partition == target.partition
    return True


def volcano_status(plan: KillPlan) -> Counters:
    """Return the counters that Volcano's status shows after a kill.

    Volcano rebuilds them from this pass only: pods deleted now or before are terminating; retained pods, and those outside the
    target, are in no counter until the next sync. Lahar's own counters are not affected.
    """
    return Counters(terminating=len(plan.delete) + plan.deleting)
