"""Volcano's lifecycle events, from watch events of pods."""

from __future__ import annotations

from typing import Literal

from statemachines.vocabulary import BusEvent


def pod_added(*, out_of_sync: bool = False) -> BusEvent:
    """Return the event of a pod's first observation: PodPending, even if it runs already."""
    return "OutOfSync" if out_of_sync else "PodPending"


def pod_updated(
    previous: str, phase: str, *, task_completed: bool = False, task_failed: bool = False, out_of_sync: bool = False
) -> BusEvent:
    """Return the event of a pod that changed.

    Args:
        previous: its Kubernetes phase before.
        phase: its Kubernetes phase now.
        task_completed: by `task_rules.task_completed`, with this pod counted.
        task_failed: by `task_rules.task_failed`, with this pod counted.
        out_of_sync: it was marked to be killed; its failure then raises no event.
    """
    changed = previous != phase
    if phase == "Failed" and changed:
        return "OutOfSync" if out_of_sync else "PodFailed"
    if phase == "Succeeded" and changed and task_completed:
        return "TaskCompleted"
    if phase in ("Running", "Pending"):
        if changed:
            return "PodRunning" if phase == "Running" else "PodPending"
        if task_failed:
            return "TaskFailed"
    return "OutOfSync"


def pod_deleted(*, out_of_sync: bool = False, known: bool = True) -> BusEvent:
    """Return the event of a pod whose object is gone."""
    return "PodEvicted" if known and not out_of_sync else "OutOfSync"


def group_event(phase: str) -> Literal["Unknown"] | None:
    """Return the event of a PodGroup whose phase changed; `None`: a request without an event, which leads to a sync."""
    return "Unknown" if phase == "Unknown" else None
