"""Metrics of a simulation over time: utilisation, balance, fragmentation, fairness, waiting jobs.

Times are seconds since the begin; every value is the mean over a step unless stated otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from engine.events import Data
from engine.events.inputs import NodeDeleted, NodeObserved
from engine.events.times import SECOND, Micros
from engine.history.job_projection import JobFacts
from engine.simulation.results_fold import Placement

STEPS: Final = 240
"""Number of steps of a simulation's time series."""

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Machine:
    """A node over a period with a constant number of GPUs; a node that was lost and came back has two periods."""

    name: str
    gpu: int
    begin: Micros
    end: Micros


def machines_of(facts: Iterable[tuple[Micros, Data]], end: Micros) -> Iterator[Machine]:
    """Yield the periods of all nodes.

    Args:
        facts: times and facts of a cluster, in order.
        end: end of the last periods.
    """
    there: dict[str, tuple[Micros, int]] = {}
    for time, data in facts:
        if not isinstance(data, NodeObserved | NodeDeleted):
            continue
        since, gpu = there.get(data.name, (time, None))
        if isinstance(data, NodeObserved) and gpu == data.gpu:
            continue
        if gpu is not None:
            yield Machine(data.name, gpu, since, time)
            del there[data.name]
        if isinstance(data, NodeObserved):
            there[data.name] = time, data.gpu
    for name, (since, gpu) in there.items():
        yield Machine(name, gpu, since, end)


class _Level:
    """Sum over time of amounts that each hold during an interval."""

    def __init__(self, intervals: Iterable[tuple[float, float, float]]) -> None:
        """Take (begin, end, amount) triples."""
        table = np.array([*intervals], dtype=np.float64).reshape(-1, 3)
        self._begins = _cumulated(table[:, 0], table[:, 2])
        self._ends = _cumulated(table[:, 1], table[:, 2])

    def at(self, times: Numbers) -> Numbers:
        """Return the sums at some times, without intervals that end at that time."""
        return self._amounts(self._begins, times) - self._amounts(self._ends, times)

    def between(self, edges: Numbers) -> Numbers:
        """Return the integrals between adjacent times."""
        return np.diff(self._integral(self._begins, edges) - self._integral(self._ends, edges))

    @staticmethod
    def _amounts(side: tuple[Numbers, Numbers, Numbers], times: Numbers) -> Numbers:
        moments, amounts, _ = side
        return amounts[np.searchsorted(moments, times, side="right")]

    @staticmethod
    def _integral(side: tuple[Numbers, Numbers, Numbers], times: Numbers) -> Numbers:
        moments, amounts, weighted = side
        place = np.searchsorted(moments, times, side="right")
        return amounts[place] * times - weighted[place]


def _cumulated(moments: Numbers, amounts: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    order = np.argsort(moments, kind="stable")
    moments, amounts = moments[order], amounts[order]
    return moments, np.concatenate(([0.0], np.cumsum(amounts))), np.concatenate(([0.0], np.cumsum(amounts * moments)))


@dataclass(frozen=True, slots=True)
class Figures:
    """All metrics; lists have one value per step."""

    times: list[float]
    """End of each step (seconds since the begin)."""
    utilisation: list[float]
    """Allocated share of the available GPUs."""
    imbalance: list[float]
    """Highest minus lowest utilisation of the nodes with GPUs."""
    fragmentation: list[float]
    """Share of the idle GPUs on nodes with too few of them for a pod, over the trace's mix of pods, in the middle of the step
    (Weng et al., Beware of Fragmentation, USENIX ATC 2023)."""
    fairness: list[float]
    """Jain's index of GPUs held over weight, among queues with jobs in the step: 1 is equal, 1/n is one of n queues with all."""
    shares: dict[str, list[float]]
    """GPUs held, by queue."""
    waiting: dict[str, list[float]]
    """Jobs that had not started, by queue."""
    preemptions: list[int]
    """Pods preempted in the step, by eviction or termination."""
    mean_utilisation: float
    mean_imbalance: float
    """Highest minus lowest mean utilisation of a node over the whole time."""
    mean_fragmentation: float
    mean_fairness: float
    gpu_seconds_held: float
    """GPUs times time on a node, from binding to end."""
    gpu_seconds_lost: float
    """GPUs times run time that preemptions wasted (`Placement.lost`)."""


def figures_of(
    placements: Sequence[Placement],
    jobs: Iterable[JobFacts],
    machines: Sequence[Machine],
    sizes: Mapping[int, int],
    weights: Mapping[str, float],
    span: tuple[Micros, Micros],
) -> Figures:
    """Return the metrics of a simulation.

    Args:
        placements: attempts on nodes.
        jobs: all jobs.
        machines: periods of the nodes.
        sizes: number of pods in the trace by GPUs requested; pods without GPUs are excluded.
        weights: weight by queue.
        span: begin and end.
    """
    begin, end = span
    length = max(end - begin, SECOND) / SECOND
    edges = np.linspace(0.0, length, STEPS + 1)
    step = length / STEPS

    def seconds(time: Micros | None) -> float:
        return length if time is None else min(max((time - begin) / SECOND, 0.0), length)

    by_node: dict[str, list[tuple[float, float, float]]] = {machine.name: [] for machine in machines if machine.gpu}
    by_queue: dict[str, list[tuple[float, float, float]]] = {}
    for placement in placements:
        if placement.gpu:
            interval = (seconds(placement.bound), seconds(placement.end), float(placement.gpu))
            by_node.setdefault(placement.node, []).append(interval)
            by_queue.setdefault(placement.queue, []).append(interval)
    queued: dict[str, list[tuple[float, float, float]]] = {}
    present: dict[str, list[tuple[float, float, float]]] = {}
    for job in jobs:
        begun = job.first_running if job.first_running is not None else job.ended
        queued.setdefault(job.queue, []).append((seconds(job.submitted), seconds(begun), 1.0))
        present.setdefault(job.queue, []).append((seconds(job.submitted), seconds(job.ended), 1.0))
    held = {name: _Level(by_queue.get(name, ())).between(edges) / step for name in sorted(present)}
    there = {name: _Level(intervals).between(edges) / step for name, intervals in sorted(present.items())}
    capacity = {name: _Level(_of(machines, name, seconds)) for name in by_node}
    used = {name: _Level(intervals) for name, intervals in by_node.items()}
    available = np.sum([level.between(edges) for level in capacity.values()], axis=0) if capacity else np.zeros(STEPS)
    taken = np.sum([level.between(edges) for level in used.values()], axis=0) if used else np.zeros(STEPS)
    shares_of_nodes = _ratio(
        np.array([used[name].between(edges) for name in capacity]).reshape(-1, STEPS),
        np.array([capacity[name].between(edges) for name in capacity]).reshape(-1, STEPS),
    )
    means = [_whole(used[name], edges) / max(_whole(capacity[name], edges), 1e-9) for name in capacity]
    fragmentation = _fragmentation(capacity, used, sizes, edges[1:] - step / 2)
    fairness = _jain(held, there, weights)
    leaving = np.histogram([seconds(placement.end) for placement in placements if placement.preempted], bins=edges)[0]
    return Figures(
        times=_plain(edges[1:]),
        utilisation=_plain(_ratio(taken, available)),
        imbalance=_plain(shares_of_nodes.max(axis=0) - shares_of_nodes.min(axis=0)) if capacity else [0.0] * STEPS,
        fragmentation=_plain(fragmentation),
        fairness=_plain(fairness),
        shares={name: _plain(values) for name, values in held.items()},
        waiting={name: _plain(_Level(intervals).between(edges) / step) for name, intervals in sorted(queued.items())},
        preemptions=[int(count) for count in leaving],
        mean_utilisation=_rounded(float(taken.sum() / available.sum()) if available.sum() else 0.0),
        mean_imbalance=_rounded(max(means) - min(means) if means else 0.0),
        mean_fragmentation=_rounded(float(fragmentation.mean())),
        mean_fairness=_rounded(float(fairness.mean())),
        gpu_seconds_held=_rounded(float(taken.sum())),
        gpu_seconds_lost=_rounded(sum(placement.gpu * placement.lost / SECOND for placement in placements if placement.lost)),
    )


def _of(machines: Iterable[Machine], name: str, seconds: Callable[[Micros | None], float]) -> Iterator[tuple[float, float, float]]:
    """Yield begin, end and GPUs of the periods of a node."""
    for machine in machines:
        if machine.name == name:
            yield seconds(machine.begin), seconds(machine.end), float(machine.gpu)


def _whole(level: _Level, edges: Numbers) -> float:
    return float(level.between(edges[[0, -1]])[0])


def _ratio(part: Numbers, whole: Numbers) -> Numbers:
    """Return part / whole; 0 where whole is 0."""
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


def _fragmentation(
    capacity: Mapping[str, _Level], used: Mapping[str, _Level], sizes: Mapping[int, int], moments: Numbers
) -> Numbers:
    """Return the share of the idle GPUs that a pod of the mix cannot use, at some times."""
    most, total = max(sizes, default=0), sum(sizes.values())
    # Idle GPUs of a node → share of the pods that request more.
    larger = np.array([sum(count for size, count in sizes.items() if size > idle) / max(total, 1) for idle in range(most + 1)])
    idle_sum, lost = np.zeros_like(moments), np.zeros_like(moments)
    for name, level in capacity.items():
        idle = np.maximum(level.at(moments) - used[name].at(moments), 0.0)
        idle_sum += idle
        lost += idle * larger[np.minimum(np.rint(idle).astype(int), most)]
    return _ratio(lost, idle_sum)


def _jain(held: Mapping[str, Numbers], there: Mapping[str, Numbers], weights: Mapping[str, float]) -> Numbers:
    """Return Jain's index of GPUs over weight among queues with jobs; 1 if there are none."""
    normal = np.array([values / weights.get(name, 1.0) for name, values in held.items()]).reshape(-1, STEPS)
    active = np.array(list(there.values())).reshape(-1, STEPS) > 0
    normal = np.where(active, normal, 0.0)
    squares = active.sum(axis=0) * np.square(normal).sum(axis=0)
    return np.where(squares > 0, _ratio(np.square(normal.sum(axis=0)), squares), 1.0)


def _rounded(number: float) -> float:
    """Return a number rounded to six decimals; more would depend on the linear algebra library."""
    return round(number, 6)


def _plain(values: Numbers) -> list[float]:
    return [_rounded(float(value)) for value in values]
