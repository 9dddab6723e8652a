"""Work on a large job in steps: one commit each, with other jobs' inputs in between.

The remaining work is a timer of the job (`step`), due a little later. So it survives a restart, is decided on the job's state at
that time, and is ordered against inputs by time alone, whether the shard is busy or not. A step that goes on with a kill says what
it deletes; any other one does what the job lacks: inputs to be released, pods to be asked for or deleted.
"""

from __future__ import annotations

from typing import Final

from engine.events.jobs import TimerSet
from engine.lifecycle.orders import Order
from engine.lifecycle.state import Job
from engine.lifecycle.turn import Events, Turn
from statemachines.kill import KillScope

__all__ = ["IN_VAIN", "PACE", "PODS", "RAISING", "RELEASED", "RELEASED_BYTES", "WORK", "go_on", "go_on_killing", "room"]

PODS: Final = 250
"""Pods that one step asks for or deletes: 20 ms."""
RELEASED: Final = 100
"""Inputs that one step releases: 20 ms."""
RELEASED_BYTES: Final = 256 << 10
"""Bytes of these, after which no other one is released: 60 ms."""
WORK: Final = 25_000
"""What may be followed up before a step ends (`Turn.work`): 100 ms. From one input, or one end, twice as much is."""
RAISING: Final = 10
"""Pods that an action looks at in the time that it takes a rule to raise an event. So many rules halve a step."""
IN_VAIN: Final = "the job has not come"
"""Reason of a step that releases pods whose wait for their job has expired."""
PACE: Final = 50_000
"""From one step to the next (microseconds). Longer than a step takes, so that inputs of others wait for one or two."""


def room(job: Job, most: int) -> int:
    """Return how many pods one step takes of at most `most`: fewer where rules ask about each."""
    return max(1, most // (1 + sum(rule.level == "replica" for rule in job.rules) // RAISING))


def go_on(turn: Turn, job: Job, reason: str | None = None) -> Events:
    """Let the next step come, unless it will."""
    if not job.steps:
        yield turn.event(job, TimerSet("step", turn.now + PACE, reason=reason, depth=turn.depth))


def go_on_killing(turn: Turn, job: Job, scope: KillScope, order: Order, reason: str) -> Events:
    """Let the rest of a kill come as the next step."""
    due = turn.now + PACE
    yield turn.event(
        job,
        TimerSet(
            "step",
            due,
            action=order.action,
            task=order.task,
            index=order.index,
            partition=order.partition,
            kill=scope,
            reason=reason,
            depth=turn.depth,
        ),
    )
