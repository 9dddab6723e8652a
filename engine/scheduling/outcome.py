"""Result of a scheduling session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.events.scheduling import GroupPhase
from engine.scheduling.cluster.entities import Job, Task
from engine.scheduling.pending.jobs import PendingJobs


@dataclass(slots=True, frozen=True)
class NoticeReview:
    """Review of an open notice by a session."""

    spared: Sequence[str] = ()
    """Keys of victims that are no longer needed."""
    enough: bool = True
    """The remaining victims free enough."""


@dataclass(slots=True)
class Outcome(PendingJobs):
    """Result of a session. Every list is in the order of the decisions."""

    enqueued: list[Job] = field(default_factory=list)
    bound: list[tuple[Task, str]] = field(default_factory=list)
    """Task → node."""
    pipelined: list[tuple[Task, str]] = field(default_factory=list)
    """Task → node that it is promised once others have left it."""
    evicted: list[tuple[Task, str]] = field(default_factory=list)
    """Task → action that evicts it."""
    unschedulable: list[Job] = field(default_factory=list)
    """Pending or changed jobs with fewer placed tasks than they need (Volcano: condition Unschedulable)."""
    phases: list[tuple[Job, GroupPhase]] = field(default_factory=list)
    """Jobs whose phase changed when the session closed, with the new phase."""
    more: bool = False
    """The round stopped at its limit; the next one continues."""
    preemptors: dict[str, str] = field(default_factory=dict)
    """Key of an evicted task → key of the claimant job; absent: no job in particular."""
    claims: dict[str, list[tuple[Task, str]]] = field(default_factory=dict)
    """Key of an evicted task → claimant's tasks that are promised nodes by its eviction, with these nodes."""
    bound_of: dict[str, int] = field(default_factory=dict)
    """Key of a job → number of its bound tasks: they form one decision."""
    notice: tuple[Job, list[Job]] | None = None
    """Privileged job and the victims that are given notice for it; one notice a round."""
    reviews: dict[str, NoticeReview] = field(default_factory=dict)
    """By id of the notice."""
    look_again: int | None = None
    """Earliest time at which time alone allows a notice (microseconds); `None`: never."""
    skipped: bool = False
    """Nothing has changed since the last round, which decided nothing: its results still hold."""
