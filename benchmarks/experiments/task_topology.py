"""Task topology: parameter servers and workers of a job beside each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from statistics import fmean, pstdev
from typing import Final

from experiments.jobs import Role, TrainingJob, training
from experiments.rows import Column, Row
from experiments.trial import node, run, tiers
from statemachines.spec import Requests

_NAME: Final = "task-topology"
_RUN: Final = 600
"""Seconds that a job takes if nothing goes over the network."""
_REPETITIONS: Final = 10
_JOBS: Final = 3
_TENSORFLOW: Final = (Role("ps", 2, Requests(cpu_milli=2000)), Role("worker", 4, Requests(cpu_milli=4000)))
_PODS: Final = sum(role.replicas for role in _TENSORFLOW)
_TOLD: Final = ("", ", without task-topology")
_ANNOTATIONS: Final = {"volcano.sh/task-topology-affinity": "ps,worker", "volcano.sh/task-topology-anti-affinity": "ps"}


def slowdown(places: Sequence[tuple[str, str]]) -> float:
    """Return by which factor a job takes longer because of exchanges over the network.

    The model: workers train asynchronously, each at its own pace. In a step a worker computes for one unit of time and exchanges
    gradients with every parameter server in turn: over the network in one unit, within a node in none. The job ends after a
    number of steps of all workers together.

    Args:
        places: task and node of each pod.
    """
    servers = [where for role, where in places if role == "ps"]
    steps = [1 + sum(server != where for server in servers) for role, where in places if role == "worker"]
    return len(steps) / sum(1 / step for step in steps)


def _progress(places: Sequence[tuple[str, str]]) -> float:
    return 1 / slowdown(places) if len(places) == _PODS else 0.0


def rows() -> Iterator[Row]:
    """Yield the rows: three jobs at a time, on six nodes of 16 cores that are used differently in each repetition."""
    with_it, without = _times(_ANNOTATIONS, "task-topology"), _times(_ANNOTATIONS)
    gained, plot = fmean(with_it) < fmean(without), "mean seconds"
    yield Row(
        _NAME,
        f"{plot}, with and without",
        "-33 %",
        _means(with_it, without),
        gained,
        _columns(plot, "annotations", with_it, without),
    )
    spread = pstdev(with_it), pstdev(without)
    yield Row(
        _NAME,
        "their deviation, with and without",
        "steady, fluctuates",
        f"{spread[0]:.0f}, {spread[1]:.0f}",
        spread[0] < spread[1],
        tuple(Column("deviation of the seconds", "", told, value) for told, value in zip(_TOLD, spread, strict=True)),
    )
    bare = _times({}, "task-topology"), _times({})
    same, case = fmean(bare[0]) == fmean(bare[1]), "no annotations"
    yield Row(_NAME, f"{plot}, without annotations", "-", _means(*bare), same, _columns(plot, case, *bare))


def _columns(plot: str, case: str, *times: Sequence[float]) -> tuple[Column, ...]:
    return tuple(Column(plot, case, told, fmean(own)) for told, own in zip(_TOLD, times, strict=True))


def _means(with_it: Sequence[float], without: Sequence[float]) -> str:
    gain = fmean(with_it) / fmean(without) - 1
    return f"{fmean(with_it):.0f}, {fmean(without):.0f} ({gain * 100:+.0f} %)"


def _times(annotations: Mapping[str, str], *plugins: str) -> list[float]:
    """Return the seconds of all jobs of all repetitions."""
    scheduler = {"actions": "enqueue, allocate", "tiers": tiers("gang", *plugins, "predicates", "nodeorder")}
    nodes = [node(f"node-{at}", 16) for at in range(1, 7)]
    jobs = [
        training(number, _TENSORFLOW, run=_RUN, submit=10, annotations=annotations, progress=_progress)
        for number in range(1, _JOBS + 1)
    ]
    found: list[float] = []
    for repetition in range(_REPETITIONS):
        done = run([*_others(Random(repetition)), *jobs], nodes, scheduler).finished()  # noqa: S311 - no secret
        found += [done[job.row.name] for job in jobs]
    return found


def _others(chance: Random) -> list[TrainingJob]:
    """Return jobs of one pod that are there before and stay."""
    sizes = [Requests(cpu_milli=1000 * chance.randint(1, 6)) for _ in range(6)]
    return [training(10 + at, [Role("other", 1, size)], run=10 * _RUN) for at, size in enumerate(sizes)]
