"""Who uses what, folded from the job events of one partition: jobs by phase, live replicas, and what they ask for."""

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

__all__ = ["FOLDED", "Key", "Owner", "UsageBook"]

FOLDED: Final[frozenset[type[Data]]] = frozenset({*STATED, JobForgotten})
"""Events that change the book."""

_FINISHED_KEPT: Final = 50_000
"""Finished jobs remembered in each partition; about 700 bytes each."""

_ENTERED: Final = ("Pending", "Running", "Completed", "Failed")
_ENDED: Final = ("Succeeded", "Failed")
"""What most jobs enter, and how most attempts end."""


class Owner(NamedTuple):
    """Whose figure it is."""

    tenant: str
    queue: str


_UNKNOWN: Final = Owner("", "")
"""Owner of a job whose beginning is not known: the topic does not hold it any more, or the job had finished, was left out here for
want of room, and has come back."""

Key = tuple[Owner, str]
"""Owner and phase."""


@dataclass(slots=True)
class _Job(JobState):
    owner: Owner = _UNKNOWN
    known: bool = False
    """Its phase is."""
    final: bool = False
    """It has finished for good; an inferred end may be taken back."""
    sequence: int = 0
    """Of the last event folded: what comes again changes nothing."""
    attempts: dict[Slot, AttemptState] = field(default_factory=dict)
    """Live ones."""


class UsageBook:
    """The figures of one partition. Memory grows with the live jobs and replicas in it, not with its history."""

    def __init__(self, owner_of: Callable[[str, str], Owner] = Owner, kept: int = _FINISHED_KEPT) -> None:
        """Begin empty.

        Args:
            owner_of: gives the owner for a tenant and a queue; bounds how many there are.
            kept: finished jobs remembered: those whose end may be taken back rather than others, then those that finished last.
        """
        self.entered: Counter[Key] = Counter()
        """Jobs that have entered a phase since the counting began."""
        self.ended: Counter[Key] = Counter()
        """Attempts that have ended in a phase since then."""
        self.jobs: Counter[Key] = Counter()
        """Jobs that are in a phase, finished ones apart."""
        self.replicas: Counter[Key] = Counter()
        """Live attempts in a phase."""
        self.cpu_milli: Counter[Key] = Counter()
        self.memory_bytes: Counter[Key] = Counter()
        self.gpu_billionths: Counter[Key] = Counter()
        self._owner_of = owner_of
        self._kept = kept
        self._live: dict[str, _Job] = {}
        self._final: OrderedDict[str, _Job] = OrderedDict()
        self._inferred: OrderedDict[str, _Job] = OrderedDict()
        """Finished, but not for good."""

    def __len__(self) -> int:
        """Return the number of jobs remembered."""
        return len(self._live) + len(self._final) + len(self._inferred)

    def begin(self, jobs: Iterable[lifecycle_job.Job]) -> None:
        """Take jobs as a fuzzy snapshot has them; the book is empty.

        It is right when all that was written before the snapshot was complete has been folded. What a record holds already changes
        nothing. A job in the midst of its life that has no record was forgotten since, which takes all of it along.
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
        # Those that finished first are left out first.
        for _, job in sorted(finished, key=lambda found: (found[0], found[1].id)):
            self._keep(job)

    def begin_counting(self) -> None:
        """Let the counters count from here. Owners of known jobs begin with zeros, so that a rate sees what comes first."""
        owners = {job.owner for kept in (self._live, self._inferred, self._final) for job in kept.values()}
        self.entered = Counter(dict.fromkeys((*self.entered, *product(owners, _ENTERED)), 0))
        self.ended = Counter(dict.fromkeys((*self.ended, *product(owners, _ENDED)), 0))

    def fold(self, event: Event[Any]) -> None:
        """Take the next event of the partition; one that was taken before changes nothing."""
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
