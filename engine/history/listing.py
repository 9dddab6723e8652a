"""The list of jobs: one line for each, with the filters that operators use."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from engine.events import Data, Event
from engine.events.jobs import (
    Accounted,
    AttemptBound,
    AttemptChanged,
    AttemptEnded,
    AttemptRunning,
    AttemptStarted,
    AttemptTerminating,
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
from engine.history.exact import seconds
from engine.history.summary import OTHER
from engine.history.use import AttemptUse, Use, use_so_far
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
        AttemptBound,
        AttemptRunning,
        AttemptTerminating,
        AttemptChanged,
        AttemptEnded,
        Accounted,
    )
)
"""Types of the events that the list is a fold of."""


@dataclass(slots=True)
class OpenAttempt(AttemptUse):
    """An attempt that has not ended."""

    reason: str | None = None


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
    open: dict[tuple[str, int, int], OpenAttempt] = field(default_factory=dict)
    """Attempts that have not ended."""
    nodes: set[str] = field(default_factory=set)
    """Where its attempts have been."""
    ends: set[str] = field(default_factory=set)
    """Reasons with which attempts have ended."""
    now: int = 0
    """Up to when what runs is counted: the latest recorded time of what the list is a fold of."""
    parked: bool = False
    opened: bool = True
    """It is a job; else its first input is parked, and says what it was to be."""

    @property
    def ended(self) -> int | None:
        """When it finished, if it has."""
        return self.since if self.phase in FINISHED_JOB_PHASES else None

    @property
    def reasons(self) -> set[str | None]:
        """Its own, those of attempts that live, and those with which others have ended."""
        return {self.reason, *self.ends, *(attempt.reason for attempt in self.open.values())}

    @property
    def ran_so_far(self) -> int | None:
        """How long it has been running (microseconds); `None`: it has not begun, or has finished."""
        return None if self.started is None or self.ended is not None else max(self.now - self.started, 0)

    @property
    def use_so_far(self) -> Use:
        """What its attempts that have not ended have used."""
        return use_so_far(self.open.values(), self.now)

    def document(self) -> dict[str, Any]:
        """Return the line as JSON; seconds are exact decimals."""
        ran = self.ran_so_far
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
            "live": len(self.open),
            "parked": self.parked,
            "run_seconds_so_far": None if ran is None else seconds(ran),
            **self.use_so_far.result("_so_far"),
        }


@dataclass(frozen=True, slots=True)
class Filter:
    """Which jobs are listed; `None` or empty lets all pass."""

    queue: str | None = None
    user: str | None = None
    tenant: str | None = None
    cluster: str | None = None
    namespace: str | None = None
    node: str | None = None
    """An attempt has been on it."""
    phases: frozenset[str] = frozenset()
    reasons: frozenset[str] = frozenset()
    """Of the job, of an attempt that lives, or with which one has ended."""
    since: int | None = None
    """The job's phase has changed since then (microseconds); opening it counts."""
    other: bool = False
    """List jobs of kind `Other` too: pods of services and of nobody."""

    def passes(self, job: JobLine) -> bool:
        """Tell whether a job is listed."""
        return (
            (self.other or job.kind != OTHER)
            and self.queue in {None, job.queue}
            and self.user in {None, job.user}
            and self.tenant in {None, job.tenant}
            and self.cluster in {None, job.cluster}
            and self.namespace in {None, job.namespace}
            and (self.node is None or self.node in job.nodes)
            and (not self.phases or job.phase in self.phases)
            and (not self.reasons or not self.reasons.isdisjoint(job.reasons))
            and (self.since is None or job.since >= self.since)
        )


class Listing:
    """The fold: `add` job events in the order of the log, then ask for the `lines`."""

    def __init__(self) -> None:
        self._jobs: dict[str, JobLine] = {}
        self._claimed = Claimed()
        self._now = 0

    def add(self, event: Event[Data]) -> None:
        """Take one event; one that the list does not show changes nothing."""
        data = event.data
        self._now = max(self._now, event.recordedtime)
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
        for line in lines:
            line.now = self._now
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
            job.open[data.task, data.index, data.attempt] = OpenAttempt(data.requests, reason=data.reason)
        case AttemptBound() | AttemptRunning() | AttemptTerminating() | AttemptChanged():
            _move(job, job.open[data.task, data.index, data.attempt], data, time)
        case AttemptEnded():
            if data.started is not None:  # it may be all that shows that it ran
                _begin(job, data.started)
            del job.open[data.task, data.index, data.attempt]
            job.ends |= {data.reason} if data.reason else set()
            job.nodes |= {data.node} if data.node else set()


def _move(
    job: JobLine, attempt: OpenAttempt, data: AttemptBound | AttemptRunning | AttemptTerminating | AttemptChanged, time: int
) -> None:
    if not isinstance(data, AttemptChanged) or data.reason_changed:
        attempt.reason = data.reason
    if isinstance(data, AttemptBound):
        job.nodes.add(data.node)
    elif isinstance(data, AttemptRunning):
        _begin(job, time)
        attempt.since = time
    elif isinstance(data, AttemptChanged) and data.requests is not None:
        attempt.resize(data.requests, time)


def _begin(job: JobLine, time: int) -> None:
    job.started = time if job.started is None else min(job.started, time)
