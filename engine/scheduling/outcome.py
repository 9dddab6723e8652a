"""What a session decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.events.scheduling import GroupPhase
from engine.scheduling.lines import Kind, Position
from engine.scheduling.model.entities import Job, Task
from engine.scheduling.reasons import Reason
from engine.scheduling.waiting import Waiting

__all__ = ["NoticeReview", "Outcome"]


@dataclass(slots=True, frozen=True)
class NoticeReview:
    """What a session says of an open notice."""

    spared: Sequence[str] = ()
    """Keys of the victims that are not needed."""
    enough: bool = True
    """The victims that are left free enough."""


@dataclass(slots=True)
class Outcome:
    """What a session decided. Every list is in the order of the decisions."""

    enqueued: list[Job] = field(default_factory=list)
    bound: list[tuple[Task, str]] = field(default_factory=list)
    """Task → node."""
    pipelined: list[tuple[Task, str]] = field(default_factory=list)
    """Tasks that are promised a place on a node once others have left it."""
    evicted: list[tuple[Task, str]] = field(default_factory=list)
    """Task → the action that evicts it."""
    unschedulable: list[Job] = field(default_factory=list)
    """Jobs that wait or changed, and have fewer tasks with a place than they need (Volcano: condition Unschedulable)."""
    phases: list[tuple[Job, GroupPhase]] = field(default_factory=list)
    """Jobs whose phase changed at the end, with the new one."""
    more: bool = False
    """The round stopped at its limit: the next one goes on where it did."""
    explained: dict[str, Reason] = field(default_factory=dict)
    """Key of a job that stays pending and is promised nothing → why; without those of kinds that are refused."""
    refused: dict[Kind, list[tuple[Position, Reason]]] = field(default_factory=dict)
    """Kinds of jobs that are not let in → from which position on, and why; in order."""
    waiting: dict[str, Waiting] = field(default_factory=dict)
    """Queue → its jobs that have a reason."""
    preemptors: dict[str, str] = field(default_factory=dict)
    """Key of an evicted task → key of the job that is promised its place; absent: none in particular."""
    claims: dict[str, list[tuple[Task, str]]] = field(default_factory=dict)
    """Key of an evicted task → tasks of its preemptor that are promised places with its eviction, with their nodes."""
    bound_of: dict[str, int] = field(default_factory=dict)
    """Key of a job → how many of its tasks are bound: they are one decision."""
    notice: tuple[Job, list[Job]] | None = None
    """A privileged job for which others are given notice, and those victims; the next one in the next round."""
    reviews: dict[str, NoticeReview] = field(default_factory=dict)
    """By id of the notice."""
    look_again: int | None = None
    """When time alone lets somebody be given notice (microseconds); `None`: never."""
    skipped: bool = False
    """Nothing has changed since the last round, which found nothing to decide: what it found stands."""

    def refuse(self, kind: Kind, job: Job) -> None:
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
