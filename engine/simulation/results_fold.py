"""Fold of a simulation's job events: the summary and all placements."""

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

PREEMPTED: Final = frozenset({"PreemptedByScheduler", "PreemptedByNotice"})
"""End reasons of preempted attempts."""

_STOPPED: Final = "KilledByAction"
"""End reason of attempts that an action on their job stopped."""


@dataclass(slots=True)
class Placement:
    """An attempt on a node."""

    job: str
    queue: str
    node: str
    gpu: int
    bound: Micros
    running: Micros | None = None
    end: Micros | None = None
    """End; `None` if it is still there at the end of the simulation."""
    reason: str | None = None
    saved: Micros | None = None
    """Time at which its work was last saved, when its job acknowledged a notice."""
    follows: bool = False
    """True if it was the target of an action that followed from the preemption of another pod of its job."""

    @property
    def preempted(self) -> bool:
        """True if it was preempted."""
        return self.reason in PREEMPTED

    @property
    def lost(self) -> Micros:
        """Run time wasted by a preemption of this pod, or of the pod with which it was stopped; work saved before is not wasted."""
        if self.running is None or self.end is None or not (self.preempted or (self.follows and self.reason == _STOPPED)):
            return 0
        return max(self.end - max(self.running, self.saved or self.running), 0)


class ResultsFold(Summary):
    """Summary of a simulation's events, with all placements."""

    types: Final = (*SUMMARISED, *(cls.TYPE for cls in (JobRejected, EventRaised, ActionTaken, JobNoticeAnswered)))
    """Event types that it folds."""

    def __init__(self) -> None:
        super().__init__()
        self.placements: list[Placement] = []
        """Placements in order of their begin."""
        self.rejections: dict[str, str] = {}
        """First validation error by id of each rejected job."""
        self._open: dict[tuple[str, str, int, int], Placement] = {}
        self._led: dict[str, str] = {}
        """Latest event by job that follows from the preemption of one of its pods: the pod's end, or an event raised for it."""

    @property
    def jobs(self) -> Mapping[str, JobFacts]:
        """All opened jobs by id."""
        return self._jobs

    @property
    def now(self) -> Micros:
        """Recorded time of the latest event."""
        return self._now

    def add(self, event: Event[Data]) -> None:
        """Fold one event."""
        data = event.data
        if isinstance(data, AttemptBound):
            job = self._jobs[event.subject]
            slot = (data.task, data.index, data.attempt)
            placement = Placement(event.subject, job.queue, data.node, job.open[slot].requests.gpu, event.time)
            self.placements.append(placement)
            self._open[event.subject, *slot] = placement
        elif isinstance(data, AttemptMoved):
            moved = self._open.pop((event.subject, data.task, data.index, data.attempt), None)
            if moved is not None:  # the placement moves to the other job as a whole
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
        """Mark the target pods of an action that follows from a preemption."""
        part = action_class(action.action)
        for placement in self._placements_of(job, None if part == "job" else action.task, action.index if part == "pod" else None):
            placement.follows = True

    def _placements_of(self, job: str, task: str | None = None, index: int | None = None) -> Iterator[Placement]:
        """Yield the open placements of a job, optionally of one task or index only."""
        for slot in self._jobs[job].open if job in self._jobs else ():
            placement = self._open.get((job, *slot))
            if placement is not None and task in {None, slot[0]} and index in {None, slot[1]}:
                yield placement
