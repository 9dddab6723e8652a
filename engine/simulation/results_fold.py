"""What happened in a simulation, folded from its job events: the summary, and which pod was on which node when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, cast

from engine.events import Data, Event
from engine.events.actions import ActionTaken, EventRaised
from engine.events.attempts import AttemptBound, AttemptEnded, AttemptEvent, AttemptMoved, AttemptRunning
from engine.events.jobs import JobNoticeAnswered
from engine.events.outcomes import JobRejected
from engine.events.times import Micros
from engine.history.job_projection import JobFacts
from engine.history.summary import SUMMARISED, Summary
from statemachines.delays import action_class

__all__ = ["PREEMPTED", "Placement", "ResultsFold"]

PREEMPTED: Final = frozenset({"PreemptedByScheduler", "PreemptedByNotice"})
"""Reasons with which attempts end that gave their place to others."""

_STOPPED: Final = "KilledByAction"
"""Reason with which attempts end that an action of their job stopped."""


@dataclass(slots=True)
class Placement:
    """Placement of an attempt on a node."""

    job: str
    queue: str
    node: str
    gpu: int
    bound: Micros
    running: Micros | None = None
    end: Micros | None = None
    """`None`: it is there at the end of the simulation."""
    reason: str | None = None
    saved: Micros | None = None
    """When its work was last saved: its job acknowledged a notice then."""
    follows: bool = False
    """Because a pod of its job gave its place to others, an action was taken on the pods of which it is one."""

    @property
    def preempted(self) -> bool:
        """Whether it gave its place to others."""
        return self.reason in PREEMPTED

    @property
    def lost(self) -> Micros:
        """For how long it ran for nothing because of a preemption: its own, or that of a pod with which it was stopped."""
        if self.running is None or self.end is None or not (self.preempted or (self.follows and self.reason == _STOPPED)):
            return 0
        return max(self.end - max(self.running, self.saved or self.running), 0)


class ResultsFold(Summary):
    """Fold of a simulation's events: the summary, with every placement of a pod on a node."""

    types: Final = (*SUMMARISED, *(cls.TYPE for cls in (JobRejected, EventRaised, ActionTaken, JobNoticeAnswered)))
    """Event types that it takes."""

    def __init__(self) -> None:
        super().__init__()
        self.placements: list[Placement] = []
        """In the order in which they began."""
        self.rejections: dict[str, str] = {}
        """Id of a job that was rejected → its first fault."""
        self._open: dict[tuple[str, str, int, int], Placement] = {}
        self._led: dict[str, str] = {}
        """Job → id of the last event that a preemption of one of its pods led to: the pod's end, or what was raised for it."""

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
            placement = Placement(event.subject, job.queue, data.node, job.open[slot].requests.gpu, event.time)
            self.placements.append(placement)
            self._open[event.subject, *slot] = placement
        elif isinstance(data, AttemptMoved):
            moved = self._open.pop((event.subject, data.task, data.index, data.attempt), None)
            if moved is not None:  # the whole placement belongs to the other job
                moved.running, moved.end = None, moved.bound
        elif isinstance(data, AttemptRunning | AttemptEnded):
            self._change(event.subject, cast("Event[AttemptRunning | AttemptEnded]", event))
        elif isinstance(data, EventRaised | ActionTaken):
            if event.causationid == self._led.get(event.subject):
                self._led[event.subject] = event.id
                if isinstance(data, ActionTaken):
                    self._follow(event.subject, data)
            return
        elif isinstance(data, JobNoticeAnswered):
            if data.answer == "acknowledged":
                for placement in self._placements_of(event.subject):
                    placement.saved = event.time
            return
        elif isinstance(data, JobRejected):
            fault = data.faults[0]
            self.rejections.setdefault(event.subject, f"{fault.path}: {fault.message}")
            return
        super().add(event)

    def _change(self, job: str, event: Event[AttemptRunning | AttemptEnded]) -> None:
        data: AttemptEvent = event.data
        placement = self._open.get((job, data.task, data.index, data.attempt))
        if placement is None:
            return
        if isinstance(data, AttemptEnded):
            placement.end, placement.reason = event.time, data.reason
            if placement.preempted:
                self._led[job] = event.id
            del self._open[job, data.task, data.index, data.attempt]
        else:
            placement.running = event.time

    def _follow(self, job: str, action: ActionTaken) -> None:
        """Note that an action on a job, or on a part of it, is taken because one of its pods was preempted."""
        part = action_class(action.action)
        for placement in self._placements_of(job, None if part == "job" else action.task, action.index if part == "pod" else None):
            placement.follows = True

    def _placements_of(self, job: str, task: str | None = None, index: int | None = None) -> Iterator[Placement]:
        """Yield a job's attempts that are on nodes; with a task or an index only those of it."""
        for slot in self._jobs[job].open if job in self._jobs else ():
            placement = self._open.get((job, *slot))
            if placement is not None and task in {None, slot[0]} and index in {None, slot[1]}:
                yield placement
