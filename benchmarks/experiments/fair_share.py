"""Fair share: between jobs, between namespaces by weight, between queues by weight."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from engine.events.inputs import ObjectApplied
from experiments.jobs import Role, TrainingJob, training
from experiments.rows import Column, Row
from experiments.trial import Trial, node, run, tiers
from statemachines.spec import Requests

_NAME: Final = "fair-share"
_RUN: Final = 1000
_NODES: Final = [node(f"node-{at}", 10) for at in range(1, 5)]
"""40 cores; every pod takes one."""
_SETTLED: Final = 60
"""Seconds after which nothing moves any more until the next submission."""
_LATER: Final = 300
_QUEUES: Final = [ObjectApplied("Queue", name, {"weight": weight}) for name, weight in (("a", 1), ("b", 3), ("c", 4))]


def rows() -> Iterator[Row]:
    """Yield the rows."""
    yield from _jobs()
    yield from _namespaces()
    yield from _queues()


def _elastic(number: int, pods: int, *, queue: str = "default", namespace: str = "default") -> TrainingJob:
    """Return a job that runs with any number of its pods."""
    return training(number, [Role("worker", pods, Requests(cpu_milli=1000))], run=_RUN, minimum=1, queue=queue, namespace=namespace)


def _single(number: int, submit: int, queue: str) -> TrainingJob:
    return training(number, [Role("worker", 1, Requests(cpu_milli=1000))], run=_RUN, submit=submit, queue=queue)


def _run(jobs: Sequence[TrainingJob], objects: Sequence[ObjectApplied], actions: str, *plugins: str) -> Trial:
    scheduler = {"actions": actions, "tiers": tiers("gang", *plugins, "predicates", "nodeorder")}
    return run(jobs, _NODES, scheduler, objects)


def _row(plot: str, told: str, seed: str, held: Mapping[str, int], between: str, ok: bool) -> Row:
    columns = tuple(Column(plot, case, told, pods) for case, pods in held.items())
    return Row(_NAME, plot + told, seed, between.join(map(str, held.values())), ok, columns)


def _jobs() -> Iterator[Row]:
    """Volcano: jobs of 300 and of 60 pods in one queue, each of which could fill the cluster."""
    for plugins, told in ((("drf",), ""), ((), ", without drf")):
        pods = _run([_elastic(1, 300), _elastic(2, 60)], (), "enqueue, allocate", *plugins).pods("job", _SETTLED)
        held = {"of 300": pods["job-1"], "of 60": pods["job-2"]}
        ok = (held["of 300"] == held["of 60"]) == bool(plugins)
        yield _row("jobs of 300 and 60: pods", told, "equal" if plugins else "unequal", held, " and ", ok)


def _namespaces() -> Iterator[Row]:
    """Volcano: namespaces with weights 3 and 1, a job of 60 pods in each."""
    weights = {"vc-test-1": 3, "vc-test-2": 1}
    quotas = [ObjectApplied("ResourceQuota", f"{name}/weight", {"weight": weight}) for name, weight in weights.items()]
    jobs = [_elastic(number, 60, namespace=name) for number, name in enumerate(weights, start=1)]
    for plugins, told in ((("fairshare",), ""), ((), ", without fairshare")):
        pods = _run(jobs, quotas, "enqueue, allocate", *plugins).pods("job", _SETTLED)
        held = {"weight 3": pods["job-1"], "weight 1": pods["job-2"]}
        ok = (held["weight 3"] == 3 * held["weight 1"]) == bool(plugins)
        yield _row("namespaces 3 : 1: pods", told, "3 : 1" if plugins else "-", held, " and ", ok)


def _queues() -> Iterator[Row]:
    """Volcano's rule for queues: by weight, what one does not ask for goes to the others, reclaim takes it back."""
    deep = [_elastic(1, 60, queue="a"), _elastic(2, 60, queue="b")]
    little = [_single(number, 0, "c") for number in range(3, 7)]
    for plugins, told in ((("proportion",), ""), ((), ", without proportion")):
        held = _shares(_run([*deep, *little], _QUEUES, "enqueue, allocate", *plugins), _SETTLED)
        ok = held == {"a": 9, "b": 27, "c": 4}
        seed = "9 : 27 : 4" if plugins else "-"
        yield _row("queues 1 : 3 : 4, c asks for 4: pods", told, seed, held, " : ", ok == bool(plugins))
    late = [_single(number, _LATER, "c") for number in range(3, 43)]
    for action, told in ((", reclaim", ""), ("", ", without reclaim")):
        trial = _run([*deep, *late], _QUEUES, "enqueue, allocate" + action, "proportion")
        lent, back = (_shares(trial, after) for after in (_SETTLED, _LATER + _SETTLED))
        ok = lent == {"a": 10, "b": 30, "c": 0}
        yield _row("queues 1 : 3 : 4, c asks for nothing: pods", told, "10 : 30 : 0", lent, " : ", ok)
        ok = back == {"a": 5, "b": 15, "c": 20}
        seed = "5 : 15 : 20" if action else "-"
        yield _row("queues 1 : 3 : 4, c now asks for 40: pods", told, seed, back, " : ", ok == bool(action))


def _shares(trial: Trial, after: int) -> dict[str, int]:
    pods = trial.pods("queue", after)
    return {queue.name: pods[queue.name] for queue in _QUEUES}
