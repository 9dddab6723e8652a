"""Fair share: between jobs, between namespaces by weight, between queues by weight."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from engine.events.inputs import ObjectApplied
from engine.experiments.jobs import Role, TrainingJob, training
from engine.experiments.rows import Row
from engine.experiments.trial import Trial, node, run, tiers
from statemachines.spec import Requests

__all__ = ["rows"]

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


def _jobs() -> Iterator[Row]:
    """Volcano: jobs of 300 and of 60 pods in one queue, each of which could fill the cluster."""
    for plugins, told in ((("drf",), ""), ((), ", without drf")):
        held = _run([_elastic(1, 300), _elastic(2, 60)], (), "enqueue, allocate", *plugins).pods("job", _SETTLED)
        ours = f"{held['job-1']} and {held['job-2']}"
        seed = "equal" if plugins else "unequal"
        yield Row(_NAME, f"jobs of 300 and 60: pods{told}", seed, ours, (held["job-1"] == held["job-2"]) == bool(plugins))


def _namespaces() -> Iterator[Row]:
    """Volcano: namespaces with weights 3 and 1, a job of 60 pods in each."""
    weights = {"vc-test-1": 3, "vc-test-2": 1}
    quotas = [ObjectApplied("ResourceQuota", f"{name}/weight", {"weight": weight}) for name, weight in weights.items()]
    jobs = [_elastic(number, 60, namespace=name) for number, name in enumerate(weights, start=1)]
    for plugins, told in ((("fairshare",), ""), ((), ", without fairshare")):
        held = _run(jobs, quotas, "enqueue, allocate", *plugins).pods("job", _SETTLED)
        ours = f"{held['job-1']} and {held['job-2']}"
        ok = (held["job-1"] == 3 * held["job-2"]) == bool(plugins)
        yield Row(_NAME, f"namespaces 3 : 1: pods{told}", "3 : 1" if plugins else "-", ours, ok)


def _queues() -> Iterator[Row]:
    """Volcano's rule for queues: by weight, what one does not ask for goes to the others, reclaim takes it back."""
    deep = [_elastic(1, 60, queue="a"), _elastic(2, 60, queue="b")]
    little = [_single(number, 0, "c") for number in range(3, 7)]
    for plugins, told in ((("proportion",), ""), ((), ", without proportion")):
        held = _run([*deep, *little], _QUEUES, "enqueue, allocate", *plugins).pods("queue", _SETTLED)
        ours, ok = _shares(held), _shares(held) == "9 : 27 : 4"
        measure = f"queues 1 : 3 : 4, c asks for 4: pods{told}"
        yield Row(_NAME, measure, "9 : 27 : 4" if plugins else "-", ours, ok == bool(plugins))
    late = [_single(number, _LATER, "c") for number in range(3, 43)]
    for action, told in ((", reclaim", ""), ("", ", without reclaim")):
        trial = _run([*deep, *late], _QUEUES, "enqueue, allocate" + action, "proportion")
        lent, back = (_shares(trial.pods("queue", after)) for after in (_SETTLED, _LATER + _SETTLED))
        yield Row(_NAME, f"queues 1 : 3 : 4, c asks for nothing: pods{told}", "10 : 30 : 0", lent, lent == "10 : 30 : 0")
        ok = back == "5 : 15 : 20"
        seed = "5 : 15 : 20" if action else "-"
        yield Row(_NAME, f"queues 1 : 3 : 4, c now asks for 40: pods{told}", seed, back, ok == bool(action))


def _shares(held: dict[str, int]) -> str:
    return " : ".join(str(held.get(queue.name, 0)) for queue in _QUEUES)
