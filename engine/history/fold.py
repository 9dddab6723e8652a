"""Folds of a job's events: what was known at a moment, what was so at a moment, and the intervals of every phase.

The two orders of time differ. An event's `recordedtime` says when it became known; its `time` says when it happened, which may lie
before things that were known earlier (a relist shows only the last state; the phases it skipped are recorded with their own
times). `Clock` turns the second into an order in which no level ever moves backwards.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import cast

from engine.events import Data, Event
from engine.events.job_state import Slot
from engine.events.jobs import (
    AttemptChanged,
    AttemptEvent,
    AttemptLateFact,
    AttemptObjectChanged,
    AttemptStarted,
    JobOpened,
    JobPhaseChanged,
    JobRevised,
    TaskPhaseChanged,
)
from engine.history.view import JobView
from statemachines.vocabulary import Level

__all__ = ["Clock", "Interval", "Track", "begun", "fold", "tracks"]


class Clock:
    """Says when each event of one job took effect: its `time`, but for a phase never before the phase that it ends."""

    def __init__(self) -> None:
        self._since: dict[tuple[object, ...], int] = {}

    def effective(self, event: Event[Data]) -> int:
        """Return when an event took effect (microseconds). Called once for each event, in order."""
        subject = _phase_of(event.data)
        if subject is None:
            return event.time
        since = self._since[subject] = max(event.time, self._since.get(subject, event.time))
        return since


def _phase_of(data: Data) -> tuple[object, ...] | None:
    """Return whose phase or reason an event sets; `None`: nobody's."""
    match data:
        case JobOpened() | JobPhaseChanged():
            return ()
        case TaskPhaseChanged():
            return (data.task,)
        case AttemptLateFact() | AttemptObjectChanged():
            return None
        case AttemptChanged() if not data.reason_changed:
            return None
        case AttemptEvent():
            return (data.task, data.index, data.attempt)
    return None


def fold(events: Iterable[Event[Data]], *, known: int | None = None, at: int | None = None) -> JobView | None:
    """Fold the events of one job, in order.

    Args:
        events: job events of one job from the first one on; those before `lahar.job.opened` are passed over.
        known: take only what was recorded by then (microseconds): what did we know?
        at: take only what had happened by then (microseconds): what was so?

    Returns:
        The job; `None` if it was not yet open.
    """
    view: JobView | None = None
    opened: JobView | None = None
    clock = Clock()
    for event in events:
        if known is not None and event.recordedtime > known:
            break
        time = clock.effective(event)
        if isinstance(event.data, JobOpened):
            opened = JobView.begin(cast("Event[JobOpened]", event))
        if at is not None and time > at:
            continue
        if view is None and (view := begun(opened, event, time)) is None:
            continue
        view.apply(event, time)
    return view


def begun(opened: JobView | None, event: Event[Data], time: int) -> JobView | None:
    """Return a job as it begins with an event; `None`: this is not where it begins.

    A job that is first seen as one of its pods is opened at the time of that pod, and begins with the oldest pod that comes to
    light, or with its object.

    Args:
        opened: the job as it was opened, however late; `None`: it was not yet.
        event: an event of the job.
        time: when the event took effect (microseconds).
    """
    if opened is None:
        return None
    if isinstance(event.data, JobRevised):
        if event.data.created is None:
            return None
        time = event.data.created
    elif not isinstance(event.data, JobOpened | AttemptStarted):
        return None
    opened.submitted, opened.since = min(opened.submitted, time), min(opened.since, time)
    for task in opened.tasks.values():
        task.since = min(task.since, time)
    return opened


@dataclass(slots=True)
class Interval:
    """A phase with its reason, half-open: [start, end). Times are microseconds."""

    phase: str
    reason: str | None
    start: int
    end: int | None = None
    """`None`: it lasts."""
    event: str = ""
    """Id of the event that began it."""


@dataclass(slots=True)
class Track:
    """All phases of one thing, one after the other without a gap."""

    level: Level
    task: str | None = None
    index: int | None = None
    attempt: int | None = None
    exit_code: int | None = None
    intervals: list[Interval] = field(default_factory=list)

    def at(self, moment: int) -> Interval | None:
        """Return the interval that holds a moment; `None`: before the first."""
        for interval in reversed(self.intervals):
            if interval.start <= moment:
                return interval
        return None

    def enter(self, phase: str, reason: str | None, time: int, event: str) -> None:
        """End the present interval and begin another, not before the present one began."""
        if self.intervals:
            time = max(time, self.intervals[-1].start)
            self.intervals[-1].end = time
        self.intervals.append(Interval(phase, reason, time, event=event))


def tracks(events: Iterable[Event[Data]]) -> list[Track]:
    """Return the intervals of a job: its own track, then each task's, followed by those of the task's attempts."""
    job = Track("job")
    tasks: dict[str, Track] = {}
    attempts: dict[Slot, Track] = {}
    view: JobView | None = None
    first: frozenset[str] = frozenset()
    clock = Clock()
    for event in events:
        data, time = event.data, clock.effective(event)
        if isinstance(data, JobOpened):
            view = JobView.begin(cast("Event[JobOpened]", event))
            job.enter(view.phase, None, time, event.id)
            first = frozenset(view.tasks)
        elif view is None:
            continue
        else:
            view.apply(event, time)
        if len(view.tasks) > len(tasks):
            for name in view.tasks.keys() - tasks.keys():
                phase = data.previous if isinstance(data, TaskPhaseChanged) else view.tasks[name].phase
                tasks[name] = Track("task", name)
                tasks[name].enter(phase, None, time, event.id)
        if isinstance(data, JobPhaseChanged):
            job.enter(data.phase, data.reason, time, event.id)
        elif isinstance(data, TaskPhaseChanged):
            tasks[data.task].enter(data.phase, data.reason, time, event.id)
        elif isinstance(data, AttemptEvent) and _phase_of(data) is not None:
            key = (data.task, data.index, data.attempt)
            if isinstance(data, AttemptStarted):
                attempts[key] = Track("replica", *key)
                # What is first seen as one of its pods is as old as the oldest of them.
                if time < job.intervals[0].start:
                    for track in (job, *(tasks[name] for name in first)):
                        track.intervals[0].start = time
                begin = tasks[data.task].intervals[0]
                begin.start = min(begin.start, time)
            attempt = view.attempts.get(key)
            if attempt is not None:
                attempts[key].enter(attempt.phase, attempt.reason, time, event.id)
                attempts[key].exit_code = attempt.exit_code
    if view is None:
        return []
    found = [job]
    for name in view.tasks:
        found.append(tasks[name])
        found.extend(attempts[key] for key in sorted(attempts) if key[0] == name)
    return found
