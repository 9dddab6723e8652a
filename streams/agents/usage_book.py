"""Usage by owner, folded from the job events of one partition: jobs by phase, live replicas, and their requests."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final, NamedTuple

from engine.events import Data, Event
from engine.events.attempts import AttemptEnded, AttemptEvent, AttemptMoved
from engine.events.job_state import ENTERED, STATED, AttemptState, JobState, Slot
from engine.events.jobs import JobForgotten, JobOpened, JobPhaseChanged, JobRevised
from engine.lifecycle import job as lifecycle_job
from statemachines.vocabulary import FINISHED_JOB_PHASES

FOLDED: Final[frozenset[type[Data]]] = frozenset({*STATED, JobForgotten})
"""Event types that change the book."""

_FINISHED_KEPT: Final = 50_000
"""Finished jobs remembered per partition; about 700 bytes each."""

_ENTERED: Final = ("Pending", "Running", "Completed", "Failed")
_ENDED: Final = ("Succeeded", "Failed")
"""Phases whose counters start at zero for each owner: of jobs entered, and of attempts ended."""


class Owner(NamedTuple):
    """Tenant and queue of a job."""

    tenant: str
    queue: str


_UNKNOWN: Final = Owner("", "")
"""Owner of a job whose opening is unknown: the topic has deleted it, or the finished job was dropped here and then reopened."""

Key = tuple[Owner, str]
"""Owner and phase."""


@dataclass(slots=True)
class _Job(JobState):
    owner: Owner = _UNKNOWN
    known: bool = False
    """True if its phase is known."""
    final: bool = False
    """True if it has finished for good; an inferred end may be revised."""
    sequence: int = 0
    """Sequence number of the last folded event, to skip duplicates."""
    attempts: dict[Slot, AttemptState] = field(default_factory=dict)
    """Live attempts."""


class UsageBook:
    """Metrics of one partition. Memory grows with its live jobs and replicas, not with its history."""

    def __init__(self, owner_of: Callable[[str, str], Owner] = Owner, kept: int = _FINISHED_KEPT) -> None:
        """Start empty.

        Args:
            owner_of: returns the owner for a tenant and a queue; bounds the number of owners.
            kept: number of finished jobs remembered: first those whose end may be revised, then the latest finished.
        """
        self.entered: Counter[Key] = Counter()
        """Number of jobs that entered a phase since counting began."""
        self.ended: Counter[Key] = Counter()
        """Number of attempts that ended in a phase since counting began."""
        self.jobs: Counter[Key] = Counter()
        """Number of jobs in a phase, without finished ones."""
        self.replicas: Counter[Key] = Counter()
        """Number of live attempts in a phase."""
        self.cpu_milli: Counter[Key] = Counter()
        self.memory_bytes: Counter[Key] = Counter()
        self.gpu_billionths: Counter[Key] = Counter()
        self._owner_of = owner_of
        self._kept = kept
        self._live: dict[str, _Job] = {}
        self._final: OrderedDict[str, _Job] = OrderedDict()
        self._inferred: OrderedDict[str, _Job] = OrderedDict()
        """Finished jobs whose end may be revised."""

    def __len__(self) -> int:
        """Return the number of remembered jobs."""
        return len(self._live) + len(self._final) + len(self._inferred)

    def begin(self, jobs: Iterable[lifecycle_job.Job]) -> None:
        """Load the jobs of a fuzzy snapshot into the empty book.

        The book is exact once all events up to the end of the snapshot are folded; events that a record already includes change
        nothing. A running job without a record was forgotten after the snapshot, and later events remove it.
        """
        finished: list[tuple[int, _Job]] = []
        for known in jobs:
            if not known.opened:
                continue
            job = _Job(
                known.id, tenant=known.tenant, queue=known.spec.queue, phase=known.phase, known=True, sequence=known.sequence
            )
            job.owner = self._owner_of(job.tenant, job.queue)
            job.final = known.phase in FINISHED_JOB_PHASES and not known.inferred
            for one in known.attempts:
                if one.live:
                    job.attempts[one.task, one.index, one.number] = attempt = AttemptState(one.requests, one.phase)
                    self._count(job.owner, attempt, 1)
            self._count_job(job, 1)
            if known.finished is None:
                self._keep(job)
            else:
                finished.append((known.finished, job))
        # The earliest finished jobs are dropped first.
        for _, job in sorted(finished, key=lambda found: (found[0], found[1].id)):
            self._keep(job)

    def begin_counting(self) -> None:
        """Start the counters. Owners of known jobs start at zero, so that `rate` includes their first increase."""
        owners = {job.owner for kept in (self._live, self._inferred, self._final) for job in kept.values()}
        self.entered = Counter(dict.fromkeys((*self.entered, *product(owners, _ENTERED)), 0))
        self.ended = Counter(dict.fromkeys((*self.ended, *product(owners, _ENDED)), 0))

    def fold(self, event: Event[Any]) -> None:
        """Fold the next event of the partition; a duplicate changes nothing."""
        name = event.subject
        job = self._live.pop(name, None) or self._inferred.pop(name, None) or self._final.pop(name, None) or _Job(name)
        if event.sequence > job.sequence:
            job = self._changed(job, event)
            job.sequence = event.sequence
        if isinstance(event.data, JobForgotten):
            self._leave(job)
        else:
            self._keep(job)

    def _keep(self, job: _Job) -> None:
        if job.attempts or (job.known and job.phase not in FINISHED_JOB_PHASES):
            self._live[job.id] = job
            return
        may_come_back = job.known and not job.final
        (self._inferred if may_come_back else self._final)[job.id] = job
        if len(self._final) + len(self._inferred) > self._kept:
            (self._final or self._inferred).popitem(last=False)

    def _changed(self, job: _Job, event: Event[Any]) -> _Job:
        match event.data:
            case JobOpened():
                self._leave(job)
                job = _Job.begin(event)
                job.owner = self._owner_of(job.tenant, job.queue)
                self._enter(job)
            case JobRevised():
                job.change(event.data, event.time)
                self._move(job, self._owner_of(job.tenant, job.queue))
            case JobPhaseChanged():
                self._count_job(job, -1)
                job.change(event.data, event.time)
                job.final = job.phase in FINISHED_JOB_PHASES and not event.data.inferred
                self._enter(job)
            case AttemptEvent():
                self._attempt(job, event.data)
        return job

    def _enter(self, job: _Job) -> None:
        job.known = True
        self._count_job(job, 1)
        self.entered[job.owner, job.phase] += 1

    def _attempt(self, job: _Job, data: AttemptEvent) -> None:
        key = (data.task, data.index, data.attempt)
        attempt = job.attempts.pop(key, None)
        if attempt is not None:
            self._count(job.owner, attempt, -1)
        if isinstance(data, AttemptEnded):
            self.ended[job.owner, data.phase] += 1
        elif (attempt is not None or type(data) in ENTERED) and not isinstance(data, AttemptMoved):
            attempt = job.attempts[key] = attempt or AttemptState()
            attempt.change(data)
            self._count(job.owner, attempt, 1)

    def _move(self, job: _Job, owner: Owner) -> None:
        if owner == job.owner:
            return
        self._leave(job)
        job.owner = owner
        self._count_job(job, 1)
        for attempt in job.attempts.values():
            self._count(owner, attempt, 1)

    def _leave(self, job: _Job) -> None:
        self._count_job(job, -1)
        for attempt in job.attempts.values():
            self._count(job.owner, attempt, -1)

    def _count_job(self, job: _Job, change: int) -> None:
        if job.known and job.phase not in FINISHED_JOB_PHASES:
            self.jobs[job.owner, job.phase] += change

    def _count(self, owner: Owner, attempt: AttemptState, change: int) -> None:
        key, requests = (owner, attempt.phase), attempt.requests
        self.replicas[key] += change
        self.cpu_milli[key] += change * requests.cpu_milli
        self.memory_bytes[key] += change * requests.memory_bytes
        self.gpu_billionths[key] += change * requests.used_billionths
