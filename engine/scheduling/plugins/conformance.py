"""Conformance: critical pods of the cluster are never evicted.

Extension points: `preemptable`, `reclaimable`.
"""

from __future__ import annotations

from typing import ClassVar, Final

from engine.scheduling.cluster.entities import Task
from engine.scheduling.session import Plugin

_CRITICAL: Final = frozenset({"system-cluster-critical", "system-node-critical"})
_SYSTEM: Final = "kube-system"


class Conformance(Plugin):
    """Protect critical pods (Volcano `conformance`)."""

    NAME: ClassVar[str] = "conformance"
    COUNTS_VICTIMS_BY = "job"

    def preemptable(self, task: Task, candidates: list[Task]) -> list[Task]:
        """Return candidates that are neither in namespace `kube-system` nor of a system priority class."""
        del task
        return [
            victim
            for victim in candidates
            if victim.job.namespace != _SYSTEM and victim.pod_class.shape.priority_class not in _CRITICAL
        ]

    def reclaimable(self, task: Task, candidates: list[Task]) -> list[Task]:
        """Return the same as `preemptable`."""
        return self.preemptable(task, candidates)
