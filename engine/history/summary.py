"""The summary of a log: counts, durations and resource use, as a fold over job events.

Sums run over closed attempts, failed ones included: resource times [Running, end). What open attempts have used so far, up to the
latest recorded time of what was added, stands apart. All arithmetic is on integers (microseconds, thousandths of a core or device).

Memory: a small record for each job (its ends by kind, its use, the changes of its devices in use), nothing for each event.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
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
    JobOpened,
    JobPhaseChanged,
    JobRevised,
    RowRejected,
)
from engine.events.times import format_time
from engine.history.distribution import distribution
from engine.history.use import AttemptUse, Use, use_so_far
from statemachines.spec import Requests
from statemachines.vocabulary import FINISHED_JOB_PHASES

__all__ = ["OTHER", "SUMMARISED", "Summary"]

OTHER: Final = "Other"
"""Kind of jobs that are pods of services and of nobody: left out unless asked for."""

SUMMARISED: Final[tuple[str, ...]] = tuple(
    cls.TYPE
    for cls in (
        JobOpened,
        JobRevised,
        JobPhaseChanged,
        AttemptStarted,
        AttemptBound,
        AttemptRunning,
        AttemptTerminating,
        AttemptChanged,
        AttemptEnded,
        RowRejected,
        Accounted,
    )
)
"""Types of the events that the summary is a fold of; it does not look at others."""

_ENDED: Final = FINISHED_JOB_PHASES | {"Aborted"}

_Slot = tuple[str, int, int]


@dataclass(slots=True)
class _Open:
    """An attempt that has not ended."""

    phase: str
    reason: str | None
    use: AttemptUse


@dataclass(slots=True)
class _Job:
    cluster: str
    kind: str
    queue: str
    user: str
    submitted: int
    phase: str = "Pending"
    first_running: int | None = None
    last_end: int | None = None
    without_end: bool = False
    open: dict[_Slot, _Open] = field(default_factory=dict)
    ends: dict[tuple[str, str | None], int] = field(default_factory=dict)
    """Closed attempts by phase and reason."""
    use: Use = field(default_factory=Use)
    """Of the closed attempts."""
    devices: array[int] = field(default_factory=lambda: array("q"))
    """Changes of the number of devices in use: time, change, time, change, …"""


@dataclass(slots=True)
class _Group:
    """All jobs of a user or a queue."""

    jobs: int = 0
    attempts: int = 0
    use: Use = field(default_factory=Use)

    def result(self) -> dict[str, Any]:
        return {"jobs": self.jobs, "attempts": self.attempts, **self.use.result()}


class Summary:
    """The fold. `add` job events in the order of each job, then ask for the `result`; more may be added after that."""

    def __init__(self) -> None:
        self._jobs: dict[str, _Job] = {}
        self._rejected_rows = 0
        self._now = 0

    def add(self, event: Event[Data]) -> None:
        """Take one event; one that says nothing about the summary changes nothing."""
        data = event.data
        self._now = max(self._now, event.recordedtime)
        match data:
            case RowRejected():
                self._rejected_rows += 1
            case JobOpened():
                self._jobs[event.subject] = _Job(event.clusterid, data.kind, data.spec.queue, data.user, event.time)
            case _:
                job = self._jobs.get(event.subject)
                if job is not None:
                    _take(job, data, event.time)

    def result(self, *, include_other: bool = False, cluster: str | None = None) -> dict[str, Any]:
        """Return the summary, with the keys of `lahar summary --json` in their order; seconds are exact decimals.

        Of several clusters, `by_cluster` has the sums of each and of its queues; `by_queue` adds up queues of one name.

        Args:
            include_other: count jobs of kind `Other` too.
            cluster: count only jobs of this one.
        """
        jobs = [job for job in self._jobs.values() if (include_other or job.kind != OTHER) and cluster in {None, job.cluster}]
        phases: Counter[str] = Counter()
        reasons: Counter[str] = Counter()
        for job in jobs:
            ends = chain(job.ends.items(), (((attempt.phase, attempt.reason), 1) for attempt in job.open.values()))
            for (phase, reason), count in ends:
                phases[phase] += count
                if reason is not None:
                    reasons[reason] += count
        total, users, queues = _Group(), dict[str, _Group](), dict[str, _Group]()
        clusters, theirs = dict[str, _Group](), dict[tuple[str, str], _Group]()
        for job in jobs:
            for group in (
                total,
                users.setdefault(job.user, _Group()),
                queues.setdefault(job.queue, _Group()),
                clusters.setdefault(job.cluster, _Group()),
                theirs.setdefault((job.cluster, job.queue), _Group()),
            ):
                group.jobs += 1
                group.attempts += sum(job.ends.values()) + len(job.open)
                group.use.add(job.use)
        by_cluster = {name: {**clusters[name].result(), "by_queue": dict[str, Any]()} for name in sorted(clusters)}
        for name, queue in sorted(theirs):
            by_cluster[name]["by_queue"][queue] = theirs[name, queue].result()
        return {
            "jobs": total.jobs,
            "jobs_by_phase": _sorted(Counter(job.phase for job in jobs)),
            "attempts": total.attempts,
            "attempts_by_phase": _sorted(phases),
            "attempts_by_reason": _sorted(reasons),
            "open_attempts": sum(len(job.open) for job in jobs),
            "never_started": reasons["NeverStarted"],
            "without_end": sum(job.without_end for job in jobs),
            "rejected_rows": self._rejected_rows,
            **total.use.result(),
            **use_so_far((attempt.use for job in jobs for attempt in job.open.values()), self._now).result("_so_far"),
            "so_far_until": format_time(self._now) if self._now else None,
            "wait_seconds": distribution(job.first_running - job.submitted for job in jobs if job.first_running is not None),
            "run_seconds": distribution(run for job in jobs if (run := _run(job)) is not None),
            "peak_gpus": _peak(jobs),
            "by_user": {name: users[name].result() for name in sorted(users)},
            "by_queue": {name: queues[name].result() for name in sorted(queues)},
            **({"by_cluster": by_cluster} if len(by_cluster) > 1 else {}),
        }


def _take(job: _Job, data: Data, time: int) -> None:
    match data:
        case JobRevised():
            job.kind = job.kind if data.kind is None else data.kind
            job.user = job.user if data.user is None else data.user
            job.queue = job.queue if data.spec is None else data.spec.queue
            job.submitted = job.submitted if data.created is None else min(job.submitted, data.created)
        case JobPhaseChanged():
            job.phase, job.without_end = data.phase, data.without_end
        case AttemptStarted():
            # A job that is first seen as one of its pods is as old as the oldest of them.
            job.submitted = min(job.submitted, time)
            job.open[data.task, data.index, data.attempt] = _Open("Pending", data.reason, AttemptUse(data.requests))
        case AttemptBound() | AttemptRunning() | AttemptTerminating() | AttemptChanged() | AttemptEnded():
            slot = (data.task, data.index, data.attempt)
            attempt = job.open.get(slot)
            if attempt is None:
                return
            if isinstance(data, AttemptEnded):
                _close(job, attempt, data, time)
                del job.open[slot]
            else:
                _move(job, attempt, data, time)


def _move(job: _Job, attempt: _Open, data: AttemptBound | AttemptRunning | AttemptTerminating | AttemptChanged, time: int) -> None:
    if isinstance(data, AttemptChanged):
        if data.reason_changed:
            attempt.reason = data.reason
        if data.requests is not None:
            _resize(job, attempt, data.requests, time)
        return
    attempt.reason = data.reason
    if isinstance(data, AttemptRunning):
        attempt.phase = "Running"
        _begin(job, attempt, time)
    else:
        attempt.phase = "Bound" if isinstance(data, AttemptBound) else "Terminating"


def _begin(job: _Job, attempt: _Open, time: int) -> None:
    attempt.use.since = time
    job.first_running = time if job.first_running is None else min(job.first_running, time)
    _devices(job, time, attempt.use.requests.gpu)


def _resize(job: _Job, attempt: _Open, requests: Requests, time: int) -> None:
    """A change while it runs splits the interval: before it counts as requested before."""
    if attempt.use.since is not None:
        _devices(job, time, requests.gpu - attempt.use.requests.gpu)
    attempt.use.resize(requests, time)


def _close(job: _Job, attempt: _Open, data: AttemptEnded, time: int) -> None:
    end = (data.phase, data.reason)
    job.ends[end] = job.ends.get(end, 0) + 1
    job.last_end = time if job.last_end is None else max(job.last_end, time)
    if attempt.use.since is None and data.started is not None:  # only the end shows that it ran
        _begin(job, attempt, min(data.started, time))
    if attempt.use.since is not None:
        job.use.add(attempt.use.until(time))
        _devices(job, time, -attempt.use.requests.gpu)


def _devices(job: _Job, time: int, change: int) -> None:
    if change:
        job.devices.extend((time, change))


def _run(job: _Job) -> int | None:
    """First Running to the last end; only of a job that is over and whose end is known."""
    if job.first_running is None or job.last_end is None or job.open or job.without_end or job.phase not in _ENDED:
        return None
    return job.last_end - job.first_running


def _peak(jobs: Iterable[_Job]) -> dict[str, Any]:
    """Most devices in use at once, after all changes of an instant, and when that was first so."""
    changes: Counter[int] = Counter()
    for job in jobs:
        for time, change in zip(job.devices[::2], job.devices[1::2], strict=True):
            changes[time] += change
    used = most = 0
    when: int | None = None
    for time in sorted(changes):
        used += changes[time]
        if used > most:
            most, when = used, time
    return {"value": most, "time": None if when is None else format_time(when)}


def _sorted(counts: Counter[str]) -> dict[str, int]:
    return {name: counts[name] for name in sorted(counts)}
