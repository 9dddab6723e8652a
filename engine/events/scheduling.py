"""The scheduling stage's own records: its rounds, the phases of pod groups, why jobs wait, and decisions without an answer.

They are written to `scheduling`, which has one partition; within a job, or a cluster, they are ordered and gapless (`sequence`).
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import field

from engine.events.decisions import DecisionKind
from engine.events.times import Micros
from engine.events.vocabulary import Data, event

GroupPhase = Literal["", "Pending", "Inqueue", "Running", "Unknown", "Completed"]
"""Phases of a pod group (Volcano)."""


@event("lahar.round.ended.v1", topic="scheduling", stability="operational")
class RoundEnded(Data):
    """A round of scheduling in a cluster, which is the subject; the decisions of the round are caused by this event.

    `time` is when the round was due.
    """

    enqueued: int = 0
    """Jobs that were let in."""
    bound: int = 0
    """Attempts that were given a node."""
    pipelined: int = 0
    """Attempts that are promised a node which others have yet to leave."""
    evicted: int = 0
    """Attempts that are to give up their node."""
    pending: dict[str, int] = field(default_factory=dict)
    """Queue → jobs that wait in it, for their pods or for nodes."""
    oldest: dict[str, Micros] = field(default_factory=dict)
    """Queue → when the first submitted of those jobs was submitted."""
    more: bool = False
    """It stopped at the limit of placements of one round: the next one goes on at once."""
    next: Micros | None = None
    """When a round may find something else though nothing happens: by time alone, or figures of reasons that are to be told by
    then; `None`: never."""
    memory: dict[str, dict[str, int]] = field(default_factory=dict)
    """Plugin → what it remembers from round to round."""
    error: str = ""
    """Why the round was given up; empty: it was not."""
    configuration: dict[str, Any] = field(default_factory=dict)
    """Actions and plugins, in the format of their file, of this round and those after it; empty: as in the round before."""


@event("lahar.podgroup.phase_changed.v1", topic="scheduling")
class GroupPhaseChanged(Data):
    """The job's pod group is in another phase at the end of a round.

    A group begins Pending, and is Pending again when the job is stopped or restarted or its enqueuing was refused.
    """

    phase: GroupPhase
    previous: GroupPhase


@event("lahar.job.explained.v1", topic="scheduling")
class JobExplained(Data):
    """Why the job, or some of its pods, wait. Made when the answer changes; if only its figures do, from time to time."""

    reason: str = ""
    """One word of the list in scheduling.md; empty: nothing holds it up any more."""
    action: str = ""
    """The action in which it stopped: `enqueue`, `allocate`, …"""
    plugin: str = ""
    """The plugin that said so; empty: the action itself."""
    about: str = ""
    """The queue, the task or the namespace that is meant."""
    missing: dict[str, int] = field(default_factory=dict)
    """Resource → how much of it is lacking: to the limit of a queue or a quota, or on the node that comes nearest. Memory in bytes,
    everything else in thousandths, rounded up."""
    nodes: dict[str, int] = field(default_factory=dict)
    """Reason (`InsufficientResource/NAME` with the resource) → on how many nodes it is the first that fails."""
    queue: str = ""
    place: int = 0
    """Among the jobs that wait in the queue, from 1, as of this event: a place that changes little makes no event."""
    waiting: int = 0
    """How many jobs wait in the queue."""
    ahead: list[str] = field(default_factory=list)
    """Ids of the jobs directly ahead, at most three, the nearest last."""
    message: str = ""
    """Details in words."""
    asked: dict[str, int] = field(default_factory=dict)
    """Resource that is missing → how much is asked for, where that alone is too much, whatever ends. Units as in `missing`."""


@event("lahar.decision.timed_out.v1", topic="scheduling", stability="operational")
class DecisionTimedOut(Data):
    """A decision was not answered in time. What it holds stays held, since it may still be accepted."""

    decision: str
    kind: DecisionKind
