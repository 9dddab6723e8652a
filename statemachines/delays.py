"""Delayed actions: which running timers an event or an action cancels, and what becomes of a second timer.

Volcano keeps one delayed action per job and pod name. Here they are timers in the log; the rules are the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from statemachines.vocabulary import INTERNAL_ACTIONS, Action

__all__ = ["ActionClass", "Delay", "Placement", "action_class", "cancelled_by_action", "cancelled_by_event", "place"]

ActionClass = Literal["job", "task", "pod", "partition"]
_CLASSES: Final[dict[str, ActionClass]] = {"RestartTask": "task", "RestartPod": "pod", "RestartPartition": "partition"}
_POD_EVENTS: Final = frozenset({"PodPending", "PodRunning", "PodFailed", "PodEvicted"})


@dataclass(slots=True)
class Delay:
    """A running timer of a delayed action, or one about to be set."""

    action: Action
    id: str = ""
    event: str | None = None
    """Lifecycle event that it came from."""
    pod: str | None = None
    """Name of the pod that raised the event; `None`: none did."""
    pod_uid: str | None = None
    task: str | None = None
    partition: int | str | None = None


Placement = Literal["ignore", "set"]
"""ignore: a timer with the same action runs for the pod. set: set it, after cancelling those that `place` names."""


def action_class(action: Action | str) -> ActionClass:
    """Return the part of a job that an action is about."""
    return _CLASSES.get(action, "job")


def place(running: Iterable[Delay], new: Delay) -> tuple[Placement, list[Delay]]:
    """Say what becomes of a new delayed action.

    Args:
        running: timers of the job.
        new: the delayed action.

    Returns:
        `ignore` if one with the same action runs for the same pod; else `set`, with the timers for the same pod that it replaces.
    """
    replaced: list[Delay] = []
    for delay in running:
        if delay.pod == new.pod:
            if delay.action == new.action:
                return "ignore", []
            replaced.append(delay)
    return "set", replaced


def cancelled_by_event(running: Iterable[Delay], event: str, pod: str | None, pod_uid: str | None) -> list[Delay]:
    """Return the timers that a pod's event cancels before it is handled.

    A pod that is no longer Pending cancels its PodPending timer, if it is the same pod by uid; a pod that runs cancels what its
    predecessor's failure or eviction set, by name alone.
    """
    if event not in _POD_EVENTS:
        return []
    return [
        delay
        for delay in running
        if delay.pod == pod
        and (
            (event != "PodPending" and delay.event == "PodPending" and delay.pod_uid == pod_uid)
            or (event == "PodRunning" and delay.event in ("PodFailed", "PodEvicted"))
        )
    ]


def cancelled_by_action(
    running: Iterable[Delay], action: Action | str, task: str | None, pod: str | None, partition: int | str | None
) -> list[Delay]:
    """Return the timers that an action makes pointless once it has been executed, at once or by expiry.

    Those of its class: all of the job's class, of the same task, the same pod, the same partition of the same task. Internal
    actions cancel none.
    """
    if action in INTERNAL_ACTIONS:
        return []
    wanted = action_class(action)
    return [
        delay
        for delay in running
        if action_class(delay.action) == wanted
        and (
            wanted == "job"
            or (wanted == "task" and delay.task == task)
            or (wanted == "pod" and delay.pod == pod)
            or (wanted == "partition" and delay.task == task and delay.partition == partition)
        )
    ]
