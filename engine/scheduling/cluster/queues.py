"""Queues: shares of the cluster, possibly within each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from engine.events.times import SECOND
from engine.scheduling.cluster.amounts import Amounts

__all__ = ["PreemptionMode", "Queue", "QueueState"]

QueueState = Literal["", "Open", "Closed", "Closing", "Unknown"]

PreemptionMode = Literal["immediate", "notice", "none"]


@dataclass(slots=True, eq=False)
class Queue:
    """A queue, with what its jobs and those of the queues below it hold and ask for."""

    name: str
    weight: int = 1
    state: QueueState = "Open"
    capability: Amounts = field(default_factory=dict)
    """Hard cap; a resource that it lacks is not limited."""
    guarantee: Amounts = field(default_factory=dict)
    """What it keeps even while it is idle."""
    deserved: Amounts = field(default_factory=dict)
    """Soft share (plugin capacity)."""
    priority: int = 0
    reclaimable: bool = True
    parent: str = ""
    """Empty: none, or the root."""
    preemption: PreemptionMode = "immediate"
    """What action `preempt` does in it: evict pods at once, give jobs notice, or nothing."""
    notice_delay: int = 300 * SECOND
    """From a notice to its execution (microseconds)."""
    reservation: int = 60 * SECOND
    """How long the place that a notice has freed is reserved for the preemptor (microseconds)."""
    min_run: int = 0
    """How long a job without a limit of its own has run before it is given notice (microseconds)."""
    created: int = 0
    """Microseconds."""
    annotations: dict[str, str] = field(default_factory=dict)

    allocated: Amounts = field(default_factory=dict)
    requested: Amounts = field(default_factory=dict)

    @property
    def open(self) -> bool:
        """Whether it takes and starts jobs; an empty state is Open (Volcano)."""
        return self.state in {"", "Open"}
