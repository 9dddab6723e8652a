"""Events about reactions: raised events, actions, timers and requested effects, in `job-events` (`engine.events.jobs`)."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import field

from engine.events.times import Micros
from engine.events.vocabulary import Data, event
from statemachines.kill import KillScope
from statemachines.vocabulary import Action, EffectFailure


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
