"""Decisions of the scheduling stage, each about one job, and the lifecycle stage's answers.

A decision is based on the job events that the scheduling stage had read, so the job may have changed when the decision is taken.
The lifecycle stage answers each with `lahar.decision.accepted` or `lahar.decision.refused`; a decision with a known id is a
duplicate. Decisions about a forgotten job are late, and have no answer.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import field

from engine.events.times import Micros
from engine.events.vocabulary import Data, event
from statemachines.value import Value

SCHEDULER: Final = "lahar"
"""The `schedulerName` of jobs that the scheduling stage places."""

DecisionKind = Literal["enqueued", "bound", "pipelined", "evicted", "unschedulable", "noticed", "notice_ended"]

EvictionReason = Literal["Preempted", "Reclaimed", "Shuffled"]
"""Preempted: for a job of its queue. Reclaimed: for another queue. Shuffled: to be placed better, or to free its node."""

Refusal = Literal[
    "UnknownJob",
    "NotManaged",
    "OtherScheduler",
    "Ended",
    "Stale",
    "NoGroup",
    "AlreadyEnqueued",
    "NotEnqueued",
    "TooMany",
    "AttemptGone",
    "AttemptStopping",
    "AttemptPlaced",
    "NodeGone",
    "NodeCordoned",
    "OtherPhase",
    "NoNotice",
]
"""Why a decision cannot be carried out, tested in this order.

UnknownJob: the cluster has no job with this id. NotManaged: somebody else controls the job. OtherScheduler: its `schedulerName` is
not `lahar`. Ended: the job is finished. Stale: its specification or group has changed since the decision was made. NoGroup: the job
is being stopped or restarted. AlreadyEnqueued; NotEnqueued: its group is Pending, so it has no pods to be placed. TooMany: more
attempts than one decision may evict. AttemptGone: the replica has no such current attempt, or it has ended. AttemptStopping: its
deletion was requested. AttemptPlaced: it has a node, or one was decided on. NodeGone: the cluster has no such node. NodeCordoned:
it takes no new pods. OtherPhase: only a Pending job becomes a preemptor, and only one with pods that run a victim. NoNotice: the
job is no longer part of the notice.
"""


class AttemptKey(Value):
    """Names one attempt of a job."""

    task: str
    index: int
    attempt: int
    """Number of the attempt within its replica, from 1."""


class Placement(AttemptKey):
    """A node for an attempt."""

    node: str


class DecisionEvent(Data):
    """Fields of every decision; its job is the event's subject."""

    seen: int
    """Sequence of the last event of the job that the decision takes into account."""


@event("lahar.decision.enqueued.v1", topic="decisions")
class DecidedEnqueued(DecisionEvent):
    """The job may get its pods: the cluster and its queue have room for its group (Volcano: Inqueue)."""


@event("lahar.decision.bound.v1", topic="decisions")
class DecidedBound(DecisionEvent):
    """Attempts get their nodes, all of them or none: a gang is bound in one decision."""

    placements: list[Placement]


@event("lahar.decision.pipelined.v1", topic="decisions")
class DecidedPipelined(DecisionEvent):
    """Attempts wait for room on these nodes that other pods are about to free."""

    placements: list[Placement]


@event("lahar.decision.evicted.v1", topic="decisions")
class DecidedEvicted(DecisionEvent):
    """Attempts give up their nodes. The job's policies for PodEvicted decide on the job; no retry is used up."""

    reason: EvictionReason
    attempts: list[AttemptKey] = field(default_factory=list)
    """At most 250; empty: the whole job, which is requeued."""
    preemptor: str = ""
    """The job that gets their place; empty: none in particular."""
    claims: list[Placement] = field(default_factory=list)
    """Pods of that job with the nodes where their places are kept; each pod in one of the round's decisions that evict for it."""
    kept_until: Micros | None = None
    """When the places that are kept for that job are free for all again, unless its pods have nodes before.

    The same in all of the round's decisions that evict for the job: they are free at once only if all of these are refused."""


@event("lahar.decision.unschedulable.v1", topic="decisions")
class DecidedUnschedulable(DecisionEvent):
    """The job's group cannot be placed now. Made when the reason changes."""

    reason: str
    """In one word: `NotEnoughResources`, `NotEnoughTasks`, `NotEnoughPodsOfTask` (Volcano), or the scheduling stage's own."""
    message: str = ""


@event("lahar.decision.noticed.v1", topic="decisions")
class DecidedNoticed(DecisionEvent):
    """The job is part of a notice of preemption: a preemptor becomes Privileged, a victim WillEvicted."""

    notice: str
    """Subject of the notice's records in `preemptions`."""
    role: Literal["preemptor", "victim"]
    """Whether others are to be stopped for it, or it for another."""
    deadline: Micros
    """When the victims are stopped, unless all have acknowledged before."""


@event("lahar.decision.notice_ended.v1", topic="decisions")
class DecidedNoticeEnded(DecisionEvent):
    """The notice has ended for the job. A victim of an executed one is stopped as its `onPreempted` says; no retry is used up."""

    notice: str
    """Subject of the notice's records in `preemptions`."""
    outcome: Literal["executed", "withdrawn"]
    """`withdrawn`: as a whole, or for this victim alone."""
    preemptor: str = ""
    """The job for which a victim is stopped; empty: it is not stopped."""
    reserved: Micros | None = None
    """For the preemptor of an executed one: until when the freed place is kept for it at most."""


@event("lahar.decision.accepted.v1", topic="job-events")
class DecisionAccepted(Data):
    """A decision takes effect, with its content; its consequences have this event as their cause."""

    decision: str
    kind: DecisionKind
    placements: list[Placement] = field(default_factory=list)
    """For `bound`: the nodes on which these attempts are to run. For `pipelined`: the nodes that they wait for."""
    attempts: list[AttemptKey] = field(default_factory=list)
    """For `evicted`; empty: the whole job."""
    reason: str | None = None
    """For `evicted` and `unschedulable`. For `notice_ended`: `executed` or `withdrawn`."""
    preemptor: str = ""
    """The job that gets the place of evicted attempts, or of the stopped victim; empty: none in particular."""
    message: str = ""


@event("lahar.decision.refused.v1", topic="job-events")
class DecisionRefused(Data):
    """A decision does not fit the job's present state; it has no other effect."""

    decision: str
    kind: DecisionKind
    reason: Refusal
    message: str = ""
