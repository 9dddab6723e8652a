"""Comparison of a recorded history with two simulations of it: with the recorded rules, and with other rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple

from engine.events.inputs import OTHER
from engine.events.times import Micros, format_time
from engine.simulation.measures import Happened, Measures, measured
from engine.simulation.results_fold import Placement, ResultsFold

Number = Decimal | int | None

QUEUE_FIGURES: Final = (
    *("jobs", "began", "mean_wait_seconds", "p99_wait_seconds", "mean_turnaround_seconds"),
    *("utilisation", "gpu_seconds_held", "preemptions", "gpu_seconds_lost", "cost"),
)
"""Metrics of a queue; `utilisation` is its share of all GPUs."""
JOB_FIGURES: Final = {
    "mean_wait_seconds": "wait_seconds",
    "mean_turnaround_seconds": "turnaround_seconds",
    "gpu_seconds_held": "gpu_seconds_held",
    "preemptions": "preemptions",
    "gpu_seconds_lost": "gpu_seconds_lost",
    "cost": "cost",
}
"""Metric of a single job → its name there."""


class Figure(NamedTuple):
    """One metric in three histories; `None`: not available."""

    recorded: Number
    as_it_was: Number
    """Value simulated with the recorded rules."""
    what_if: Number
    """Value simulated with the other rules."""

    @property
    def model_error(self) -> Number:
        """Simulation with the recorded rules minus the recorded value; `None` if one of them is missing."""
        return _less(self.as_it_was, self.recorded)

    @property
    def difference(self) -> Number:
        """Simulation with the other rules minus the one with the recorded rules; `None` if one of them is missing."""
        return _less(self.what_if, self.as_it_was)

    def document(self) -> dict[str, Number]:
        """Return the metric as JSON."""
        return {
            "recorded": self.recorded,
            "as_it_was": self.as_it_was,
            "model_error": self.model_error,
            "what_if": self.what_if,
            "difference": self.difference,
        }


Compared = Mapping[str, Figure]
"""Metric by name."""


def _less(one: Number, other: Number) -> Number:
    return None if one is None or other is None else one - other


@dataclass(frozen=True, slots=True)
class Comparison:
    """Result of a what-if. Times are microseconds."""

    cluster: str
    begin: Micros
    until: Micros | None
    """End of the window; `None`: each history runs until its jobs have ended."""
    currency: str | None
    """Currency of the costs; `None` without a price book."""
    total: Compared
    queues: Mapping[str, Compared]
    jobs: Mapping[str, Compared]
    """Metrics by name of each requested job."""
    left_out: Mapping[str, str]
    """Reason by id of each job that could not be simulated."""
    rejected: Mapping[str, str]
    """First validation error by id of each job that a simulation rejected."""
    open_ended: Sequence[str]
    """Ids of jobs whose run time is unknown; they run on in simulations."""
    livelock: Sequence[str]
    """Ids of jobs in the livelock that ended a simulation."""
    scheduler: Literal["recorded", "given", "assumed"] = "recorded"
    """Origin of the scheduler configuration of the first simulation: recorded in the history, given by the user, or, if the history
    records none, assumed from the settings."""
    configurations: int = 1
    """Number of scheduler configurations that the history records for the window; the first one was used."""

    def document(self) -> dict[str, Any]:
        """Return the comparison as JSON; seconds and costs are exact decimals."""
        return {
            "cluster": self.cluster,
            "from": format_time(self.begin),
            "to": None if self.until is None else format_time(self.until),
            "currency": self.currency,
            "total": _documents(self.total),
            "queues": {name: _documents(figures) for name, figures in self.queues.items()},
            "jobs": {name: _documents(figures) for name, figures in self.jobs.items()},
            "left_out": dict(self.left_out),
            "rejected": dict(self.rejected),
            "open_ended": list(self.open_ended),
            "livelock": list(self.livelock),
            "scheduler": self.scheduler,
        }


def _documents(figures: Compared) -> dict[str, Any]:
    return {name: figure.document() for name, figure in figures.items()}


def compared_by(
    histories: Sequence[Happened], queues: Mapping[str, str], named: Mapping[str, str]
) -> tuple[Compared, Mapping[str, Compared], Mapping[str, Compared]]:
    """Return the metrics of all jobs, of each queue, and of the named jobs.

    Args:
        histories: the recorded one, its simulation with the recorded rules, and the simulation with other rules.
        queues: queue by job id.
        named: job id by the name that the user gave.
    """
    total = [measured(one, queues, _placements(one.results, queues, others=True)) for one in histories]
    by_queue = {}
    for name in sorted({*queues.values()}):
        jobs = [job for job, queue in queues.items() if queue == name]
        found = [measured(one, jobs, _placements(one.results, jobs)) for one in histories]
        by_queue[name] = _side_by_side(found, {figure: figure for figure in QUEUE_FIGURES})
    by_job = {}
    for name, job in named.items():
        found = [measured(one, [job], _placements(one.results, [job])) for one in histories]
        by_job[name] = _side_by_side(found, JOB_FIGURES)
    return _side_by_side(total, {figure: figure for figure in total[0]}), by_queue, by_job


def _placements(results: ResultsFold, jobs: Iterable[str], *, others: bool = False) -> list[Placement]:
    """Return the placements of jobs; with `others` also those of pods that belong to services."""
    wanted = frozenset(jobs)
    return [
        placement
        for placement in results.placements
        if placement.job in wanted or (others and results.jobs[placement.job].kind == OTHER)
    ]


def _side_by_side(measures: Sequence[Measures], names: Mapping[str, str]) -> dict[str, Figure]:
    return {name: Figure(*(one[figure] for one in measures)) for figure, name in names.items()}
