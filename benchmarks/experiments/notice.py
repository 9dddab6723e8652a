"""Preemption with notice: whole jobs that have time to save their work, against pods that are evicted at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from engine.events.inputs import ObjectApplied
from engine.events.times import SECOND
from engine.scheduling.cluster.queues import PreemptionMode
from experiments.jobs import Role, training
from experiments.rows import Column, Row
from experiments.trial import Trial, node, run, tiers
from statemachines.spec import Requests

_NAME: Final = "notice"
_HOUR: Final = 3600
_DELAY: Final = 300
"""Seconds from a notice to its execution."""
_CHECKPOINT: Final = 60
"""Seconds that a job takes to save its work."""
_AFTER: Final = 15
"""Seconds by which the privileged job runs after its victims have acknowledged: rounds, their grace period, its start."""
_WORKER: Final = Requests(cpu_milli=4000, gpu=1)
_NODES: Final = [node(f"node-{at}", 64, gpu=8) for at in range(1, 5)]
_TRAININGS: Final = [training(number, [Role("worker", 4, _WORKER)], run=4 * _HOUR) for number in range(1, 9)]
"""They fill the nodes."""
_PRIVILEGED: Final = training(
    9,
    [Role("worker", 8, _WORKER)],
    run=_HOUR // 2,
    submit=3 * _HOUR // 2,
    annotations={"lahar/spec": "preempt: true"},
    priority="urgent",
)
_FEWEST: Final = 2
"""Trainings that hold as many GPUs as the privileged job asks for."""
_LOST: Final = _FEWEST * 4 * _AFTER / 60
"""GPU minutes of the fewest trainings after their checkpoints."""


@dataclass(frozen=True, slots=True)
class _Way:
    """How a queue preempts, and what comes of it."""

    told: str
    lost: float
    """GPU minutes that ran for nothing."""
    start: float
    """Seconds from the submission of the privileged job until it ran."""
    stopped: int
    """Trainings that were stopped."""


def rows() -> Iterator[Row]:
    """Yield the rows: eight trainings fill the nodes for 90 minutes, then comes a privileged job that needs the place of two."""
    notice = _way("notice", "notice", checkpoint=_CHECKPOINT)
    late = _way("notice, nobody saves", "notice")
    immediate = _way("immediate", "immediate")
    none = _way("none", "none")
    for way in (notice, late, immediate):
        yield _row("GPU minutes lost", way.told, "-", way.lost, f"{way.lost:.1f}", way.lost <= _LOST, way is notice)
    for way in (notice, late, immediate, none):
        soon = _CHECKPOINT <= way.start <= _CHECKPOINT + _AFTER
        yield _row("seconds to the start", way.told, "delayed", way.start, f"{way.start:g}", soon, way is notice)
    for way in (notice, immediate):
        yield _row("jobs stopped", way.told, "fewer", way.stopped, str(way.stopped), way.stopped == _FEWEST, way is notice)


def _row(plot: str, told: str, seed: str, value: float, ours: str, claim: bool, feature: bool) -> Row:
    columns = (Column(plot, "", told, value),)
    return Row(_NAME, f"{plot}, {told}", seed if feature else "-", ours, claim == feature, columns)


def _way(told: str, mode: PreemptionMode, checkpoint: int | None = None) -> _Way:
    objects = [
        ObjectApplied("Queue", "default", {"weight": 1, "preemption": mode, "preemptionDelaySeconds": _DELAY}),
        ObjectApplied("Tenant", "default", {"priority": 0, "mayPreempt": True}),
        ObjectApplied("PriorityClass", "urgent", {"value": 1000}),
    ]
    # Plugin gang protects gangs against the eviction of single pods: with its veto nobody could be preempted at once.
    plugins = tiers("priority", "gang", "predicates", "nodeorder", gang={"enablePreemptable": False})
    scheduler = {"actions": "enqueue, allocate, preempt", "tiers": plugins}
    return _measured(told, run([*_TRAININGS, _PRIVILEGED], _NODES, scheduler, objects, checkpoint=checkpoint))


def _measured(told: str, trial: Trial) -> _Way:
    results, own = trial.results, {job.id for job in _TRAININGS}
    placements = [placement for placement in results.placements if placement.job in own]
    ran = sum(
        placement.gpu * (placement.end - placement.running)
        for placement in placements
        if placement.running is not None and placement.end is not None
    )
    needed = sum(job.gpus * job.amount for job in _TRAININGS)
    start = trial.waits()[_PRIVILEGED.row.name]
    return _Way(
        told, (ran - needed) / SECOND / 60, start, len({placement.job for placement in placements if placement.reason is not None})
    )
