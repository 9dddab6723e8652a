"""Job events: the truth. Every change at the three levels, its cause, and the outcome of each input.

They are written by the lifecycle stage only, to `job-events`, keyed by job id; within a job they are ordered and gapless
(`sequence`). State is the fold of these events.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, Literal

from engine.events.pod_shape import PodShape
from engine.events.times import Duration, Micros
from engine.events.vocabulary import Data, event, part
from statemachines.kill import KillScope
from statemachines.spec import JobSpec, Requests
from statemachines.vocabulary import (
    Action,
    AttemptPhase,
    EffectFailure,
    JobPhase,
    Level,
    ObjectState,
    Rank,
    TaskPhase,
    TerminalPhase,
)

__all__ = [
    "Accounted",
    "ActionDeferred",
    "ActionTaken",
    "Anomaly",
    "AttemptBound",
    "AttemptChanged",
    "AttemptEnded",
    "AttemptEvent",
    "AttemptLateFact",
    "AttemptObjectChanged",
    "AttemptRunning",
    "AttemptStarted",
    "AttemptTerminating",
    "CommandRefused",
    "DeadLettered",
    "DelaysCancelled",
    "EffectRequested",
    "EffectSettled",
    "EventRaised",
    "Fault",
    "InputOrphaned",
    "InputParked",
    "InputReleased",
    "JobForgotten",
    "JobObjectDeleted",
    "JobOpened",
    "JobParked",
    "JobPhaseChanged",
    "JobRejected",
    "JobRevised",
    "JobUnparked",
    "LetterDiscarded",
    "RowRejected",
    "TaskPhaseChanged",
    "TimerCancelled",
    "TimerFired",
    "TimerKind",
    "TimerSet",
]


@event("lahar.job.opened.v1", topic="job-events")
class JobOpened(Data):
    """A job begins: submitted and accepted (managed), or first seen (observed). Phase Pending. The first event of a job."""

    kind: str
    """`Job` (batch/v1), `VCJob`, `Trace`, … ; `Other` for pods of services and of nobody."""
    name: str
    managed: bool
    spec: JobSpec
    namespace: str = "default"
    tenant: str = ""
    """Label `lahar/tenant`, else the namespace."""
    project: str = ""
    user: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    owner: bool = False
    """The job object itself has been seen, not just its pods."""
    version: str | None = None
    """resourceVersion of the job object seen."""
    shapes: dict[str, PodShape] = field(default_factory=dict)
    """Task → what scheduling must know of its pods; of a job that we schedule."""
    annotations: dict[str, str] = field(default_factory=dict)
    """Those that plugins of the scheduler read; of a job that we schedule."""


@event("lahar.job.revised.v1", topic="job-events")
class JobRevised(Data):
    """What is known of the job has changed: a managed job was updated, or the owner of an observed one came into view.

    `None` means unchanged.
    """

    spec: JobSpec | None = None
    """The whole specification anew, without pod templates (they cannot change)."""
    kind: str | None = None
    name: str | None = None
    namespace: str | None = None
    tenant: str | None = None
    project: str | None = None
    user: str | None = None
    labels: dict[str, str] | None = None
    owner: bool = False
    """The job object itself has come into view."""
    created: Micros | None = None
    """When the job object was created, which may be before its first pod was seen."""
    version: str | None = None
    reason: str | None = None
    """Reason of its phase in the present object (`JobSuspended`); empty: the object gives none."""
    message: str | None = None
    """An excerpt of the object's message."""


@event("lahar.job.phase_changed.v1", topic="job-events")
class JobPhaseChanged(Data):
    """The job moves from one phase to another. `retry_count`, `restarts` and `version` are the values after the change."""

    phase: JobPhase
    previous: JobPhase
    reason: str | None = None
    """The owner's reason, or the action or rule that led here."""
    retry_count: int = 0
    restarts: int = 0
    version: int = 0
    """Times the whole job was killed (Volcano `status.version`)."""
    object_version: str | None = None
    """resourceVersion of the job object whose status says so."""
    inferred: bool = False
    """An observed job's end that its owner did not state: it follows from its attempts and may be taken back by a new one."""
    without_end: bool = False
    message: str = ""
    """An excerpt of the owner's message about the phase."""


@event("lahar.task.phase_changed.v1", topic="job-events")
class TaskPhaseChanged(Data):
    """A task moves from one phase to another."""

    task: str
    phase: TaskPhase
    previous: TaskPhase
    reason: str | None = None


@part
class AttemptEvent(Data):
    """What every event about an attempt carries: which attempt it is."""

    task: str
    index: int
    attempt: int
    """Number of the attempt within its replica, from 1."""
    version: str | None = field(default=None, kw_only=True)
    """resourceVersion of the observation it comes from."""
    message: str = field(default="", kw_only=True)
    """An excerpt of the messages of scheduler, kubelet and containers about its state."""


@event("lahar.attempt.started.v1", topic="job-events")
class AttemptStarted(AttemptEvent):
    """An attempt is wanted (managed job) or seen. Phase Pending."""

    uid: str | None = None
    """The pod's uid; `None` until it is observed."""
    pod: str = ""
    """The pod's name."""
    requests: Requests = field(default_factory=Requests)
    slot: Literal["given", "reused", "new"] = "given"
    """How the replica was chosen: named by the pod (or by us), the lowest one whose last attempt ended badly, a new one."""
    job_version: int = 0
    reason: str | None = "Queued"
    past: bool = False
    """Its replica has a newer pod already, which stays the current attempt."""
    skipped: bool = False
    """Not observed: the source shows a later phase already."""
    resources: dict[str, int] = field(default_factory=dict)
    """What the pod seen asks for beside cpu, memory and `nvidia.com/gpu`, by resource name, in thousandths of the unit."""
    host_ports: list[str] = field(default_factory=list)
    """Ports of its node that the pod seen takes: `53/UDP`, `53/UDP/10.0.0.1`."""


@event("lahar.attempt.bound.v1", topic="job-events")
class AttemptBound(AttemptEvent):
    """The attempt has a node."""

    node: str = ""
    node_type: str | None = None
    """From the cluster facts taken so far; `None`: unknown."""
    gpu_model: str | None = None
    reason: str | None = None
    previous: AttemptPhase = "Pending"
    inferred: bool = False
    """The source gives no time of it; this one is the best that it allows."""
    skipped: bool = False
    """Not observed: the source shows a later phase already."""


@event("lahar.attempt.running.v1", topic="job-events")
class AttemptRunning(AttemptEvent):
    """A container of the attempt has started."""

    previous: AttemptPhase = "Bound"
    reason: str | None = None
    inferred: bool = False
    """As of `lahar.attempt.bound`."""
    ready: bool = False
    skipped: bool = False
    """Not observed: the source shows a later phase already."""


@event("lahar.attempt.terminating.v1", topic="job-events")
class AttemptTerminating(AttemptEvent):
    """Its deletion was asked for; it still holds its node."""

    previous: AttemptPhase = "Running"
    reason: str | None = None
    deadline: Micros | None = None
    """When its grace period ends."""
    skipped: bool = False
    """Not observed: the source shows a later phase already."""


@event("lahar.attempt.ended.v1", topic="job-events")
class AttemptEnded(AttemptEvent):
    """The attempt is over; exactly one such event for each attempt."""

    phase: TerminalPhase = "Succeeded"
    previous: AttemptPhase = "Running"
    reason: str | None = None
    exit_code: int | None = None
    rank: Rank = "node"
    inferred: bool = False
    """No evidence of the end: the time is the last proof of life."""
    replaceable: bool = False
    """The replica is open for another attempt without any policy (evicted, lost, deleted, or killed to be replaced)."""
    node: str | None = None
    started: Micros | None = None
    """When it began to run; `None`: it never ran."""
    ran: Duration = 0
    """From `started` to the end."""
    requests: Requests = field(default_factory=Requests)
    """As of the end."""
    object: ObjectState = "exists"
    """What is known of its pod object: an ended attempt keeps its name until that is gone."""


@event("lahar.attempt.changed.v1", topic="job-events")
class AttemptChanged(AttemptEvent):
    """Something about a live attempt changed that is no phase. `None` means unchanged.

    A message that differs from the last one in its numbers only makes no event; it comes with the next one.
    """

    uid: str | None = None
    """The pod of an attempt that was wanted has come into view."""
    reason: str | None = None
    reason_changed: bool = False
    """`reason` holds the new reason, which may be none."""
    restarts: int | None = None
    ready: bool | None = None
    requests: Requests | None = None
    disruption: str | None = None
    """A disruption was announced for it (DisruptionTarget); it may be withdrawn."""
    started: Micros | None = None
    """When it began to run, where that is seen only after its deletion was asked for."""


@event("lahar.attempt.late_fact.v1", topic="job-events")
class AttemptLateFact(AttemptEvent):
    """Something was learnt about an attempt that is already closed. Its phase and reason stay; billing weighs ends by rank."""

    phase: AttemptPhase = "Succeeded"
    reason: str | None = None
    exit_code: int | None = None
    rank: Rank = "node"
    started: Micros | None = None
    """When its first container started, where the attempt was closed without having been seen to run."""
    ended: Micros | None = None
    uid: str | None = None
    """The pod, where the attempt was closed before it came into view."""


@event("lahar.attempt.object_changed.v1", topic="job-events")
class AttemptObjectChanged(AttemptEvent):
    """The pod object of an attempt that has ended is being deleted, or is gone; its phase and reason stay."""

    object: Literal["deleting", "gone"] = "gone"
    """What is known of it now."""
    replaceable: bool = False
    """The replica is open for another attempt as soon as the object is gone (Volcano: a failed pod that somebody deletes)."""
    why: str = ""
    """Why it counts as gone without an observed deletion; empty: it was observed."""


@event("lahar.event.raised.v1", topic="job-events")
class EventRaised(Data):
    """A lifecycle event, built-in or custom, to which policies answer."""

    event: str
    task: str | None = None
    index: int | None = None
    attempt: int | None = None
    exit_code: int | None = None
    version: int = 0
    """Job version of the pod that raised it."""
    rule: int | None = None
    """Position of the `raise` rule that raised it; `None`: a fact or a person did."""
    depth: int = 0
    """Length of the chain of events that raise events."""
    data: dict[str, Any] = field(default_factory=dict)
    by: str = ""


@event("lahar.job.action_taken.v1", topic="job-events")
class ActionTaken(Data):
    """An action is carried out on the job or a part of it."""

    action: Action
    policy: str | None = None
    """Path of the policy that asked for it, `spec.tasks[1].policies[0]`; `None`: a command or a rule of the engine."""
    event: str | None = None
    """Lifecycle event that the policy matched."""
    task: str | None = None
    index: int | None = None
    partition: int | None = None
    by: str = ""
    reason: str = ""
    deferred: bool = False
    """It was asked for during Restarting and is carried out now."""


@event("lahar.job.action_deferred.v1", topic="job-events")
class ActionDeferred(Data):
    """An Abort, Terminate or Complete asked for during Restarting is remembered until the restart resolves."""

    action: Action
    by: str = ""
    reason: str = ""
    policy: str | None = None
    """Path of the policy that asked for it; `None`: a command or a rule of the engine."""
    event: str | None = None
    """Lifecycle event that the policy matched."""
    commanded: bool = True
    """A person asked for it, or the job's object was deleted."""


TimerKind = Literal["policy", "active_deadline", "ttl", "orphan_wait", "effect", "lost", "step"]


@event("lahar.timer.set.v1", topic="job-events")
class TimerSet(Data):
    """A timer runs; its id is this event's id.

    `policy`: a delayed action. `effect`: an effect that failed is asked for again. `lost`: pods of which nothing more is seen are
    given up. `step`: the next part of work on a large job. The other kinds are limits of the job.
    """

    timer: TimerKind
    due: Micros
    action: Action | None = None
    policy: str | None = None
    event: str | None = None
    task: str | None = None
    index: int | None = None
    attempt: int | None = None
    partition: int | None = None
    pod: str | None = None
    node: str | None = None
    """The node that is gone (`lost`)."""
    kill: KillScope | None = None
    """Target of the kill that the step continues; `None`: the step does the job's other pending work."""
    reason: str | None = None
    """Reason of the ends by the kill; or of the step."""
    held: bool = False
    """The job is parked, or inputs of it are held: the timer stands still until it is unparked and none is."""
    depth: int = 0
    """Length of the chain of events that raise events that the timer goes on with."""


@event("lahar.timer.cancelled.v1", topic="job-events")
class TimerCancelled(Data):
    """The timer will not fire."""

    id: str
    why: str = ""


@event("lahar.delays.cancelled.v1", topic="job-events")
class DelaysCancelled(Data):
    """Delayed actions will not be carried out: none of their timers (`policy`) will fire. A large job has one for each replica."""

    actions: list[Action]
    """All that run with one of these actions and are about `part`."""
    part: Literal["job", "task", "partition"] = "job"
    """`job`: whatever they are about. `task`, `partition`: those about the same one."""
    task: str | None = None
    partition: int | None = None
    why: str = ""

    def include(self, action: Action | None, task: str | None, partition: int | None) -> bool:
        """Return whether a delayed action is among them."""
        if action not in self.actions or self.part == "job":
            return action in self.actions
        return task == self.task and (self.part == "task" or partition == self.partition)


@event("lahar.timer.fired.v1", topic="job-events")
class TimerFired(Data):
    """The timer's time has come; `time` is when it was due."""

    id: str


@event("lahar.effect.requested.v1", topic="job-events")
class EffectRequested(Data):
    """Something is to be done in the world, by a consumer that knows whether it is live."""

    effect: Literal["create_pod", "bind_pod", "delete_pod", "delete_job"]
    pod: str | None = None
    uid: str | None = None
    """Precondition of a deletion, where the pod has been seen. Else a pod is meant whose annotations name this job and attempt."""
    task: str | None = None
    index: int | None = None
    attempt: int | None = None
    cause: str | None = None
    """For a deletion: the reason that the attempt will end with; `None`: it is another one's, asked for again."""
    node: str | None = None
    """For a binding: the node that the pod is to run on."""


@event("lahar.effect.settled.v1", topic="job-events")
class EffectSettled(Data):
    """Outcome of a requested effect or a callback."""

    effect: str
    outcome: Literal["done", "failed", "disabled", "resumed"]
    name: str = ""
    message: str = ""
    reason: EffectFailure | None = None
    """Why the API server refused it, where that is known."""
    principal: str = ""
    """Who reports it, where it is about no job; only from them is it known when it comes again."""


@part
class Fault:
    """One thing that is wrong with a specification."""

    path: str
    """`spec.tasks[1].replicas`"""
    message: str


@event("lahar.job.rejected.v1", topic="job-events")
class JobRejected(Data):
    """A submission or update breaks the rules; nothing else follows from it."""

    name: str
    faults: list[Fault]
    update: bool = False
    principal: str | None = None
    """Sender of a submission. It is recognised as a repeat from this sender only."""
    manifest: str | None = None
    """Digest of what was submitted: with another manifest the same submission is judged anew."""
    input: str | None = None
    """Id of a submission that was held; `None`: it is the cause."""


@event("lahar.command.refused.v1", topic="job-events")
class CommandRefused(Data):
    """A command or custom event could not be carried out as the job stands."""

    command: str
    reason: str
    by: str = ""
    principal: str | None = None
    """Sender without the right, or about an id that is no job; the request is recognised as a repeat from this sender only. `None`:
    an authorised sender."""
    cluster: str | None = None
    """Cluster that they ask from; `None`: the job's."""


@event("lahar.job.object_deleted.v1", topic="job-events")
class JobObjectDeleted(Data):
    """The job's object is gone or was asked to go."""

    version: str | None = None


@event("lahar.job.forgotten.v1", topic="job-events", stability="operational")
class JobForgotten(Data):
    """Long after its end the job leaves the engine's state; its history stays in the log. Later facts about it are late."""

    finished: Micros
    """When it finished; for an aborted job or an id that is no job, time of its last event."""
    opened: bool = True
    """False: it was an id without a job. Later inputs about it are decided from scratch."""


@event("lahar.job.parked.v1", topic="job-events")
class JobParked(Data):
    """Deciding about an input broke an invariant: this and all later inputs of the job wait for `lahar job unpark`."""

    error: str


@event("lahar.job.unparked.v1", topic="job-events")
class JobUnparked(Data):
    """The job is resumed: its parked inputs are decided again in order, then its timers run again."""

    inputs: int
    by: str = ""
    principal: str | None = None
    """Sender, if the id is no job; the request is recognised as a repeat from this sender only. `None`: the job remembers it."""


@event("lahar.input.parked.v1", topic="job-events", stability="operational")
class InputParked(Data):
    """An input of a parked job, kept whole."""

    input: dict[str, Any]
    """The input as a CloudEvent."""


@event("lahar.input.orphaned.v1", topic="job-events", stability="operational")
class InputOrphaned(Data):
    """A pod that names a managed job which is not known yet waits for it."""

    input: dict[str, Any]


@event("lahar.input.released.v1", topic="job-events", stability="operational")
class InputReleased(Data):
    """A parked or waiting input was decided again, with this outcome; its events come before this one."""

    input: str
    """Id of the input."""
    kept: Literal["parked", "waiting"]
    outcome: Literal["parked", "waiting", "rejected", "refused", "late", "anomalous", "duplicate", "unchanged", "applied"]
    job: str | None = None
    """The job that it was about, if that is another one than the job that held it."""


@event("lahar.anomaly.v1", topic="job-events")
class Anomaly(Data):
    """Something that the tables do not list, or that contradicts what is known. Nothing else changes."""

    what: str
    level: Level = "job"
    task: str | None = None
    index: int | None = None
    attempt: int | None = None
    pod: str | None = None


@event("lahar.import.row_rejected.v1", topic="job-events")
class RowRejected(Data):
    """A row of an imported trace that makes no sense."""

    format: str
    line: int
    reason: str


@event("lahar.shard.dead_lettered.v1", topic="dead-letters", stability="operational")
class DeadLettered(Data):
    """Unreadable bytes, with their origin.

    On Kafka the bytes are the value of the record and the rest stands in headers; only a letter without bytes is JSON there.
    """

    reason: str
    topic: str
    partition: int
    """Partition of the topic."""
    offset: int
    key: str
    content: str
    """The record's data, base64. Empty where there is a `digest`."""
    attributes: dict[str, str] = field(default_factory=dict)
    """CloudEvents attributes that came with them."""
    digest: str = ""
    """SHA-256 of the data, hexadecimal, in place of content and attributes: the record's output is too large for the log. The
    record itself is still in its topic."""


@event("lahar.dead_letter.discarded.v1", topic="job-events", stability="operational")
class LetterDiscarded(Data):
    """Somebody has looked at a dead letter, whose id is the subject: it is no longer open. Nothing is deleted."""

    by: str = ""
    """Who asked for it, as they say themselves."""
    reason: str = ""
    principal: str = ""
    """Who the face that took it knows to have asked for it; empty: not known."""


@event("lahar.shard.accounted.v1", topic="job-events", stability="operational")
class Accounted(Data):
    """Inputs of one commit that leave no event of their own. Depends on how inputs fell into commits."""

    now: Micros
    duplicate: int = 0
    unchanged: int = 0
    late: int = 0
    """About forgotten jobs."""
