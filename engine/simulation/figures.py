"""Figures of a simulation over time: how full the cluster was, how evenly, for whom, and who waited.

Times are seconds since the begin; every figure is the mean over a step unless it says otherwise.
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

__all__ = ["STEPS", "Figures", "Machine", "figures_of", "machines_of"]

STEPS: Final = 240
"""Steps into which a simulation is divided."""

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Machine:
    """A node while it was there with so many GPUs; one that was lost and came back, or got other GPUs, was there twice."""

    name: str
    gpu: int
    begin: Micros
    end: Micros


def machines_of(facts: Iterable[tuple[Micros, Data]], end: Micros) -> Iterator[Machine]:
    """Yield nodes while they were there.

    Args:
        facts: of a cluster with their times, in order.
        end: until then.
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
    """A sum of amounts over time, each of which counts over an interval."""

    def __init__(self, intervals: Iterable[tuple[float, float, float]]) -> None:
        """Take (begin, end, amount) of each."""
        table = np.array([*intervals], dtype=np.float64).reshape(-1, 3)
        self._begins = _cumulated(table[:, 0], table[:, 2])
        self._ends = _cumulated(table[:, 1], table[:, 2])

    def at(self, times: Numbers) -> Numbers:
        """Return the sum at moments, those that end then not included."""
        return self._amounts(self._begins, times) - self._amounts(self._ends, times)

    def between(self, edges: Numbers) -> Numbers:
        """Return the integral between neighbouring moments."""
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
    """All figures. Lists have one number a step."""

    times: list[float]
    """End of each step (seconds since the begin)."""
    utilisation: list[float]
    """GPUs with a pod, of those that were there."""
    imbalance: list[float]
    """Largest less smallest use of a node with GPUs, each as a share of its own."""
    fragmentation: list[float]
    """In the middle of the step: of the idle GPUs the share on nodes with too few of them for a pod, over the trace's mix of pods
    (Weng et al., Beware of Fragmentation, USENIX ATC 2023)."""
    fairness: list[float]
    """Jain's index of GPUs held over weight, among the queues with jobs in the step: 1 is equal, 1/n is all for one of n."""
    shares: dict[str, list[float]]
    """Queue → GPUs that it held."""
    waiting: dict[str, list[float]]
    """Queue → jobs that had not begun."""
    preemptions: list[int]
    """Pods that began to leave for others or were killed for them, in the step."""
    mean_utilisation: float
    mean_imbalance: float
    """Largest less smallest mean use of a node over the whole time."""
    mean_fragmentation: float
    mean_fairness: float
    gpu_seconds_held: float
    """Devices times time on a node, from binding to end."""
    gpu_seconds_lost: float
    """Devices times time that pods had run for nothing because of preemptions (`Placement.lost`)."""


def figures_of(
    placements: Sequence[Placement],
    jobs: Iterable[JobFacts],
    machines: Sequence[Machine],
    sizes: Mapping[int, int],
    weights: Mapping[str, float],
    span: tuple[Micros, Micros],
) -> Figures:
    """Return the figures of a simulation.

    Args:
        placements: attempts on nodes.
        jobs: all jobs.
        machines: nodes while they were there.
        sizes: GPUs of a pod → pods of the trace that ask for so many; those that ask for none are left out.
        weights: queue → weight.
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
    """Yield when a node was there, with its GPUs."""
    for machine in machines:
        if machine.name == name:
            yield seconds(machine.begin), seconds(machine.end), float(machine.gpu)


def _whole(level: _Level, edges: Numbers) -> float:
    return float(level.between(edges[[0, -1]])[0])


def _ratio(part: Numbers, whole: Numbers) -> Numbers:
    """Return part / whole, 0 where there is no whole."""
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


def _fragmentation(
    capacity: Mapping[str, _Level], used: Mapping[str, _Level], sizes: Mapping[int, int], moments: Numbers
) -> Numbers:
    """Return of the idle GPUs the share that a pod of the mix cannot take, at some moments."""
    most, total = max(sizes, default=0), sum(sizes.values())
    # Idle GPUs of a node → share of the pods that ask for more.
    larger = np.array([sum(count for size, count in sizes.items() if size > idle) / max(total, 1) for idle in range(most + 1)])
    idle_sum, lost = np.zeros_like(moments), np.zeros_like(moments)
    for name, level in capacity.items():
        idle = np.maximum(level.at(moments) - used[name].at(moments), 0.0)
        idle_sum += idle
        lost += idle * larger[np.minimum(np.rint(idle).astype(int), most)]
    return _ratio(lost, idle_sum)


def _jain(held: Mapping[str, Numbers], there: Mapping[str, Numbers], weights: Mapping[str, float]) -> Numbers:
    """Return Jain's index of what queues hold over their weights, among those with jobs; 1 where there are none."""
    normal = np.array([values / weights.get(name, 1.0) for name, values in held.items()]).reshape(-1, STEPS)
    active = np.array(list(there.values())).reshape(-1, STEPS) > 0
    normal = np.where(active, normal, 0.0)
    squares = active.sum(axis=0) * np.square(normal).sum(axis=0)
    return np.where(squares > 0, _ratio(np.square(normal.sum(axis=0)), squares), 1.0)


def _rounded(number: float) -> float:
    """Return a number with six decimals: more would differ from one library of linear algebra to another."""
    return round(number, 6)


def _plain(values: Numbers) -> list[float]:
    return [_rounded(float(value)) for value in values]
