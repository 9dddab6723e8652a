"""Cdp: a started pod is not evicted before its cooldown time is over.

Extension points: `preemptable`, `reclaimable`, `least_run`.
"""

from __future__ import annotations

from typing import ClassVar, Final

from engine.kubernetes.reading.durations import parse_duration
from engine.scheduling.cluster.entities import Task
from engine.scheduling.preemption.run_times import has_run
from engine.scheduling.session import Plugin

_COOLDOWN_TIME: Final = "volcano.sh/cooldown-time"


class Cdp(Plugin):
    """Cooldown protection (Volcano `cdp`): a pod's label, or else its annotation, gives the time since it was bound.

    A notice stops a whole job: none is given before the longest cooldown time of its pods is over.
    """

    NAME: ClassVar[str] = "cdp"

    def preemptable(self, task: Task, candidates: list[Task]) -> list[Task]:
        """Return pods that are not running, or whose cooldown time is over."""
        del task
        return [
            victim for victim in candidates if victim.status != "Running" or has_run(self.session, _cooldown(victim), victim.bound)
        ]

    reclaimable = preemptable

    def least_run(self, task: Task) -> int:
        """Return the least run time before a notice, of the job of a pod (microseconds)."""
        return _cooldown(task)


def _cooldown(task: Task) -> int:
    """Return the cooldown time of a pod (microseconds); 0: none, or it is malformed."""
    stated = task.pod_class.labels.get(_COOLDOWN_TIME, task.pod_class.annotations.get(_COOLDOWN_TIME, ""))
    try:
        return max(0, parse_duration(stated)) if stated else 0
    except ValueError:
        return 0
