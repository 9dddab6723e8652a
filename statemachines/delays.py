"""Delayed actions: which timers an event, an action or another delayed action cancels.

Volcano keeps one delayed action per job and pod name. Here they are timers in the log, under the same rules.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from statemachines.vocabulary import ACTIONS, INTERNAL_ACTIONS, Action

ActionClass = Literal["job", "task", "pod", "partition"]
_CLASSES: Final[dict[str, ActionClass]] = {"RestartTask": "task", "RestartPod": "pod", "RestartPartition": "partition"}
_POD_EVENTS: Final = frozenset({"PodPending", "PodRunning", "PodFailed", "PodEvicted"})


@dataclass(slots=True)
class Delay:
    """A running timer of a delayed action, or one about to be set."""

    action: Action
    id: str = ""
    event: str | None = None
    """Lifecycle event that set it."""
    pod: str | None = None
    """Name of the pod that raised the event; `None`: no pod."""
    pod_uid: str | None = None


Placement = Literal["ignore", "set"]
"""ignore: a timer with the same action runs for the pod. set: set it, after cancelling those that `place` names."""


def action_class(action: Action | str) -> ActionClass:
    """Return the part of a job that an action acts on."""
    return _CLASSES.get(action, "job")


def place(running: Iterable[Delay], new: Delay) -> tuple[Placement, list[Delay]]:
    """Decide on a new delayed action.

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

    A pod that is no longer Pending cancels its PodPending timer, if it is the same pod by uid; a running pod cancels the timers of
    its predecessor's failure or eviction, by name alone.
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


def made_pointless(action: Action) -> list[Action]:
    """Return the delayed actions that an executed action supersedes: those of its class.

    An action on the job supersedes all of them, any other one those on the same task, pod or partition. Internal actions supersede
    none.
    """
    same = action_class(action)
    return [other for other in ACTIONS if not INTERNAL_ACTIONS & {action, other} and action_class(other) == same]
