"""Action requests: an action on a job or a part of it, with its cause."""

from __future__ import annotations

from dataclasses import dataclass

from statemachines.kill import Target
from statemachines.vocabulary import Action, FailureClass


@dataclass(slots=True)
class ActionRequest:
    """Request of an action, with its cause."""

    action: Action
    task: str | None = None
    index: int | None = None
    partition: int | None = None
    policy: str | None = None
    event: str | None = None
    by: str = ""
    reason: str = ""
    deferred: bool = False
    commanded: bool = False
    """True if a person or the deletion of the job requested it, not a rule."""
    cause: FailureClass | None = None
    """Class of the failure that caused it; `None`: no attempt caused it."""
    ends: str = ""
    """End reason of the attempts that it stops; empty: the action's own."""
    depth: int = 0
    """Length of the chain of custom events that led to it."""

    @property
    def target(self) -> Target | None:
        """Part of the job that it acts on."""
        if self.action == "RestartTask" and self.task is not None:
            return Target("task", self.task)
        if self.action == "RestartPod" and self.task is not None and self.index is not None:
            return Target("pod", self.task, pod=str(self.index))
        if self.action == "RestartPartition" and self.task is not None and self.partition is not None:
            return Target("partition", self.task, partition=str(self.partition))
        return None
