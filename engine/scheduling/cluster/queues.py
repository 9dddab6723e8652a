"""Queues: shares of the cluster, possibly nested."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from engine.events.times import SECOND
from engine.scheduling.cluster.amounts import Amounts

QueueState = Literal["", "Open", "Closed", "Closing", "Unknown"]

PreemptionMode = Literal["immediate", "notice", "none"]


@dataclass(slots=True, eq=False)
class Queue:
    """Queue, with the resources that its jobs and those of its descendants hold and request."""

    name: str
    weight: int = 1
    state: QueueState = "Open"
    capability: Amounts = field(default_factory=dict)
    """Hard limit; an absent resource is not limited."""
    guarantee: Amounts = field(default_factory=dict)
    """Resources reserved for it even while it is idle."""
    deserved: Amounts = field(default_factory=dict)
    """Soft share (plugin capacity)."""
    priority: int = 0
    reclaimable: bool = True
    parent: str = ""
    """Name of the parent; empty: none, or the root."""
    preemption: PreemptionMode = "immediate"
    """Effect of action `preempt` in it: evict pods at once, give jobs notice, or none."""
    notice_delay: int = 300 * SECOND
    """Time from a notice to its execution (microseconds)."""
    reservation: int = 60 * SECOND
    """Time for which the freed places are reserved for the preemptor (microseconds)."""
    min_run: int = 0
    """Least run before a job without its own limit is given notice (microseconds)."""
    created: int = 0
    """Microseconds."""
    annotations: dict[str, str] = field(default_factory=dict)

    allocated: Amounts = field(default_factory=dict)
    requested: Amounts = field(default_factory=dict)

    @property
    def open(self) -> bool:
        """Whether it accepts and starts jobs; an empty state is Open (Volcano)."""
        return self.state in {"", "Open"}
