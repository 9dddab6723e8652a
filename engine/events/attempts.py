"""Events about attempts: the third level of `job-events` (`engine.events.jobs`)."""

from __future__ import annotations

from typing import Literal

from msgspec import field

from engine.events.times import Duration, Micros
from engine.events.vocabulary import Data, event
from statemachines.spec import Requests
from statemachines.value import Value
from statemachines.vocabulary import AttemptPhase, ObjectState, Rank, TerminalPhase


class AttemptEvent(Data):
    """Fields of every event about an attempt."""

    task: str
    index: int
    attempt: int
    """Number of the attempt within its replica, from 1."""
    version: str | None = None
    """resourceVersion of the observation that caused it."""
    message: str = ""
    """An excerpt of the messages of scheduler, kubelet and containers about its state."""
    arrived: Micros | None = None
    """When its cause was recorded, if that is before `recordedtime`: the shard had taken later inputs."""


class EarlierAttempt(Value):
    """The attempt that a pod was in the job from which it moved."""

    job: str
    """Id of that job."""
    task: str
    """Its task there."""
    index: int
    """Its replica there."""
    attempt: int
    """Its number there."""


@event("lahar.attempt.started.v1", topic="job-events")
class AttemptStarted(AttemptEvent):
    """An attempt is requested (managed job) or first observed. Phase Pending."""

    uid: str | None = None
    """uid of the pod; `None` until it is observed."""
    pod: str = ""
    """Name of the pod."""
    requests: Requests = Requests()
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
    controller: str | None = None
    """uid of the observed pod's controller, where the job is an owner above it."""
    moved_from: EarlierAttempt | None = None
    """Attempt of its pod in the job that had it before (`lahar.attempt.moved`); `None`: no job had it."""


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
    """The attempt has ended; exactly one such event for each attempt whose pod does not move to another job."""

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
    requests: Requests = Requests()
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
    owner: str | None = None
    """Owner of the pod since its controller changed, `KIND/NAME`; empty: it has none any more. The attempt stays with its job."""
    controller: str | None = None
    """uid of the controller since it changed; that of the pod, if it has none any more."""


@event("lahar.attempt.moved.v1", topic="job-events")
class AttemptMoved(AttemptEvent):
    """The pod is an attempt of another job: it became known that this job is a part of that one. A pod moves at most once.

    The attempt never was one of this job, and its use is billed to the other job alone. Its time is that of the attempt's start.
    """

    uid: str = ""
    """uid of the pod."""
    pod: str = ""
    """Name of the pod."""
    to: str = ""
    """Id of the job that has it from now on."""
    owner: str = ""
    """That job, `KIND/NAME`."""
    reason: Literal["chain", "pod"] = "chain"
    """How that became known: the pod's chain of controllers was read up to that job, or the pod that controls it belongs to it."""


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
    terminating: Micros | None = None
    """When its deletion began, if the attempt was closed before that was observed."""


@event("lahar.attempt.object_changed.v1", topic="job-events")
class AttemptObjectChanged(AttemptEvent):
    """The pod object of an attempt that has ended is being deleted, or is gone; its phase and reason stay."""

    object: Literal["deleting", "gone"] = "gone"
    """New state of the object."""
    replaceable: bool = False
    """The replica is open for another attempt as soon as the object is gone (Volcano: a failed pod that somebody deletes)."""
    why: str = ""
    """Why it counts as gone without an observed deletion; empty: the deletion was observed."""
