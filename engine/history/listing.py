"""The list of jobs: one line for each, with the filters that operators use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from engine.events import Data, Event
from engine.events.jobs import (
    AttemptEnded,
    AttemptRunning,
    AttemptStarted,
    InputParked,
    InputReleased,
    JobOpened,
    JobParked,
    JobPhaseChanged,
    JobRevised,
    JobUnparked,
)
from engine.events.times import format_time
from engine.history.claimed import Claimed
from engine.history.summary import OTHER
from engine.lifecycle.claims import Claim
from statemachines.vocabulary import FINISHED_JOB_PHASES

__all__ = ["LISTED", "Filter", "JobLine", "Listing"]

LISTED: Final[tuple[str, ...]] = tuple(
    cls.TYPE
    for cls in (
        JobOpened,
        JobRevised,
        JobPhaseChanged,
        JobParked,
        InputParked,
        InputReleased,
        JobUnparked,
        AttemptStarted,
        AttemptRunning,
        AttemptEnded,
    )
)
"""Types of the events that the list is a fold of."""


@dataclass(slots=True)
class JobLine:
    """One job in the list. Times are microseconds."""

    id: str
    cluster: str
    kind: str
    namespace: str
    name: str
    managed: bool
    queue: str
    user: str
    tenant: str
    submitted: int
    """Of a job that is first seen as one of its pods: when the oldest of them was created."""
    phase: str = "Pending"
    reason: str | None = None
    since: int = 0
    started: int | None = None
    """First time that an attempt ran."""
    attempts: int = 0
    live: int = 0
    """Attempts that have not ended."""
    parked: bool = False
    opened: bool = True
    """It is a job; else its first input is parked, and says what it was to be."""

    @property
    def ended(self) -> int | None:
        """When it finished, if it has."""
        return self.since if self.phase in FINISHED_JOB_PHASES else None

    def document(self) -> dict[str, Any]:
        """Return the line as JSON."""
        return {
            "id": self.id,
            "cluster": self.cluster,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "managed": self.managed,
            "phase": self.phase,
            "reason": self.reason,
            "queue": self.queue,
            "user": self.user,
            "tenant": self.tenant,
            "submitted": format_time(self.submitted),
            "started": None if self.started is None else format_time(self.started),
            "ended": None if self.ended is None else format_time(self.ended),
            "attempts": self.attempts,
            "live": self.live,
            "parked": self.parked,
        }


@dataclass(frozen=True, slots=True)
class Filter:
    """Which jobs are listed; `None` lets all pass."""

    queue: str | None = None
    phase: str | None = None
    user: str | None = None
    tenant: str | None = None
    cluster: str | None = None
    other: bool = False
    """List jobs of kind `Other` too: pods of services and of nobody."""

    def passes(self, job: JobLine) -> bool:
        """Tell whether a job is listed."""
        return (
            (self.other or job.kind != OTHER)
            and self.queue in {None, job.queue}
            and self.phase in {None, job.phase}
            and self.user in {None, job.user}
            and self.tenant in {None, job.tenant}
            and self.cluster in {None, job.cluster}
        )


class Listing:
    """The fold: `add` job events in the order of the log, then ask for the `lines`."""

    def __init__(self) -> None:
        self._jobs: dict[str, JobLine] = {}
        self._claimed = Claimed()

    def add(self, event: Event[Data]) -> None:
        """Take one event; one that the list does not show changes nothing."""
        data = event.data
        if isinstance(data, JobOpened):
            self._claimed.opened(event.subject)
            self._jobs[event.subject] = JobLine(
                event.subject,
                event.clusterid,
                data.kind,
                data.namespace,
                data.name,
                data.managed,
                data.spec.queue,
                data.user,
                data.tenant,
                submitted=event.time,
                since=event.time,
            )
        elif event.subject not in self._jobs:
            self._claimed.take(event)
        else:
            _take(self._jobs[event.subject], data, event.time)

    def lines(self, wanted: Filter | None = None) -> list[JobLine]:
        """Return the jobs that pass a filter, by time of submission.

        Of one moment by name, shorter ones first (`train-9` before `train-10`): in what order partitions were read does not show.
        """
        passes = (wanted or Filter()).passes
        lines = [*self._jobs.values(), *(_unopened(*claim) for claim in self._claimed.claims())]
        return sorted(filter(passes, lines), key=lambda job: (job.submitted, job.namespace, len(job.name), job.name, job.id))


def _unopened(job: str, claim: Claim, time: int) -> JobLine:
    line = JobLine(job, claim.cluster, claim.kind, claim.namespace, claim.name, claim.managed, "", "", claim.tenant, time)
    line.parked, line.opened = True, False
    return line


def _take(job: JobLine, data: Data, time: int) -> None:
    match data:
        case JobRevised():
            for name in ("kind", "namespace", "name", "user", "tenant"):
                value = getattr(data, name)
                if value is not None:
                    setattr(job, name, value)
            if data.spec is not None:
                job.queue = data.spec.queue
            if data.created is not None:
                job.submitted = min(job.submitted, data.created)
        case JobPhaseChanged():
            job.phase, job.reason, job.since = data.phase, data.reason, time
        case JobParked() | JobUnparked():
            job.parked = isinstance(data, JobParked)
        case AttemptStarted():
            job.submitted = min(job.submitted, time)
            job.attempts += 1
            job.live += 1
        case AttemptRunning():
            _begin(job, time)
        case AttemptEnded():
            if data.started is not None:  # it may be all that shows that it ran
                _begin(job, data.started)
            job.live -= 1


def _begin(job: JobLine, time: int) -> None:
    job.started = time if job.started is None else min(job.started, time)
