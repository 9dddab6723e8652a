"""Work on a large job in steps: one commit each, with other jobs' inputs in between.

The remaining work is a timer of the job (`step`), due a little later. So it survives a restart, is decided on the job's state at
that time, and its order against inputs depends on time alone, whether or not the shard is busy. A step of a kill names its
deletions; any other step releases held inputs and requests or deletes pods.
"""

from __future__ import annotations

from typing import Final

from engine.events.actions import TimerSet
from engine.lifecycle.action_request import ActionRequest
from engine.lifecycle.event_factory import EventFactory, Events
from engine.lifecycle.job import Job
from statemachines.kill import KillScope

PODS: Final = 250
"""Number of pods that one step requests or deletes: 20 ms."""
RELEASED: Final = 100
"""Number of inputs that one step releases: 20 ms."""
RELEASED_BYTES: Final = 256 << 10
"""Bytes of released inputs after which a step ends: 60 ms."""
WORK: Final = 25_000
"""Work (`EventFactory.work`) after which a step ends: 100 ms. One input or one attempt's end may exceed it by as much again."""
RAISING: Final = 10
"""Work of one raised event, counted in examined pods. A job with this many raise rules for replicas has steps of half the size."""
IN_VAIN: Final = "the job has not come"
"""Reason of a step that releases pods whose wait for their job has expired."""
PACE: Final = 50_000
"""Time between steps (microseconds). Longer than a step takes, so that inputs of other jobs wait for one or two steps."""


def room(job: Job, most: int) -> int:
    """Return the number of pods for one step, at most `most`; fewer if raise rules are matched against each."""
    return max(1, most // (1 + sum(rule.level == "replica" for rule in job.rules) // RAISING))


def go_on(factory: EventFactory, job: Job, reason: str | None = None) -> Events:
    """Set the timer of the next step, unless it is set."""
    if not job.steps:
        yield factory.event(job, TimerSet("step", factory.now + PACE, reason=reason, depth=factory.depth))


def go_on_killing(factory: EventFactory, job: Job, scope: KillScope, request: ActionRequest, reason: str) -> Events:
    """Set the timer of the next step of a kill."""
    due = factory.now + PACE
    yield factory.event(
        job,
        TimerSet(
            "step",
            due,
            action=request.action,
            task=request.task,
            index=request.index,
            partition=request.partition,
            kill=scope,
            reason=reason,
            depth=factory.depth,
        ),
    )
