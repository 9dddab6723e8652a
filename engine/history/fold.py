"""Folds of a job's events: the state known at a time, the state at a time, and the intervals of every phase.

An event's `recordedtime` is when it became known; its `time` is when it happened, which may precede events recorded earlier (a
relist has only the last state; skipped phases are recorded later with their own times). `Clock` orders events by `time` so that no
level moves backwards.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import cast

from engine.events import Data, Event
from engine.events.attempts import (
    AttemptChanged,
    AttemptEvent,
    AttemptLateFact,
    AttemptMoved,
    AttemptObjectChanged,
    AttemptStarted,
)
from engine.events.job_state import Slot
from engine.events.jobs import JobOpened, JobPhaseChanged, JobRevised, TaskPhaseChanged
from engine.history.view import JobView
from statemachines.vocabulary import Level


class Clock:
    """Effective times of one job's events: their `time`, but a phase never begins before the one that it ends."""

    def __init__(self) -> None:
        self._since: dict[tuple[object, ...], int] = {}

    def effective(self, event: Event[Data]) -> int:
        """Return the effective time of an event (microseconds). Called once for each event, in order."""
        subject = _phase_of(event.data)
        if subject is None:
            return event.time
        since = self._since[subject] = max(event.time, self._since.get(subject, event.time))
        return since


def _phase_of(data: Data) -> tuple[object, ...] | None:
    """Return a key of the level whose phase or reason the event sets; `None` if it sets none."""
    match data:
        case JobOpened() | JobPhaseChanged():
            return ()
        case TaskPhaseChanged():
            return (data.task,)
        case AttemptLateFact() | AttemptMoved() | AttemptObjectChanged():
            return None
        case AttemptChanged() if not data.reason_changed:
            return None
        case AttemptEvent():
            return (data.task, data.index, data.attempt)
    return None


def fold(events: Iterable[Event[Data]], *, known: int | None = None, at: int | None = None) -> JobView | None:
    """Fold the events of one job, in order.

    Args:
        events: job events of one job from the first one on; those before `lahar.job.opened` are ignored.
        known: ignore events recorded after this time (microseconds).
        at: ignore events that happened after this time (microseconds).

    Returns:
        The job; `None` if it was not opened yet.
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
    """Return the job's first state if it begins with this event, otherwise `None`.

    A job first observed through a pod is opened at that pod's time, but begins with the oldest pod observed later, or with its
    object.

    Args:
        opened: state of the job after its `opened` event; `None` if that was not read yet.
        event: event of the job.
        time: effective time of the event (microseconds).
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
    """A phase and its reason over [start, end). Times are microseconds."""

    phase: str
    reason: str | None
    start: int
    end: int | None = None
    """End; `None`: not ended."""
    event: str = ""
    """Id of the event that began it."""


@dataclass(slots=True)
class Track:
    """All phases of one job, task or attempt, without gaps."""

    level: Level
    task: str | None = None
    index: int | None = None
    attempt: int | None = None
    exit_code: int | None = None
    intervals: list[Interval] = field(default_factory=list)

    def at(self, moment: int) -> Interval | None:
        """Return the interval that contains a time; `None` before the first."""
        for interval in reversed(self.intervals):
            if interval.start <= moment:
                return interval
        return None

    def enter(self, phase: str, reason: str | None, time: int, event: str) -> None:
        """End the current interval and begin another, no earlier than the current one began."""
        if self.intervals:
            time = max(time, self.intervals[-1].start)
            self.intervals[-1].end = time
        self.intervals.append(Interval(phase, reason, time, event=event))


def tracks(events: Iterable[Event[Data]]) -> list[Track]:
    """Return the tracks of a job: its own, then each task's, followed by those of the task's attempts."""
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
        elif isinstance(data, AttemptMoved):
            attempts.pop((data.task, data.index, data.attempt), None)
        elif isinstance(data, AttemptEvent) and _phase_of(data) is not None:
            key = (data.task, data.index, data.attempt)
            if isinstance(data, AttemptStarted):
                attempts[key] = Track("replica", *key)
                # A job first observed through a pod is as old as its oldest pod.
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
