"""What happened in a simulation, folded from its job events: the summary, and which pod was on which node when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from engine.events import Data, Event
from engine.events.attempts import AttemptBound, AttemptEnded, AttemptEvent, AttemptRunning
from engine.events.outcomes import JobRejected
from engine.events.times import Micros
from engine.history.facts import JobFacts
from engine.history.summary import SUMMARISED, Summary

__all__ = ["PREEMPTED", "Ledger", "Stay"]

PREEMPTED: Final = frozenset({"PreemptedByScheduler", "PreemptedByNotice"})
"""Reasons with which attempts end that gave their place to others."""


@dataclass(slots=True)
class Stay:
    """An attempt on its node."""

    job: str
    queue: str
    node: str
    gpu: int
    bound: Micros
    running: Micros | None = None
    end: Micros | None = None
    """`None`: it is there at the end of the simulation."""
    reason: str | None = None

    @property
    def preempted(self) -> bool:
        """Whether it gave its place to others."""
        return self.reason in PREEMPTED


class Ledger(Summary):
    """The summary of a simulation with every stay on a node."""

    types: Final = (*SUMMARISED, JobRejected.TYPE)
    """Event types that it takes."""

    def __init__(self) -> None:
        super().__init__()
        self.stays: list[Stay] = []
        """In the order in which they began."""
        self.rejections: dict[str, str] = {}
        """Id of a job that was rejected → its first fault."""
        self._open: dict[tuple[str, str, int, int], Stay] = {}

    @property
    def jobs(self) -> Mapping[str, JobFacts]:
        """All jobs that were opened, by id."""
        return self._jobs

    @property
    def now(self) -> Micros:
        """Recorded time of the latest event."""
        return self._now

    def add(self, event: Event[Data]) -> None:
        """Take one event."""
        data = event.data
        if isinstance(data, AttemptBound):
            job = self._jobs[event.subject]
            slot = (data.task, data.index, data.attempt)
            stay = Stay(event.subject, job.queue, data.node, job.open[slot].requests.gpu, event.time)
            self.stays.append(stay)
            self._open[event.subject, *slot] = stay
        elif isinstance(data, AttemptRunning | AttemptEnded):
            self._change(event.subject, cast("Event[AttemptRunning | AttemptEnded]", event))
        elif isinstance(data, JobRejected):
            fault = data.faults[0]
            self.rejections.setdefault(event.subject, f"{fault.path}: {fault.message}")
            return
        super().add(event)

    def _change(self, job: str, event: Event[AttemptRunning | AttemptEnded]) -> None:
        data: AttemptEvent = event.data
        stay = self._open.get((job, data.task, data.index, data.attempt))
        if stay is None:
            return
        if isinstance(data, AttemptEnded):
            stay.end, stay.reason = event.time, data.reason
            del self._open[job, data.task, data.index, data.attempt]
        else:
            stay.running = event.time
