"""PaddlePaddle: pods that hold a parameter server and a trainer each, against two tasks; dead, slow and elastic trainers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import inf
from statistics import fmean
from typing import Final

from engine.events.inputs import NodeObserved, ObjectApplied
from engine.events.times import SECOND
from engine.simulation.incidents import Incident
from experiments.jobs import Role, TrainingJob, training
from experiments.rows import Column, Row
from experiments.trial import node, run, tiers
from statemachines.spec import Requests

_NAME: Final = "paddlepaddle"
_HOUR: Final = 3600
_TROUBLE: Final = 1500
"""Seconds after which a trainer dies, or the node of a slow one is drained."""
_STARTS_OVER: Final = _TROUBLE - 60
"""A job that starts over then ends at least so many seconds later."""
_RUN: Final = 1800
"""Seconds that a job of three trainers takes if nothing goes over the network."""
_PAIRS: Final = 3
_SERVER: Final = Requests(cpu_milli=4000)
_TRAINER: Final = Requests(cpu_milli=2000, gpu=1)
_PAIR: Final = Requests(cpu_milli=6000, gpu=1)
_SLOW: Final = "node-1"
_SLOWNESS: Final = 2
_AGAIN: Final = [{"event": event, "action": "RestartPod"} for event in ("PodFailed", "PodEvicted")]
_COMBINED: Final = [Role("pair", _PAIRS, _PAIR)]
_RESTARTED: Final = [Role("pair", _PAIRS, _PAIR, [{"event": "PodFailed", "action": "RestartJob"}])]
_TWO_TASKS: Final = [Role("ps", _PAIRS, _SERVER), Role("trainer", _PAIRS, _TRAINER, _AGAIN)]
_BESIDE: Final = {"volcano.sh/task-topology-affinity": "ps,trainer", "volcano.sh/task-topology-anti-affinity": "ps"}
_OWN: Final = [node(f"node-{at}", 8, gpu=1) for at in range(1, 5)]
_WITH_CORES: Final = [*_OWN, node("cores-1", 32)]
"""With a node where all servers go."""
_SHARED: Final = [*(node(f"gpu-{at}", 8, gpu=2) for at in (1, 2, 3)), *(node(f"cpu-{at}", 16) for at in (1, 2))]
_SERVICES: Final = [training(10 + at, [Role("service", 1, Requests(cpu_milli=4000, gpu=1))], run=2 * _HOUR) for at in range(3)]
"""Online services: one on each node with GPUs, which leaves 4 cores there."""
_SOON: Final = 60
"""Seconds within which services are to run."""
_MOST: Final = 8
_LEAST: Final = 2
_DAY: Final = [*(node(f"gpu-{at}", 4, gpu=2) for at in (1, 2, 3, 4)), node("cpu-1", 8)]
_ONLINE: Final = [
    training(10 + at, [Role("service", 1, _TRAINER)], run=2 * _HOUR, submit=_HOUR, priority="online")
    for at in range(_MOST - _LEAST)
]


def progress(places: Sequence[tuple[str, str]], slow: str = "") -> float:
    """Return the progress per second of three trainers with fixed shards of the data, which take their steps together.

    The model: in a step each trainer computes for one unit of time, and exchanges a third of its update with each of the three
    servers, over the network in a third of a unit, within a node in none. On a slow node it takes twice as long. Nobody works
    while a server or trainer is missing.

    Args:
        places: task and node of each pod that runs.
        slow: name of a slow node.
    """
    servers = [where for role, where in places if role in {"ps", "pair"}]
    trainers = [where for role, where in places if role in {"trainer", "pair"}]
    if not len(servers) == len(trainers) == _PAIRS:
        return 0.0
    remote = [sum(server != where for server in servers) / _PAIRS for where in trainers]
    return 1 / max((1 + part) * (_SLOWNESS if where == slow else 1) for part, where in zip(remote, trainers, strict=True))


def elastic_progress(places: Sequence[tuple[str, str]]) -> float:
    """Return the progress per second of trainers that are handed shards as they come: 1 with eight, in proportion with fewer."""
    roles = [role for role, _ in places]
    return roles.count("trainer") / _MOST if "ps" in roles else 0.0


def rows() -> Iterator[Row]:
    """Yield the rows."""
    yield from _tasks()
    yield from _trouble()
    yield from _elastic()


def _tasks() -> Iterator[Row]:
    """Combined pods and two tasks, on a cluster of their own and beside online services."""
    combined, beside = _seconds(_COMBINED, _OWN), _seconds(_TWO_TASKS, _OWN, annotations=_BESIDE)
    yield _row("own cluster", "combined pods", "efficient", combined, combined == beside)
    yield _row("own cluster", "two tasks", "-", beside, beside == combined)
    apart = _seconds(_TWO_TASKS, _WITH_CORES)
    yield _row("own cluster", "two tasks apart", "-", apart, apart > combined)
    ends = 2.0 * _HOUR
    for told, roles in (("two tasks", _TWO_TASKS), ("combined pods", _COMBINED)):
        done = _seconds(roles, _SHARED, services=_SERVICES)
        seed = "-" if roles is _TWO_TASKS else "not optimal"
        yield _row("shared cluster", told, seed, done, (done < ends) == (roles is _TWO_TASKS))


def _trouble() -> Iterator[Row]:
    """Yield what a dead trainer costs, and a slow one. The claim: the work that is done stays."""
    dead = Incident(0, _TROUBLE * SECOND, "fail", "job-1", 1)
    drained = Incident(0, _TROUBLE * SECOND, "drain", _SLOW)
    undisturbed = {len(roles): _seconds(roles, _WITH_CORES) for roles in (_COMBINED, _TWO_TASKS)}
    for what, told, roles, incidents, keeps in (
        ("dead", "two tasks", _TWO_TASKS, [dead], True),
        ("dead", "combined pods", _COMBINED, [dead], False),
        ("dead", "combined pods, RestartJob", _RESTARTED, [dead], False),
        ("slow", "two tasks, node drained", _TWO_TASKS, [drained], True),
        ("slow", "two tasks", _TWO_TASKS, [], False),
        ("slow", "combined pods", _COMBINED, [], False),
        ("slow", "combined pods, node drained", _COMBINED, [drained], False),
    ):
        done = _seconds(roles, _WITH_CORES, incidents, slow=_SLOW if what == "slow" else "")
        claim = done < undisturbed[len(roles)] + _STARTS_OVER
        seed = "blocks the job" if told == "combined pods" else "-"
        yield _row(f"{what} trainer", told, seed, done, claim == keeps)


def _row(case: str, told: str, seed: str, seconds: float, ok: bool) -> Row:
    ours = "never ends" if seconds == inf else f"{seconds:.0f}"
    return Row(_NAME, f"{case}: seconds, {told}", seed, ours, ok, (Column("seconds", case, told, seconds),))


def _seconds(
    roles: Sequence[Role],
    nodes: Sequence[NodeObserved],
    incidents: Sequence[Incident] = (),
    *,
    services: Sequence[TrainingJob] = (),
    annotations: Mapping[str, str] | None = None,
    slow: str = "",
) -> float:
    """Return the seconds of a job of three pairs."""
    model = partial(progress, slow=slow)
    job = training(1, roles, run=_RUN, submit=10, annotations=annotations, progress=model, holders=("ps", "pair"))
    scheduler = {"actions": "enqueue, allocate", "tiers": tiers("gang", "task-topology", "predicates", "nodeorder")}
    return run([*services, job], nodes, scheduler, incidents=incidents).finished().get("job-1", inf)


def _elastic() -> Iterator[Row]:
    """Yield what elastic trainers give to online services for two hours, and what they take before and after."""
    found = {(least, most): _day(least, most) for least, most in ((_LEAST, _MOST), (_MOST, _MOST), (_LEAST, _LEAST))}
    slowest = max(hours for _, hours in found.values())
    for (least, most), (wait, hours) in found.items():
        told = f"{least} to {most} trainers" if least < most else f"{least} trainers"
        claim = wait < _SOON and hours < slowest
        ours, ok = f"{wait:.0f}, {hours:.1f}", claim == (least < most)
        columns = Column("services run after seconds", "", told, wait), Column("hours of the training", "", told, hours)
        yield Row(_NAME, f"{told}: services run after seconds, hours", "-", ours, ok, columns)


def _day(least: int, most: int) -> tuple[float, float]:
    """Return after how many seconds services run on average, and the hours of a training."""
    roles = [Role("ps", 1, Requests(cpu_milli=6000)), Role("trainer", most, _TRAINER)]
    main = {"lahar/spec": "tasks: {ps: {main: true}}"}
    model = elastic_progress
    job = training(1, roles, run=2 * _HOUR, minimum=1 + least, annotations=main, progress=model, holders=("ps",))
    scheduler = {"actions": "enqueue, allocate, preempt", "tiers": tiers("priority", "gang", "predicates", "nodeorder")}
    trial = run([job, *_ONLINE], _DAY, scheduler, [ObjectApplied("PriorityClass", "online", {"value": 1000})])
    return fmean(trial.waits()[service.row.name] for service in _ONLINE), trial.finished()["job-1"] / _HOUR
