"""What a simulated cluster keeps of a job that was submitted, and of its pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.events.inputs import PodObserved
from engine.events.times import Micros
from engine.simulation.joint_work import JointWork
from engine.simulation.workload import Life, SimulatedJob
from statemachines.spec import Requests

__all__ = ["LiveJob", "Pod"]

Slot = tuple[str, int]
"""Task and index."""


@dataclass(slots=True)
class Pod:
    """A pod of a job."""

    seen: PodObserved
    """As it was last shown."""
    life: Life | None = None
    """`None`: it has no node yet."""
    leaving: bool = False
    """Its deletion was requested."""
    end: int | None = None
    """Number of its end in the event queue, if it works alone."""
    before: Micros = 0
    """Of its work what was saved before it ran, if it works alone."""

    @property
    def slot(self) -> Slot:
        """Task and index."""
        return self.seen.task or "", self.seen.index or 0

    @property
    def works(self) -> bool:
        """Whether it runs and is not about to leave."""
        return self.seen.phase == "Running" and not self.leaving


@dataclass(slots=True)
class LiveJob:
    """A job."""

    plan: SimulatedJob
    requests: Mapping[str, Requests]
    """Of a pod, by task."""
    manifest: dict[str, Any]
    joint: JointWork | None = None
    """Its work, if its pods work together."""
    pods: dict[str, Pod] = field(default_factory=dict)
    """Uid → pod that is there, in order of creation."""
    told: set[str] = field(default_factory=set)
    """Ids of what users have said about it."""
    lived: Counter[Slot] = field(default_factory=Counter)
    """Slot → pods that have ended there by themselves."""
    notice: str = ""
    """The notice that it has been given, while it is open."""
    answer: int | None = None
    """Number of its acknowledgement in the event queue, while it is due."""
    saved: Counter[Slot] = field(default_factory=Counter)
    """Slot → work that is saved, if its pods work alone (microseconds)."""

    def working(self) -> list[Pod]:
        """Return its pods that work."""
        return [pod for pod in self.pods.values() if pod.works]

    def places(self) -> list[tuple[str, str]]:
        """Return task and node of each pod that works."""
        return [(pod.slot[0], pod.seen.node or "") for pod in self.working()]

    def save(self, now: Micros) -> None:
        """Save its work, so that it goes on with the rest when it starts over."""
        if self.joint is not None:
            self.joint.save()
        else:
            for pod in self.working():
                self.saved[pod.slot] = pod.before + now - (pod.seen.running or now)
