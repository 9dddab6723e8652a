"""The summary of a log: counts, durations and resource use.

Sums cover closed attempts, failed ones included: resources times [Running, end). The use of open attempts up to the latest
recorded time is listed separately. All arithmetic is on integers (microseconds, thousandths of a core, billionths of a GPU).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeVar

from engine.events.inputs import OTHER
from engine.events.job_state import STATED
from engine.events.outcomes import Accounted, RowRejected
from engine.events.times import SECOND, format_time
from engine.exact_numbers import distribution, seconds
from engine.history.job_projection import JobFacts, Jobs
from engine.history.resource_use import LiveAttempt, Use
from statemachines.spec import gpus_of
from statemachines.vocabulary import FINISHED_JOB_PHASES

K = TypeVar("K")

Whose = tuple[str, str, str]
"""Cluster, queue and user."""

SUMMARISED: Final[tuple[str, ...]] = (*(cls.TYPE for cls in STATED), RowRejected.TYPE, Accounted.TYPE)
"""Event types that the summary folds."""

_ENDED: Final = FINISHED_JOB_PHASES | {"Aborted"}


class JobSums(NamedTuple):
    """Contribution of one job to the summary."""

    cluster: str
    queue: str
    user: str
    phase: str
    without_end: bool
    attempts: int
    live: int
    submitted: int
    first_running: int | None
    last_end: int | None
    use: Use


@dataclass(slots=True)
class _Group:
    """All jobs of a user or a queue."""

    jobs: int = 0
    attempts: int = 0
    use: Use = field(default_factory=Use)
    so_far: Use = field(default_factory=Use)
    """Use of open attempts."""

    def add(self, other: _Group) -> None:
        self.jobs += other.jobs
        self.attempts += other.attempts
        self.use.add(other.use)
        self.so_far.add(other.so_far)

    def uses(self) -> dict[str, Decimal]:
        return {**self.use.result(), **self.so_far.result("_so_far")}

    def not_billed(self) -> dict[str, dict[str, Decimal]]:
        """Return the use of resources that no meter charges, by name."""
        used, so_far = self.use.unmetered, self.so_far.unmetered
        parts = (("unit_seconds", used), ("unit_seconds_so_far", so_far))
        return {name: {part: seconds(by.get(name, 0), 1000 * SECOND) for part, by in parts} for name in sorted(used | so_far)}

    def result(self) -> dict[str, Any]:
        return {"jobs": self.jobs, "attempts": self.attempts, **self.uses()}


class Summary(Jobs):
    """The summary of all jobs, folded in memory."""

    def result(self, *, include_other: bool = False, cluster: str | None = None) -> dict[str, Any]:
        """Return the summary (`summarised`).

        Args:
            include_other: count jobs of kind `Other` too.
            cluster: count only jobs of this cluster.
        """
        jobs = [job for job in self._jobs.values() if (include_other or job.kind != OTHER) and cluster in {None, job.cluster}]
        ends: Counter[tuple[str, str | None]] = Counter()
        for job in jobs:
            ends.update(job.ends)
        live = (((job.cluster, job.queue, job.user), attempt) for job in jobs for attempt in job.open.values())
        devices = (change for job in jobs for change in job.devices)
        return summarised(map(_sums, jobs), ends, live, devices, self._now, self._rejected_rows)


def _sums(job: JobFacts) -> JobSums:
    return JobSums(
        job.cluster,
        job.queue,
        job.user,
        job.phase,
        job.without_end,
        job.attempts,
        len(job.open),
        job.submitted,
        job.first_running,
        job.last_end,
        job.use,
    )


def summarised(
    jobs: Iterable[JobSums],
    ends: Counter[tuple[str, str | None]],
    live: Iterable[tuple[Whose, LiveAttempt]],
    devices: Iterable[tuple[int, int]],
    now: int,
    rejected_rows: int,
) -> dict[str, Any]:
    """Return the summary, with the keys of `lahar summary --json` in their order; seconds are exact decimals.

    With several clusters, `by_cluster` has the sums of each and of its queues; `by_queue` adds up queues of the same name.

    Args:
        jobs: the jobs to count.
        ends: number of their closed attempts, by phase and reason.
        live: their open attempts, with cluster, queue and user.
        devices: changes of the number of GPUs in use (billionths), with their times, in any order.
        now: open attempts count up to this time, the latest recorded one (microseconds); 0: nothing is recorded.
        rejected_rows: number of rejected rows of imports.
    """
    whose: defaultdict[Whose, _Group] = defaultdict(_Group)
    job_phases: Counter[str] = Counter()
    waits, runs = [], []
    open_attempts = without_end = 0
    # One pass that touches each job once: a log has a hundred thousand.
    for cluster, queue, user, phase, endless, count, open_, submitted, begun, last_end, use in jobs:
        group = whose[cluster, queue, user]
        group.jobs += 1
        group.attempts += count
        group.use.add(use)
        job_phases[phase] += 1
        open_attempts += open_
        without_end += endless
        if begun is not None:
            waits.append(begun - submitted)
            # First Running to the last end; only for finished jobs whose end is known.
            if last_end is not None and not open_ and not endless and phase in _ENDED:
                runs.append(last_end - begun)
    attempts = ends.copy()
    for owner, attempt in live:
        attempts[attempt.phase, attempt.reason] += 1
        whose[owner].so_far.add(attempt.until(now))
    phases: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for (phase, reason), count in attempts.items():
        phases[phase] += count
        if reason is not None:
            reasons[reason] += count
    total = _Group()
    for group in whose.values():
        total.add(group)
    by_cluster = {
        name: {**group.result(), "by_queue": dict[str, Any]()} for name, group in sorted(_grouped(whose, itemgetter(0)).items())
    }
    for (cluster, queue), group in sorted(_grouped(whose, itemgetter(0, 1)).items()):
        by_cluster[cluster]["by_queue"][queue] = group.result()
    return {
        "jobs": total.jobs,
        "jobs_by_phase": _sorted(job_phases),
        "attempts": total.attempts,
        "attempts_by_phase": _sorted(phases),
        "attempts_by_reason": _sorted(reasons),
        "open_attempts": open_attempts,
        "never_started": reasons["NeverStarted"],
        "without_end": without_end,
        "rejected_rows": rejected_rows,
        **total.uses(),
        "so_far_until": format_time(now) if now else None,
        "wait_seconds": distribution(waits),
        "run_seconds": distribution(runs),
        "peak_gpus": _peak(devices),
        "not_billed": total.not_billed(),
        "by_user": _results(_grouped(whose, itemgetter(2))),
        "by_queue": _results(_grouped(whose, itemgetter(1))),
        **({"by_cluster": by_cluster} if len(by_cluster) > 1 else {}),
    }


def _grouped(whose: Mapping[Whose, _Group], by: Callable[[Whose], K]) -> dict[K, _Group]:
    groups: defaultdict[K, _Group] = defaultdict(_Group)
    for owner, group in whose.items():
        groups[by(owner)].add(group)
    return groups


def _results(groups: Mapping[str, _Group]) -> dict[str, Any]:
    return {name: groups[name].result() for name in sorted(groups)}


def _peak(devices: Iterable[tuple[int, int]]) -> dict[str, Any]:
    """Return the most GPUs in use at once, counted after all changes of an instant, and the first such instant."""
    changes: dict[int, int] = {}
    for time, change in devices:
        changes[time] = changes.get(time, 0) + change
    used = most = 0
    when: int | None = None
    for time in sorted(changes):
        used += changes[time]
        if used > most:
            most, when = used, time
    return {"value": gpus_of(most), "time": None if when is None else format_time(when)}


def _sorted(counts: Counter[str]) -> dict[str, int]:
    return {name: counts[name] for name in sorted(counts)}
