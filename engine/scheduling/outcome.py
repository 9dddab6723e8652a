"""Result of a scheduling session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.events.scheduling import GroupPhase
from engine.scheduling.cluster.entities import Job, Task
from engine.scheduling.pending.jobs import PendingJobs

__all__ = ["NoticeReview", "Outcome"]


@dataclass(slots=True, frozen=True)
class NoticeReview:
    """What a session says of an open notice."""

    spared: Sequence[str] = ()
    """Keys of the victims that are not needed."""
    enough: bool = True
    """The victims that are left free enough."""


@dataclass(slots=True)
class Outcome(PendingJobs):
    """Result of a session. Every list is in the order of the decisions."""

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
