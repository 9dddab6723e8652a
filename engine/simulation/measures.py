"""Metrics of jobs in a window, recorded or simulated: waits, GPU use, preemptions, cost. All exact."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from engine.events.decimals import total
from engine.events.times import Micros
from engine.exact_numbers import distribution, ratio, seconds
from engine.simulation.figures import Machine
from engine.simulation.results_fold import Placement, ResultsFold

Measures = Mapping[str, Decimal | int | None]
"""Value by metric; `None` if not available."""

FIGURES: Final[Mapping[str, str]] = {
    "jobs": "jobs",
    "began": "jobs that began",
    "finished": "jobs that finished",
    "mean_wait_seconds": "mean wait",
    "p99_wait_seconds": "99% wait",
    "max_wait_seconds": "longest wait",
    "mean_turnaround_seconds": "mean time to the end",
    "utilisation": "utilisation",
    "gpu_seconds_held": "GPU hours held",
    "preemptions": "pods preempted",
    "gpu_seconds_lost": "GPU hours lost",
    "cost": "cost",
    "seconds": "length of the window",
}
"""Display names of the metrics, in order."""


@dataclass(frozen=True, slots=True)
class Happened:
    """A recorded or simulated history with the window to measure. Times are microseconds."""

    results: ResultsFold
    machines: Sequence[Machine]
    submitted: Mapping[str, Micros]
    """Submission time by job; a simulated window submits the jobs that were already waiting at its begin."""
    begun: Collection[str]
    """Jobs that had started before the window, so that their wait is not measured."""
    costs: Mapping[str, Decimal] | None
    """Cost of each job in the window; `None` without prices."""
    begin: Micros
    end: Micros

    @property
    def available(self) -> int:
        """Available GPUs times time (microseconds)."""
        return sum(machine.gpu * self._within(machine.begin, machine.end) for machine in self.machines)

    def held(self, placement: Placement) -> int:
        """Return the GPUs of a placement times its time on a node, within the window (microseconds)."""
        return placement.gpu * self._within(placement.bound, placement.end)

    def contains(self, moment: Micros | None) -> bool:
        """Return true if a time is known and within the window."""
        return moment is not None and self.begin <= moment <= self.end

    def _within(self, begin: Micros, end: Micros | None) -> int:
        return max(min(self.end, self.end if end is None else end) - max(begin, self.begin), 0)


def measured(happened: Happened, jobs: Collection[str], placements: Iterable[Placement]) -> Measures:
    """Return the metrics of some jobs.

    Args:
        happened: history with the window.
        jobs: ids of the jobs.
        placements: placements that count as GPU use, of these jobs and of services.
    """
    known = [(happened.results.jobs[job], happened.submitted[job]) for job in jobs if job in happened.results.jobs]
    placements = list(placements)
    begun = [(job.first_running, since) for job, since in known if job.first_running is not None and job.id not in happened.begun]
    wait = distribution(max(first - since, 0) for first, since in begun if happened.contains(first))
    left = [placement for placement in placements if happened.contains(placement.end)]
    ends = [job.ended - since for job, since in known if job.ended is not None and happened.contains(job.ended)]
    held, available = sum(map(happened.held, placements)), happened.available
    costs = happened.costs
    return {
        "jobs": len(jobs),
        "began": wait["n"],
        "finished": len(ends),
        "mean_wait_seconds": wait["mean"],
        "p99_wait_seconds": wait["p99"],
        "max_wait_seconds": wait["max"],
        "mean_turnaround_seconds": distribution(ends)["mean"],
        "utilisation": ratio(held * 1_000_000, available) if available else None,
        "gpu_seconds_held": seconds(held),
        "preemptions": sum(placement.preempted for placement in left),
        "gpu_seconds_lost": seconds(sum(placement.gpu * placement.lost for placement in left)),
        "cost": None if costs is None else total(costs.get(job, "0") for job in jobs),
        "seconds": seconds(happened.end - happened.begin),
    }
