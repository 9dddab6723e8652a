"""Submitted jobs of a simulated cluster, and their pods."""

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

Slot = tuple[str, int]
"""Task and index."""


@dataclass(slots=True)
class Pod:
    """Pod of a job."""

    seen: PodObserved
    """Last observation."""
    life: Life | None = None
    """Simulated life; `None` until it is bound."""
    leaving: bool = False
    """True once its deletion was requested."""
    end: int | None = None
    """Number of its scheduled end in the event queue, if it works alone."""
    before: Micros = 0
    """Work that was saved before this pod ran, if it works alone."""

    @property
    def slot(self) -> Slot:
        """Task and index."""
        return self.seen.task or "", self.seen.index or 0

    @property
    def works(self) -> bool:
        """True if it runs and is not terminating."""
        return self.seen.phase == "Running" and not self.leaving


@dataclass(slots=True)
class LiveJob:
    """Submitted job."""

    plan: SimulatedJob
    requests: Mapping[str, Requests]
    """Requests of one pod, by task."""
    manifest: dict[str, Any]
    joint: JointWork | None = None
    """Joint work, if its pods work together."""
    pods: dict[str, Pod] = field(default_factory=dict)
    """Existing pods by uid, in order of creation."""
    sent: set[str] = field(default_factory=set)
    """Ids of the user inputs that were reported."""
    lived: Counter[Slot] = field(default_factory=Counter)
    """Number of pods per slot that have ended by themselves."""
    notice: str = ""
    """Id of its open notice; empty without one."""
    answer: int | None = None
    """Number of the scheduled acknowledgement in the event queue."""
    saved: Counter[Slot] = field(default_factory=Counter)
    """Saved work per slot (microseconds), if its pods work alone."""

    def working(self) -> list[Pod]:
        """Return the pods that run and are not terminating."""
        return [pod for pod in self.pods.values() if pod.works]

    def places(self) -> list[tuple[str, str]]:
        """Return task and node of each of these pods."""
        return [(pod.slot[0], pod.seen.node or "") for pod in self.working()]

    def save(self, now: Micros) -> None:
        """Save its work, so that a restart continues with the rest."""
        if self.joint is not None:
            self.joint.save()
        else:
            for pod in self.working():
                self.saved[pod.slot] = pod.before + now - (pod.seen.running or now)
