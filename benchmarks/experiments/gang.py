"""Gang scheduling: jobs whose pods need each other, on a cluster that is too small for all of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from math import inf
from typing import Final

from experiments.jobs import Role, training
from experiments.rows import Column, Row
from experiments.trial import Trial, node, run, tiers
from statemachines.spec import Requests

_NAME: Final = "gang"
_RUN: Final = 600
_TENSORFLOW: Final = (Role("ps", 2, Requests(cpu_milli=1000)), Role("worker", 4, Requests(cpu_milli=1000)))
_FOUR_GPUS: Final = (Role("worker", 4, Requests(gpu=1)),)
_OFF: Final[tuple[tuple[Collection[str], str], ...]] = (((), ""), (("gang",), ", without gang"))


def rows() -> Iterator[Row]:
    """Yield the rows."""
    yield from _tensorflow()
    yield from _two_jobs()


def _tensorflow() -> Iterator[Row]:
    """Volcano: 1, 2 and 5 jobs, each of which takes 6 of 8 cores."""
    one = {told: _trial(_TENSORFLOW, 1, 8, 0, without).finished()["job-1"] for without, told in _OFF}
    for without, told in _OFF:
        same = len(set(one.values())) == 1
        yield Row(
            _NAME, f"1 job: seconds{told}", "the same", f"{one[told]:g}", same, (Column("seconds", "1 job", told, one[told]),)
        )
        for jobs in (2, 5):
            done = _trial(_TENSORFLOW, jobs, 8, 0, without).finished()
            ours = f"{len(done)} of {jobs}, {max(done.values()):g}" if done else f"0 of {jobs}: deadlock"
            seed = "some never finish" if without else "all finish"
            last = max(done.values()) if len(done) == jobs else inf
            ok = (len(done) == jobs) != bool(without)
            measure = f"{jobs} jobs: finished, seconds{told}"
            yield Row(_NAME, measure, seed, ours, ok, (Column("seconds", f"{jobs} jobs", told, last),))


def _two_jobs() -> Iterator[Row]:
    """Yield iQIYI's example: jobs A and B, each of which takes all of 4 GPUs."""
    for without, told in _OFF:
        trial = _trial(_FOUR_GPUS, 2, 4, 4, without)
        done, held = trial.finished(), trial.pods("job", 60)
        ours = f"{len(done)} of 2, {held['job-1']} and {held['job-2']}"
        seed = "deadlock, 2 and 2" if without else "both finish"
        ok = (len(done), sorted(held.values())) == ((0, [2, 2]) if without else (2, [4]))
        columns = (Column("GPUs at first", name, told, held[job]) for name, job in (("A", "job-1"), ("B", "job-2")))
        yield Row(_NAME, f"A and B: finished, GPUs at first{told}", seed, ours, ok, tuple(columns))


def _trial(roles: tuple[Role, ...], jobs: int, cores: int, gpus: int, without: Collection[str]) -> Trial:
    scheduler = {"actions": "enqueue, allocate", "tiers": tiers("gang", "drf", "predicates", "nodeorder", without=without)}
    nodes = [node(f"node-{at}", cores // 2, gpus // 2) for at in (1, 2)]
    return run([training(at + 1, roles, run=_RUN) for at in range(jobs)], nodes, scheduler)
