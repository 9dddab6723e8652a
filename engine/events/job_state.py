"""State of jobs and attempts as the fold of their events, shared by everything that follows jobs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from sys import intern
from typing import Any, ClassVar, Final, Self

from engine.events.attempts import (
    AttemptBound,
    AttemptChanged,
    AttemptEnded,
    AttemptEvent,
    AttemptMoved,
    AttemptRunning,
    AttemptStarted,
    AttemptTerminating,
)
from engine.events.envelope import Event
from engine.events.jobs import JobOpened, JobPhaseChanged, JobRevised
from engine.events.vocabulary import Data
from statemachines.spec import Requests
from statemachines.vocabulary import AttemptPhase, JobPhase

Slot = tuple[str, int, int]
"""Task, index, number of the attempt."""

ENTERED: Final[dict[type[Data], AttemptPhase]] = {
    AttemptStarted: "Pending",
    AttemptBound: "Bound",
    AttemptRunning: "Running",
    AttemptTerminating: "Terminating",
}
"""Event → the phase that a live attempt enters with it."""

STATED: Final[tuple[type[Data], ...]] = (
    JobOpened,
    JobRevised,
    JobPhaseChanged,
    *ENTERED,
    AttemptChanged,
    AttemptMoved,
    AttemptEnded,
)
"""Events that change the state of a job or an attempt."""


@dataclass(slots=True)
class AttemptState:
    """State of an attempt."""

    requests: Requests = field(default_factory=Requests)
    phase: AttemptPhase = "Pending"
    reason: str | None = None

    def change(self, data: AttemptEvent) -> None:
        """Apply the next event of the attempt; events not in `STATED` change nothing."""
        match data:
            case AttemptStarted() | AttemptBound() | AttemptRunning() | AttemptTerminating():
                self.phase, self.reason = ENTERED[type(data)], data.reason
                if isinstance(data, AttemptStarted):
                    self.requests = data.requests
            case AttemptEnded():
                self.phase, self.reason = data.phase, data.reason
            case AttemptChanged():
                if data.reason_changed:
                    self.reason = data.reason
                if data.requests is not None:
                    self.requests = data.requests


def revised(data: JobRevised, names: Iterable[str]) -> dict[str, Any]:
    """Return the fields of a job's identity that a revision changes: those named, and the queue."""
    found = {name: value for name in names if (value := getattr(data, name)) is not None}
    return found if data.spec is None else {**found, "queue": data.spec.queue}


@dataclass(slots=True)
class JobState:
    """Identity and state of a job. Times are microseconds."""

    id: str = ""
    cluster: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    managed: bool = False
    queue: str = ""
    user: str = ""
    tenant: str = ""
    submitted: int = 0
    """For a job first observed by its pods: when the oldest of them was created."""
    phase: JobPhase = "Pending"
    reason: str | None = None
    since: int = 0

    REVISED: ClassVar[tuple[str, ...]] = ("kind", "namespace", "name", "user", "tenant")
    """Fields that a revision may change, beside queue, reason and time of submission."""

    @classmethod
    def begin(cls, event: Event[JobOpened]) -> Self:
        """Return the job that an event opens. Strings common to many jobs are shared."""
        data = event.data
        return cls(
            event.subject,
            intern(event.clusterid),
            intern(data.kind),
            intern(data.namespace),
            data.name,
            data.managed,
            intern(data.spec.queue),
            intern(data.user),
            intern(data.tenant),
            submitted=event.time,
            since=event.time,
        )

    def change(self, data: Data, time: int) -> None:
        """Apply the next event of the job; events not in `STATED` change nothing.

        Args:
            data: the event; of attempts' events only the start of one counts.
            time: when it took effect (microseconds).
        """
        match data:
            case JobPhaseChanged():
                self.phase, self.reason, self.since = data.phase, data.reason, time
            case AttemptStarted():
                self.submitted = min(self.submitted, time)
            case JobRevised():
                for name, value in revised(data, self.REVISED).items():
                    setattr(self, name, value)
                if data.created is not None:
                    self.submitted = min(self.submitted, data.created)
                if data.reason is not None:
                    self.reason = data.reason or None


@dataclass(slots=True)
class LabelledJob(JobState):
    """A job with its labels and other fields for subscribers."""

    project: str = ""
    labels: dict[str, str] = field(default_factory=dict)

    REVISED: ClassVar[tuple[str, ...]] = (*JobState.REVISED, "project", "labels")

    @classmethod
    def begin(cls, event: Event[JobOpened]) -> Self:
        """Return the job that an event opens."""
        job = super(LabelledJob, cls).begin(event)
        job.project, job.labels = event.data.project, event.data.labels
        return job
