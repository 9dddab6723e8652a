"""Job events: every change at the three levels, its cause, and the outcome of each input.

Only the lifecycle stage writes them, to `job-events`, keyed by job id; within a job they are ordered and gapless (`sequence`).
State is the fold of these events.
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
    """A job begins: submitted and accepted (managed), or first observed. Phase Pending. The first event of a job."""

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
    """The job object itself was observed, not only its pods."""
    version: str | None = None
    """resourceVersion of the observed job object."""
    shapes: dict[str, PodShape] = field(default_factory=dict)
    """Task → shape of its pods, for a job that Lahar schedules."""
    annotations: dict[str, str] = field(default_factory=dict)
    """Annotations that plugins of the scheduler read, for a job that Lahar schedules."""


@event("lahar.job.revised.v1", topic="job-events")
class JobRevised(Data):
    """Facts about the job changed: a managed job was updated, or the owner of an observed one was first observed.

    `None` means unchanged.
    """

    spec: JobSpec | None = None
    """The whole new specification, without pod templates (they cannot change)."""
    kind: str | None = None
    name: str | None = None
    namespace: str | None = None
    tenant: str | None = None
    project: str | None = None
    user: str | None = None
    labels: dict[str, str] | None = None
    owner: bool = False
    """The job object itself was first observed."""
    created: Micros | None = None
    """When the job object was created, which may be before its first observed pod."""
    version: str | None = None
    reason: str | None = None
    """Reason of its phase in the job object (`JobSuspended`); empty: the object has none."""
    message: str | None = None
    """An excerpt of the object's message."""


@event("lahar.job.phase_changed.v1", topic="job-events")
class JobPhaseChanged(Data):
    """The job changes its phase. `retry_count`, `restarts` and `version` are the values after the change."""

    phase: JobPhase
    previous: JobPhase
    reason: str | None = None
    """The owner's reason, or the action or rule that led to the phase."""
    retry_count: int = 0
    restarts: int = 0
    version: int = 0
    """Times the whole job was killed (Volcano `status.version`)."""
    object_version: str | None = None
    """resourceVersion of the job object with the status."""
    inferred: bool = False
    """End of an observed job that its owner did not state: derived from its attempts, and revoked by a new one."""
    without_end: bool = False
    message: str = ""
    """An excerpt of the owner's message about the phase."""


@event("lahar.task.phase_changed.v1", topic="job-events")
class TaskPhaseChanged(Data):
    """A task changes its phase."""

    task: str
    phase: TaskPhase
    previous: TaskPhase
    reason: str | None = None


@part
class AttemptEvent(Data):
    """Fields of every event about an attempt."""

    task: str
    index: int
    attempt: int
    """Number of the attempt within its replica, from 1."""
    version: str | None = field(default=None, kw_only=True)
    """resourceVersion of the observation that caused it."""
    message: str = field(default="", kw_only=True)
    """An excerpt of the messages of scheduler, kubelet and containers about its state."""


@event("lahar.attempt.started.v1", topic="job-events")
class AttemptStarted(AttemptEvent):
    """An attempt is requested (managed job) or first observed. Phase Pending."""

    uid: str | None = None
    """uid of the pod; `None` until it is observed."""
    pod: str = ""
    """Name of the pod."""
    requests: Requests = field(default_factory=Requests)
    slot: Literal["given", "reused", "new"] = "given"
    """How the replica was chosen: named by the pod (or by Lahar), the lowest one whose last attempt did not succeed, a new one."""
    job_version: int = 0
    reason: str | None = "Queued"
    past: bool = False
    """Its replica has a newer pod already, which stays the current attempt."""
    skipped: bool = False
    """Not observed: the source shows a later phase already."""
    resources: dict[str, int] = field(default_factory=dict)
    """Requests of the observed pod beside cpu, memory and `nvidia.com/gpu`: resource name → thousandths of the unit."""
    host_ports: list[str] = field(default_factory=list)
    """Host ports of the observed pod: `53/UDP`, `53/UDP/10.0.0.1`."""


@event("lahar.attempt.bound.v1", topic="job-events")
class AttemptBound(AttemptEvent):
    """The attempt has a node."""

    node: str = ""
    node_type: str | None = None
    """Type by the cluster facts taken so far; `None`: unknown."""
    gpu_model: str | None = None
    reason: str | None = None
    previous: AttemptPhase = "Pending"
    inferred: bool = False
    """The source has no time of it; this one is the best available."""
    skipped: bool = False
    """Not observed: the source shows a later phase already."""


@event("lahar.attempt.running.v1", topic="job-events")
class AttemptRunning(AttemptEvent):
    """A container of the attempt has started."""

    previous: AttemptPhase = "Bound"
    reason: str | None = None
    inferred: bool = False
    """As in `lahar.attempt.bound`."""
    ready: bool = False
    skipped: bool = False
    """Not observed: the source shows a later phase already."""


@event("lahar.attempt.terminating.v1", topic="job-events")
class AttemptTerminating(AttemptEvent):
    """Its deletion was requested; it still holds its node."""

    previous: AttemptPhase = "Running"
    reason: str | None = None
    deadline: Micros | None = None
    """End of its grace period."""
    skipped: bool = False
    """Not observed: the source shows a later phase already."""


@event("lahar.attempt.ended.v1", topic="job-events")
class AttemptEnded(AttemptEvent):
    """The attempt has ended; exactly one such event for each attempt."""

    phase: TerminalPhase = "Succeeded"
    previous: AttemptPhase = "Running"
    reason: str | None = None
    exit_code: int | None = None
    rank: Rank = "node"
    inferred: bool = False
    """There is no evidence of the end; its time is the last proof of life."""
    replaceable: bool = False
    """The replica is open for another attempt without any policy (evicted, lost, deleted, or killed to be replaced)."""
    node: str | None = None
    started: Micros | None = None
    """When it began to run; `None`: it never ran."""
    ran: Duration = 0
    """From `started` to the end."""
    requests: Requests = field(default_factory=Requests)
    """Requests at the end."""
    object: ObjectState = "exists"
    """State of its pod object, which keeps its name until it is gone."""


@event("lahar.attempt.changed.v1", topic="job-events")
class AttemptChanged(AttemptEvent):
    """A live attempt changed in something other than its phase. `None` means unchanged.

    A message that differs from the last one in its numbers only makes no event; it is part of the next one.
    """

    uid: str | None = None
    """uid of the pod, at its first observation."""
    reason: str | None = None
    reason_changed: bool = False
    """`reason` is the new reason, which may be none."""
    restarts: int | None = None
    ready: bool | None = None
    requests: Requests | None = None
    disruption: str | None = None
    """Announced disruption (DisruptionTarget), which may be withdrawn."""
    started: Micros | None = None
    """When it began to run, if that was observed only after the request of its deletion."""


@event("lahar.attempt.late_fact.v1", topic="job-events")
class AttemptLateFact(AttemptEvent):
    """A new fact about a closed attempt. Its phase and reason stay; billing weighs ends by rank."""

    phase: AttemptPhase = "Succeeded"
    reason: str | None = None
    exit_code: int | None = None
    rank: Rank = "node"
    started: Micros | None = None
    """When its first container started, if the attempt was closed without being observed running."""
    ended: Micros | None = None
    uid: str | None = None
    """uid of the pod, if the attempt was closed before its first observation."""


@event("lahar.attempt.object_changed.v1", topic="job-events")
class AttemptObjectChanged(AttemptEvent):
    """The pod object of an attempt that has ended is being deleted, or is gone; its phase and reason stay."""

    object: Literal["deleting", "gone"] = "gone"
    """New state of the object."""
    replaceable: bool = False
    """The replica is open for another attempt as soon as the object is gone (Volcano: a failed pod that somebody deletes)."""
    why: str = ""
    """Why it counts as gone without an observed deletion; empty: the deletion was observed."""


@event("lahar.event.raised.v1", topic="job-events")
class EventRaised(Data):
    """A lifecycle event, built-in or custom, which policies match."""

    event: str
    task: str | None = None
    index: int | None = None
    attempt: int | None = None
    exit_code: int | None = None
    version: int = 0
    """Job version of the pod that raised it."""
    rule: int | None = None
    """Position of the `raise` rule that raised it; `None`: a fact or a person raised it."""
    depth: int = 0
    """Length of the chain of events that raise events."""
    data: dict[str, Any] = field(default_factory=dict)
    by: str = ""


@event("lahar.job.action_taken.v1", topic="job-events")
class ActionTaken(Data):
    """An action is carried out on the job or a part of it."""

    action: Action
    policy: str | None = None
    """Path of the policy that requested it, `spec.tasks[1].policies[0]`; `None`: a command or a rule of the engine."""
    event: str | None = None
    """Lifecycle event that the policy matched."""
    task: str | None = None
    index: int | None = None
    partition: int | None = None
    by: str = ""
    reason: str = ""
    deferred: bool = False
    """It was requested during Restarting and is carried out now."""


@event("lahar.job.action_deferred.v1", topic="job-events")
class ActionDeferred(Data):
    """An Abort, Terminate or Complete requested during Restarting is remembered until the restart resolves."""

    action: Action
    by: str = ""
    reason: str = ""
    policy: str | None = None
    """Path of the policy that requested it; `None`: a command or a rule of the engine."""
    event: str | None = None
    """Lifecycle event that the policy matched."""
    commanded: bool = True
    """Requested by a person, or by the deletion of the job's object."""


TimerKind = Literal["policy", "active_deadline", "ttl", "orphan_wait", "effect", "lost", "step"]


@event("lahar.timer.set.v1", topic="job-events")
class TimerSet(Data):
    """A timer is set; its id is this event's id.

    `policy`: a delayed action. `effect`: a failed effect is requested again. `lost`: pods that are no longer observed are given up.
    `step`: the next part of work on a large job. The other kinds are limits of the job.
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
    """The deleted node (`lost`)."""
    kill: KillScope | None = None
    """Target of the kill that the step continues; `None`: the step does the job's other pending work."""
    reason: str | None = None
    """Reason of the ends by the kill, or of the step."""
    held: bool = False
    """The timer is paused until the job is neither parked nor has held inputs."""
    depth: int = 0
    """Length of the chain of events that raise events, which the timer continues."""


@event("lahar.timer.cancelled.v1", topic="job-events")
class TimerCancelled(Data):
    """The timer will not fire."""

    id: str
    why: str = ""


@event("lahar.delays.cancelled.v1", topic="job-events")
class DelaysCancelled(Data):
    """Delayed actions are cancelled: none of their timers (`policy`) will fire. A large job may have one per replica."""

    actions: list[Action]
    """All pending delayed actions of these kinds that act on `part`."""
    part: Literal["job", "task", "partition"] = "job"
    """`job`: all of them. `task`, `partition`: those on the same one."""
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
    """A timer fires; `time` is when it was due."""

    id: str


@event("lahar.effect.requested.v1", topic="job-events")
class EffectRequested(Data):
    """An effect outside Lahar is requested from a consumer that knows whether it is live."""

    effect: Literal["create_pod", "bind_pod", "delete_pod", "delete_job"]
    pod: str | None = None
    uid: str | None = None
    """Precondition of a deletion; without it the pod is the one whose annotations name this job and attempt."""
    task: str | None = None
    index: int | None = None
    attempt: int | None = None
    cause: str | None = None
    """For a deletion: reason of the attempt's end; `None`: the deletion has another origin, and is requested again."""
    node: str | None = None
    """For a binding: node on which the pod is to run."""


@event("lahar.effect.settled.v1", topic="job-events")
class EffectSettled(Data):
    """Outcome of a requested effect or a callback."""

    effect: str
    outcome: Literal["done", "failed", "disabled", "resumed"]
    name: str = ""
    message: str = ""
    reason: EffectFailure | None = None
    """Why the API server refused it, if known."""
    principal: str = ""
    """Sender of a report about an id that is no job. It is recognised as a repeat from this sender only."""


@part
class Fault:
    """One fault of a specification."""

    path: str
    """`spec.tasks[1].replicas`"""
    message: str


@event("lahar.job.rejected.v1", topic="job-events")
class JobRejected(Data):
    """A submission or update breaks the rules; it has no other effect."""

    name: str
    faults: list[Fault]
    update: bool = False
    principal: str | None = None
    """Sender of a submission. It is recognised as a repeat from this sender only."""
    manifest: str | None = None
    """Digest of the submission: with another manifest the same submission is decided again."""
    input: str | None = None
    """Id of the submission if it was held; `None`: the submission is the cause."""


@event("lahar.command.refused.v1", topic="job-events")
class CommandRefused(Data):
    """A command or custom event cannot be carried out in the job's present state."""

    command: str
    reason: str
    by: str = ""
    principal: str | None = None
    """Sender without the right, or about an id that is no job; the request is recognised as a repeat from this sender only. `None`:
    an authorised sender."""
    cluster: str | None = None
    """Cluster of the sender; `None`: the job's."""


@event("lahar.job.object_deleted.v1", topic="job-events")
class JobObjectDeleted(Data):
    """The job's object is gone, or its deletion was requested."""

    version: str | None = None


@event("lahar.job.forgotten.v1", topic="job-events", stability="operational")
class JobForgotten(Data):
    """Long after its end the job is removed from the state; its history stays in the log. Later facts about it are late."""

    finished: Micros
    """When it finished; for an aborted job or an id that is no job, time of its last event."""
    opened: bool = True
    """False: it was an id without a job. Later inputs about it are decided as if it were new."""


@event("lahar.job.parked.v1", topic="job-events")
class JobParked(Data):
    """A decision on an input broke an invariant: this and all later inputs of the job wait for `lahar job unpark`."""

    error: str


@event("lahar.job.unparked.v1", topic="job-events")
class JobUnparked(Data):
    """The job is unparked: its parked inputs are decided again in order, then its timers continue."""

    inputs: int
    by: str = ""
    principal: str | None = None
    """Sender, if the id is no job; the request is recognised as a repeat from this sender only. `None`: it is a job."""


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
    """Job of the input, if it is not the job that held it."""


@event("lahar.anomaly.v1", topic="job-events")
class Anomaly(Data):
    """An observation that the tables do not list, or that contradicts known facts. It has no other effect."""

    what: str
    level: Level = "job"
    task: str | None = None
    index: int | None = None
    attempt: int | None = None
    pod: str | None = None


@event("lahar.import.row_rejected.v1", topic="job-events")
class RowRejected(Data):
    """An invalid row of an imported trace."""

    format: str
    line: int
    reason: str


@event("lahar.shard.dead_lettered.v1", topic="dead-letters", stability="operational")
class DeadLettered(Data):
    """Unreadable bytes, with their origin.

    On Kafka the bytes are the value of the record and the other fields are headers; only a letter without bytes is JSON there.
    """

    reason: str
    topic: str
    partition: int
    """Partition of the topic."""
    offset: int
    key: str
    content: str
    """Data of the record, base64; empty if there is a `digest`."""
    attributes: dict[str, str] = field(default_factory=dict)
    """CloudEvents attributes of the record."""
    digest: str = ""
    """SHA-256 of the data, hexadecimal, in place of content and attributes that are too large for the log. The record itself is
    still in its topic."""


@event("lahar.dead_letter.discarded.v1", topic="job-events", stability="operational")
class LetterDiscarded(Data):
    """A dead letter, whose id is the subject, was reviewed and is no longer open. Nothing is deleted."""

    by: str = ""
    """Stated sender."""
    reason: str = ""
    principal: str = ""
    """Sender as known to the interface that received it; empty: unknown."""


@event("lahar.shard.accounted.v1", topic="job-events", stability="operational")
class Accounted(Data):
    """Inputs of one commit without an event of their own. Depends on how inputs were batched into commits."""

    now: Micros
    duplicate: int = 0
    unchanged: int = 0
    late: int = 0
    """Inputs about forgotten jobs."""
