"""Cdp: a pod that has just started is not evicted before its cooldown time is over."""

from __future__ import annotations

from typing import ClassVar, Final

from engine.kubernetes.reading.durations import parse_duration
from engine.scheduling.cluster.entities import Task
from engine.scheduling.preemption.run_times import has_run
from engine.scheduling.session import Plugin

__all__ = ["Cdp"]

_COOLDOWN_TIME: Final = "volcano.sh/cooldown-time"


class Cdp(Plugin):
    """Cooldown protection (Volcano `cdp`): the label, or else the annotation, of a pod says how long from when it got its node.

    Notices stop whole jobs: one runs for the longest cooldown time of its pods before it is given notice.
    """

    NAME: ClassVar[str] = "cdp"

    def preemptable(self, task: Task, candidates: list[Task]) -> list[Task]:
        """Return the pods that do not run, or whose cooldown time is over."""
        del task
        return [
            victim for victim in candidates if victim.status != "Running" or has_run(self.session, _cooldown(victim), victim.bound)
        ]

    reclaimable = preemptable

    def least_run(self, task: Task) -> int:
        """Return how long the job of a pod runs at least before it is given notice (microseconds)."""
        return _cooldown(task)


def _cooldown(task: Task) -> int:
    """Return the cooldown time of a pod (microseconds); 0: none, or it cannot be read."""
    stated = task.pod_class.labels.get(_COOLDOWN_TIME, task.pod_class.annotations.get(_COOLDOWN_TIME, ""))
    try:
        return max(0, parse_duration(stated)) if stated else 0
    except ValueError:
        return 0
