"""Facts of a job for lists, sums and names, from one fold of its events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Self, cast

from engine.events import Data, Event
from engine.events.attempts import (
    AttemptBound,
    AttemptChanged,
    AttemptEnded,
    AttemptEvent,
    AttemptMoved,
    AttemptRunning,
    AttemptStarted,
)
from engine.events.job_state import JobState, Slot
from engine.events.jobs import JobOpened, JobPhaseChanged
from engine.events.outcomes import JobParked, JobUnparked, RowRejected
from engine.events.times import format_time
from engine.exact_numbers import seconds
from engine.history.claimed_names import Claimed
from engine.history.resource_use import LiveAttempt, Use, use_so_far
from engine.lifecycle.claims import Claim
from statemachines.spec import Requests
from statemachines.vocabulary import FINISHED_JOB_PHASES

Ends = dict[tuple[str, str | None], int]
"""Number of closed attempts by phase and reason."""


@dataclass(slots=True)
class JobLine(JobState):
    """A job in the list. Times are microseconds."""

    started: int | None = None
    """First start of an attempt."""
    attempts: int = 0
    open: dict[Slot, LiveAttempt] = field(default_factory=dict)
    """Attempts that have not ended."""
    nodes: set[str] = field(default_factory=set)
    """Nodes of all its attempts."""
    ends: Ends = field(default_factory=dict)
    now: int = 0
    """Latest folded recorded time, up to which running attempts count."""
    last_end: int | None = None
    """Latest end of its attempts (microseconds)."""
    parked: bool = False
    opened: bool = True
    """False if its first input is parked; the line then has the identity that the input claims."""

    @property
    def ended(self) -> int | None:
        """Time of its end; `None` if it has not ended."""
        return self.since if self.phase in FINISHED_JOB_PHASES else None

    @property
    def reasons(self) -> set[str | None]:
        """Reasons of the job, of its open attempts and of its closed ones."""
        ended = (reason for _, reason in self.ends if reason)
        return {self.reason, *ended, *(attempt.reason for attempt in self.open.values())}

    @property
    def ran_so_far(self) -> int | None:
        """Run time so far (microseconds); `None` if it has not started, or has ended and no pod has outlived it."""
        if self.started is None or (self.ended is not None and not any(one.phase == "Running" for one in self.open.values())):
            return None
        return max(self.now - self.started, 0)

    @property
    def ran(self) -> int | None:
        """Run time (microseconds), to its end or that of a pod that outlived it; `None` if it never ran or still runs."""
        if self.started is None or self.ended is None or self.ran_so_far is not None:
            return None
        return max(self.ended - self.started, (self.last_end or self.started) - self.started, 0)

    @property
    def use_so_far(self) -> Use:
        """Resource use of its open attempts so far."""
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


@dataclass(slots=True)
class JobFacts(JobLine):
    """All facts of a job: the line, its contributions to the summary, and the time of its opening."""

    begun: int = 0
    """Time of its opening."""
    first_running: int | None = None
    """As `started`, but a start reported by an attempt's end counts only if no other event reported it, and never after the end."""
    without_end: bool = False
    use: Use = field(default_factory=Use)
    """Use of its closed attempts."""
    devices: list[tuple[int, int]] = field(default_factory=list)
    """Changes of the number of GPUs in use (billionths), with their times."""

    @classmethod
    def begin(cls, event: Event[JobOpened]) -> Self:
        """Return the job of an `opened` event."""
        job = super(JobFacts, cls).begin(event)
        job.begun = event.time
        return job

    def apply(self, data: Data, time: int) -> None:
        """Apply one more event of the job, in order; ignores those that change no facts."""
        if isinstance(data, AttemptEvent):
            self._attempt((data.task, data.index, data.attempt), data, time)
            return
        self.change(data, time)
        if isinstance(data, JobPhaseChanged):
            self.without_end = data.without_end
        elif isinstance(data, JobParked | JobUnparked):
            self.parked = isinstance(data, JobParked)

    def _attempt(self, slot: Slot, data: AttemptEvent, time: int) -> None:
        if isinstance(data, AttemptStarted):
            self.change(data, time)
            self.attempts += 1
            self.open[slot] = LiveAttempt()
        if (attempt := self.open.get(slot)) is None:
            return
        match data:
            case AttemptBound():
                self.nodes.add(data.node)
            case AttemptRunning():
                self.started = _earlier(self.started, time)
                self._begin(attempt, time)
            case AttemptChanged() if data.requests is not None:
                self._resize(attempt, data.requests, time)
            case AttemptEnded():
                del self.open[slot]
                self._close(attempt, data, time)
            case AttemptMoved():
                del self.open[slot]
                self._leave(attempt)
        attempt.change(data)

    def _begin(self, attempt: LiveAttempt, time: int) -> None:
        attempt.since = time
        self.first_running = _earlier(self.first_running, time)
        self._change_devices(time, attempt.requests.gpu_billionths)

    def _resize(self, attempt: LiveAttempt, requests: Requests, time: int) -> None:
        """Change the requests of an attempt; if it runs, its use so far counts with the earlier requests."""
        if attempt.since is not None:
            self._change_devices(time, requests.gpu_billionths - attempt.requests.gpu_billionths)
        attempt.resize(requests, time)

    def _close(self, attempt: LiveAttempt, data: AttemptEnded, time: int) -> None:
        end = (data.phase, data.reason)
        self.ends[end] = self.ends.get(end, 0) + 1
        self.nodes |= {data.node} if data.node else set()
        self.last_end = time if self.last_end is None else max(self.last_end, time)
        if data.started is not None:  # perhaps the only evidence that it ran
            self.started = _earlier(self.started, data.started)
            if attempt.since is None:
                self._begin(attempt, min(data.started, time))
        if attempt.since is not None:
            self.use.add(attempt.until(time))
            self._change_devices(time, -attempt.requests.gpu_billionths)

    def _leave(self, attempt: LiveAttempt) -> None:
        """Remove an attempt that moved to another job."""
        self.attempts -= 1
        if attempt.since is not None:
            self._change_devices(attempt.since, -attempt.requests.gpu_billionths)
        if not self.attempts:
            self.started = self.first_running = None
            self.nodes.clear()

    def _change_devices(self, time: int, change: int) -> None:
        if change:
            self.devices.append((time, change))


def _earlier(known: int | None, time: int) -> int:
    return time if known is None else min(known, time)


def line_of(job: str, claim: Claim, time: int) -> JobLine:
    """Return the line of a parked subject that is no job yet."""
    line = JobLine(job, claim.cluster, claim.kind, claim.namespace, claim.name, claim.managed, "", "", claim.tenant, time)
    line.parked, line.opened = True, False
    return line


class Jobs:
    """Fold of job events in log order; results may be read at any time."""

    def __init__(self) -> None:
        self._jobs: dict[str, JobFacts] = {}
        self._claimed = Claimed()
        self._now = 0
        self._rejected_rows = 0

    def add(self, event: Event[Data]) -> None:
        """Apply one event; every event advances the time up to which running attempts count."""
        self._now = max(self._now, event.recordedtime)
        job = self._jobs.get(event.subject)
        if isinstance(event.data, RowRejected):
            self._rejected_rows += 1
        elif isinstance(event.data, JobOpened):
            self._claimed.opened(event.subject)
            self._jobs[event.subject] = JobFacts.begin(cast("Event[JobOpened]", event))
        elif job is None:
            self._claimed.take(event)
        else:
            job.apply(event.data, event.time)

    def _waiting(self) -> Iterator[JobLine]:
        """Yield the lines of parked subjects that are no jobs yet."""
        return (line_of(*claim) for claim in self._claimed.claims())
