"""A history as it was recorded, simulated as it was, and simulated with other rules: side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple

from engine.events.inputs import OTHER
from engine.events.times import Micros, format_time
from engine.simulation.measures import Happened, Measures, measured
from engine.simulation.results_fold import Placement, ResultsFold

__all__ = ["JOB_FIGURES", "QUEUE_FIGURES", "Compared", "Comparison", "Figure", "compared_by"]

Number = Decimal | int | None

QUEUE_FIGURES: Final = (
    *("jobs", "began", "mean_wait_seconds", "p99_wait_seconds", "mean_turnaround_seconds"),
    *("utilisation", "gpu_seconds_held", "preemptions", "gpu_seconds_lost", "cost"),
)
"""Figures of a queue; `utilisation` is its share of all GPUs."""
JOB_FIGURES: Final = {
    "mean_wait_seconds": "wait_seconds",
    "mean_turnaround_seconds": "turnaround_seconds",
    "gpu_seconds_held": "gpu_seconds_held",
    "preemptions": "preemptions",
    "gpu_seconds_lost": "gpu_seconds_lost",
    "cost": "cost",
}
"""Figures of one job, and what they are called there."""


class Figure(NamedTuple):
    """One figure in three histories; `None`: it has none there."""

    recorded: Number
    as_it_was: Number
    """Simulated with the recorded rules."""
    what_if: Number
    """Simulated with the other rules."""

    @property
    def model_error(self) -> Number:
        """The simulation with the recorded rules less what was recorded; `None`: one of them has no figure."""
        return _less(self.as_it_was, self.recorded)

    @property
    def difference(self) -> Number:
        """The simulation with the other rules less that with the recorded ones; `None`: one of them has no figure."""
        return _less(self.what_if, self.as_it_was)

    def document(self) -> dict[str, Number]:
        """Return the figure as JSON."""
        return {
            "recorded": self.recorded,
            "as_it_was": self.as_it_was,
            "model_error": self.model_error,
            "what_if": self.what_if,
            "difference": self.difference,
        }


Compared = Mapping[str, Figure]
"""Name of a figure → the figure."""


def _less(one: Number, other: Number) -> Number:
    return None if one is None or other is None else one - other


@dataclass(frozen=True, slots=True)
class Comparison:
    """The answer of a what-if. Times are microseconds."""

    cluster: str
    begin: Micros
    until: Micros | None
    """`None`: each history until its jobs were over."""
    currency: str | None
    """Of the costs; `None`: there is no price book."""
    total: Compared
    queues: Mapping[str, Compared]
    jobs: Mapping[str, Compared]
    """Named job → its figures."""
    left_out: Mapping[str, str]
    """Id of a job that could not be simulated → why."""
    rejected: Mapping[str, str]
    """Id of a job that a simulation rejected → its first fault."""
    open_ended: Sequence[str]
    """Ids of jobs of which it is not known how long they run: in simulations they run on."""
    livelock: Sequence[str]
    """Ids of jobs that only stopped each other in a simulation, which ended it."""
    scheduler: Literal["recorded", "given", "assumed"] = "recorded"
    """Which scheduler it was simulated with as it was: the one that the history records, one that was given, or, where the history
    records none, that of the settings."""
    configurations: int = 1
    """Configurations of the scheduler that the history records for the stretch; the first one was taken."""

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
    """Return the figures of all jobs, of each queue, and of named jobs.

    Args:
        histories: as recorded, simulated as it was, simulated with other rules.
        queues: id of each job → its queue.
        named: how a job is named → its id.
    """
    total = [measured(one, queues, _stays(one.results, queues, others=True)) for one in histories]
    by_queue = {}
    for name in sorted({*queues.values()}):
        jobs = [job for job, queue in queues.items() if queue == name]
        found = [measured(one, jobs, _stays(one.results, jobs)) for one in histories]
        by_queue[name] = _side_by_side(found, {figure: figure for figure in QUEUE_FIGURES})
    by_job = {}
    for name, job in named.items():
        found = [measured(one, [job], _stays(one.results, [job])) for one in histories]
        by_job[name] = _side_by_side(found, JOB_FIGURES)
    return _side_by_side(total, {figure: figure for figure in total[0]}), by_queue, by_job


def _stays(results: ResultsFold, jobs: Iterable[str], *, others: bool = False) -> list[Placement]:
    """Return the attempts of jobs that had a node; `others`: and pods of services."""
    wanted = frozenset(jobs)
    return [
        placement
        for placement in results.placements
        if placement.job in wanted or (others and results.jobs[placement.job].kind == OTHER)
    ]


def _side_by_side(measures: Sequence[Measures], names: Mapping[str, str]) -> dict[str, Figure]:
    return {name: Figure(*(one[figure] for one in measures)) for figure, name in names.items()}
