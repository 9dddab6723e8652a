"""The summary of a log: counts, durations and resource use.

Sums run over closed attempts, failed ones included: resource times [Running, end). What open attempts have used so far, up to the
latest recorded time of what is added, stands apart. All arithmetic is on integers (microseconds, thousandths of a core or device).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeVar

from engine.events.job_state import STATED
from engine.events.jobs import Accounted, RowRejected
from engine.events.times import format_time
from engine.history.exact import distribution
from engine.history.facts import OTHER, JobFacts, Jobs
from engine.history.use import Use, use_so_far
from statemachines.vocabulary import FINISHED_JOB_PHASES

__all__ = ["SUMMARISED", "JobSums", "Summary", "summarised"]

K = TypeVar("K")

SUMMARISED: Final[tuple[str, ...]] = (*(cls.TYPE for cls in STATED), RowRejected.TYPE, Accounted.TYPE)
"""Types of the events that the summary is a fold of; it does not look at others."""

_ENDED: Final = FINISHED_JOB_PHASES | {"Aborted"}


class JobSums(NamedTuple):
    """What one job adds to the summary."""

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
    gpu: int
    share: int
    cpu: int


@dataclass(slots=True)
class _Group:
    """All jobs of a user or a queue."""

    jobs: int = 0
    attempts: int = 0
    use: Use = field(default_factory=Use)

    def add(self, jobs: int, attempts: int, gpu: int, share: int, cpu: int) -> None:
        self.jobs += jobs
        self.attempts += attempts
        self.use.add(Use(gpu, share, cpu))

    def result(self) -> dict[str, Any]:
        return {"jobs": self.jobs, "attempts": self.attempts, **self.use.result()}


class Summary(Jobs):
    """The summary of all jobs, folded in memory."""

    def result(self, *, include_other: bool = False, cluster: str | None = None) -> dict[str, Any]:
        """Return the summary (`summarised`).

        Args:
            include_other: count jobs of kind `Other` too.
            cluster: count only jobs of this one.
        """
        jobs = [job for job in self._jobs.values() if (include_other or job.kind != OTHER) and cluster in {None, job.cluster}]
        live = [attempt for job in jobs for attempt in job.open.values()]
        attempts: Counter[tuple[str, str | None]] = Counter((attempt.phase, attempt.reason) for attempt in live)
        for job in jobs:
            attempts.update(job.ends)
        devices = (change for job in jobs for change in job.devices)
        return summarised(map(_sums, jobs), attempts, devices, use_so_far(live, self._now), self._now, self._rejected_rows)


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
        job.use.gpu,
        job.use.share,
        job.use.cpu,
    )


def summarised(
    jobs: Iterable[JobSums],
    attempts: Mapping[tuple[str, str | None], int],
    devices: Iterable[tuple[int, int]],
    so_far: Use,
    now: int,
    rejected_rows: int,
) -> dict[str, Any]:
    """Return the summary, with the keys of `lahar summary --json` in their order; seconds are exact decimals.

    Of several clusters, `by_cluster` has the sums of each and of its queues; `by_queue` adds up queues of one name.

    Args:
        jobs: those that count.
        attempts: of them, by phase and reason.
        devices: changes of the number of devices that they have in use, with their times, in any order.
        so_far: what those of their attempts have used that have not ended.
        now: up to when that counts: the latest recorded time (microseconds); 0: nothing is recorded.
        rejected_rows: of imports.
    """
    whose: dict[tuple[str, str, str], list[int]] = {}
    job_phases: Counter[str] = Counter()
    waits, runs = [], []
    open_attempts = without_end = 0
    # One pass that touches a job once: a log has a hundred thousand.
    for cluster, queue, user, phase, endless, count, live, submitted, begun, last_end, gpu, share, cpu in jobs:
        sums = whose.setdefault((cluster, queue, user), [0, 0, 0, 0, 0])
        sums[0] += 1
        sums[1] += count
        sums[2] += gpu
        sums[3] += share
        sums[4] += cpu
        job_phases[phase] += 1
        open_attempts += live
        without_end += endless
        if begun is not None:
            waits.append(begun - submitted)
            # First Running to the last end; only of a job that is over and whose end is known.
            if last_end is not None and not live and not endless and phase in _ENDED:
                runs.append(last_end - begun)
    phases: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for (phase, reason), count in attempts.items():
        phases[phase] += count
        if reason is not None:
            reasons[reason] += count
    total = _Group()
    for sums in whose.values():
        total.add(*sums)
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
        **total.use.result(),
        **so_far.result("_so_far"),
        "so_far_until": format_time(now) if now else None,
        "wait_seconds": distribution(waits),
        "run_seconds": distribution(runs),
        "peak_gpus": _peak(devices),
        "by_user": _results(_grouped(whose, itemgetter(2))),
        "by_queue": _results(_grouped(whose, itemgetter(1))),
        **({"by_cluster": by_cluster} if len(by_cluster) > 1 else {}),
    }


def _grouped(whose: Mapping[tuple[str, str, str], list[int]], by: Callable[[tuple[str, str, str]], K]) -> dict[K, _Group]:
    groups: dict[K, _Group] = {}
    for key, sums in whose.items():
        groups.setdefault(by(key), _Group()).add(*sums)
    return groups


def _results(groups: Mapping[str, _Group]) -> dict[str, Any]:
    return {name: groups[name].result() for name in sorted(groups)}


def _peak(devices: Iterable[tuple[int, int]]) -> dict[str, Any]:
    """Most devices in use at once, after all changes of an instant, and when that was first so."""
    changes: dict[int, int] = {}
    for time, change in devices:
        changes[time] = changes.get(time, 0) + change
    used = most = 0
    when: int | None = None
    for time in sorted(changes):
        used += changes[time]
        if used > most:
            most, when = used, time
    return {"value": most, "time": None if when is None else format_time(when)}


def _sorted(counts: Counter[str]) -> dict[str, int]:
    return {name: counts[name] for name in sorted(counts)}
