"""Octopus: more than a thousand GPUs that have more real jobs than they can take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from statistics import fmean
from typing import Final

from engine.events.times import SECOND, Micros
from engine.simulation.figures import Figures, Machine, figures_of
from engine.simulation.traces import read_trace, sample_trace
from engine.simulation.workload import PlannedJob, plan
from experiments.first_come import FIRST_COME, FirstCome
from experiments.jobs import CLUSTER
from experiments.rows import Column, Row
from experiments.trial import Trial, node, run, tiers

_NAME: Final = "octopus"
_FORMAT: Final = "philly-status"
_HOUR: Final = 3600 * SECOND
_GPUS: Final = 8
"""Of a node."""
_FIRST: Final = ", first come"
_FASTER: Final = 3.0
"""Submissions follow each other so many times faster than in the trace."""
_BEFORE: Final = 20 * _HOUR
"""From the begin of the window to the last submission of the trace: what comes before it fills the cluster."""
_WINDOW: Final = 24 * _HOUR


@dataclass(frozen=True)
class Load:
    """Jobs of the trace on a cluster, and the window that is looked at."""

    nodes: int
    every: int = 1
    """One of so many jobs of the trace is submitted."""

    @cached_property
    def jobs(self) -> Sequence[PlannedJob]:
        """In order of submission."""
        with sample_trace(_FORMAT) as file:
            return plan(read_trace(file, _FORMAT), _FORMAT, CLUSTER, speed_up=_FASTER).jobs[:: self.every]

    @property
    def span(self) -> tuple[Micros, Micros]:
        """Begin and end of the window."""
        begin = self.jobs[-1].submit - _BEFORE
        return begin, begin + _WINDOW

    @property
    def offered(self) -> float:
        """GPU time that the jobs would take within the window if none waited, over what there is."""
        begin, end = self.span
        wished = sum(job.gpus * max(min(job.submit + (job.run or 0), end) - max(job.submit, begin), 0) for job in self.jobs)
        return wished / (self.nodes * _GPUS * _WINDOW)

    def trial(self, *plugins: str) -> Trial:
        """Run the jobs until the end of the window."""
        nodes = [node(f"node-{at:03}", 96, gpu=_GPUS) for at in range(1, self.nodes + 1)]
        chosen = tiers(*plugins, "gang", "predicates", "nodeorder", "binpack")
        scheduler = {"actions": "enqueue, allocate, backfill", "tiers": chosen}
        return run(self.jobs, nodes, scheduler, plugins=FIRST_COME, until=self.span[1])

    def figures(self, trial: Trial) -> Figures:
        """Return the figures of the window."""
        machines = [Machine(f"node-{at:03}", _GPUS, *self.span) for at in range(1, self.nodes + 1)]
        return figures_of(trial.results.placements, trial.results.jobs.values(), machines, Counter(), {}, self.span)

    def delays(self, trial: Trial, *, unclaimed: bool) -> list[float]:
        """Return the seconds to the binding of jobs of the window whose gang fitted free GPUs when it was submitted.

        A job that is not bound by the end of the window counts with its wait so far. No queue has a limit.

        Args:
            trial: the run.
            unclaimed: only jobs that fit even when those that wait by then have taken what they can of the free GPUs.
        """
        begin, end = self.span
        free = {f"node-{at:03}": _GPUS for at in range(1, self.nodes + 1)}
        changes = [(placement.bound, placement.node, -placement.gpu) for placement in trial.results.placements]
        changes += [
            (placement.end, placement.node, placement.gpu) for placement in trial.results.placements if placement.end is not None
        ]
        changes.sort(reverse=True)
        bound: dict[str, Micros] = {}
        for placement in trial.results.placements:
            bound.setdefault(placement.job, placement.bound)
        found, waiting = [], list[PlannedJob]()
        for job in self.jobs:
            while changes and changes[-1][0] <= job.submit:
                _, name, change = changes.pop()
                free[name] += change
            waiting = [other for other in waiting if bound.get(other.id, end) > job.submit]
            if begin <= job.submit < end and _fits(job, free, waiting if unclaimed else ()):
                found.append((bound.get(job.id, end) - job.submit) / SECOND)
            waiting.append(job)
        return found


def _fits(job: PlannedJob, free: Mapping[str, int], others: Iterable[PlannedJob]) -> bool:
    """Return whether a gang fits free GPUs, by node, when others have taken what they can of them, in their order."""
    left, hopeless = dict(free), set[tuple[int, int]]()
    for other in others:
        size, pods = shape = _shape(other)
        places = [] if shape in hopeless else _places(shape, left)
        if len(places) < pods:
            hopeless.add(shape)
            continue
        for name in places:
            left[name] -= size
        if len(_places(_shape(job), left)) < len(job.row.pods):
            return False
    return len(_places(_shape(job), left)) == len(job.row.pods)


def _shape(job: PlannedJob) -> tuple[int, int]:
    """Return GPUs of a pod, and pods: those of a job are alike in this trace."""
    return job.row.pods[0].gpu, len(job.row.pods)


def _places(shape: tuple[int, int], free: Mapping[str, int]) -> list[str]:
    """Return a node for each pod of a gang, the fullest nodes first; fewer if they do not fit."""
    size, pods = shape
    found: list[str] = []
    for name, idle in sorted(free.items(), key=itemgetter(1)):
        if len(found) >= pods:
            break
        found += [name] * (idle // size)
    return found[:pods]


FULL: Final = Load(138)


def rows(load: Load = FULL) -> Iterator[Row]:
    """Yield the rows: 24 hours of an overload, against first come, first served with a head that blocks those behind it."""
    yield Row(_NAME, "offered load", "overload", f"{load.offered:.2f}", load.offered >= 1.2)
    ours, theirs = load.trial(), load.trial(FirstCome.NAME)
    figures, blocked = load.figures(ours), load.figures(theirs)
    use, less = figures.mean_utilisation, blocked.mean_utilisation
    yield _share("utilisation", "", "90 % and more", use, use >= 0.9)
    yield _share("utilisation", _FIRST, "-", less, less < use)
    yield _share("imbalance", "", "below 20 %", figures.mean_imbalance, figures.mean_imbalance <= 0.2)
    yield _share("imbalance", _FIRST, "-", blocked.mean_imbalance, blocked.mean_imbalance > 0.2)
    delays, later = load.delays(ours, unclaimed=False), load.delays(theirs, unclaimed=False)
    yield _delay("free GPUs", "", "-", delays, fmean(delays) < fmean(later))
    yield _delay("free GPUs", _FIRST, "-", later, fmean(later) > fmean(delays))
    delays, later = load.delays(ours, unclaimed=True), load.delays(theirs, unclaimed=True)
    yield _delay("unclaimed GPUs", "", "10 s", delays, fmean(delays) <= 10)
    yield _delay("unclaimed GPUs", _FIRST, "60 s", later, fmean(later) > 10)


def _share(what: str, told: str, seed: str, share: float, ok: bool) -> Row:
    return Row(_NAME, what + told, seed, f"{share * 100:.1f} %", ok, (Column("percent", what, told, share * 100),))


def _delay(which: str, told: str, seed: str, delays: Sequence[float], ok: bool) -> Row:
    mean = fmean(delays)
    columns = (Column("mean delay in seconds of jobs that fit", which, told, mean),)
    return Row(_NAME, f"delay of jobs that fit {which}{told}: jobs, mean", seed, f"{len(delays)}, {mean:,.1f} s", ok, columns)
