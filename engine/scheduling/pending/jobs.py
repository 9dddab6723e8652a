"""Jobs that a session leaves pending, with the reasons."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.scheduling.cluster.entities import Job
from engine.scheduling.pending.queue import EquivalenceClass, Position
from engine.scheduling.pending.reasons import Reason
from engine.scheduling.pending.waiting import Waiting

__all__ = ["PendingJobs"]


@dataclass(slots=True)
class PendingJobs:
    """Jobs that a session leaves pending, one by one and by equivalence class."""

    explained: dict[str, Reason] = field(default_factory=dict)
    """Key of a job that stays pending and is promised nothing → why; without those of kinds that are refused."""
    refused: dict[EquivalenceClass, list[tuple[Position, Reason]]] = field(default_factory=dict)
    """Kinds of jobs that are not let in → from which position on, and why; in order."""
    waiting: dict[str, Waiting] = field(default_factory=dict)
    """Queue → its jobs that have a reason."""

    def refuse(self, kind: EquivalenceClass, job: Job) -> None:
        """Have all jobs of a kind, from one on that was explained for itself, have its reason."""
        self.refused.setdefault(kind, []).append(((job.created, job.key), self.explained.pop(job.key)))

    @property
    def reasons(self) -> dict[str, Reason]:
        """Key of a job that stays pending and is promised nothing → why: all of them, however many."""
        found = dict(self.explained)
        for kind, parts in self.refused.items():
            for at, (start, reason) in enumerate(parts):
                end = kind.before(parts[at + 1][0]) if at + 1 < len(parts) else len(kind.members)
                found |= {key: reason for _, key, _ in kind.members[kind.before(start) : end]}
        return found
