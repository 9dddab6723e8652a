"""A round searches once for each class of jobs, and finds what it would find for each of them."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path
from typing import Any

import pytest
from clusters import Twin
from hypothesis import given
from hypothesis import strategies as st
from planted import Plant

from engine.scheduling.outcome import Outcome
from engine.scheduling.placement import Placement
from engine.scheduling.plugins.hdrf import Tree
from engine.scheduling.preemption.hopeless_searches import HopelessSearches
from engine.scheduling.scheduler import Scheduler

STARVING = run_path(str(Path(__file__).parents[2] / "benchmarks" / "starving.py"))


def found(outcome: Outcome) -> list[Any]:
    """What a round decided and says, by keys."""
    return [
        sorted(job.key for job in outcome.enqueued),
        [(task.key, node) for task, node in outcome.bound],
        [(task.key, node) for task, node in outcome.pipelined],
        [(task.key, action) for task, action in outcome.evicted],
        outcome.reasons,
    ]


def story(seed: int, plugin: str) -> list[Any]:
    twin = Twin(seed, plugin)
    for _ in range(6):
        twin.add_job()
        twin.happen()
    rounds = []
    for _ in range(4):
        rounds.append(found(twin.round()[0]))
        twin.happen()
    return rounds


@given(st.integers(0, 10**6), st.sampled_from(["proportion", "capacity"]))
def test_what_holds_for_a_class_is_what_each_of_its_jobs_would_find(seed: int, plugin: str) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(HopelessSearches, "includes", lambda _self, _job: False)
        each = story(seed, plugin)
    assert story(seed, plugin) == each


def calls(monkeypatch: pytest.MonkeyPatch, jobs: int, shapes: int, owner: Any, name: str, actions: str) -> int:
    """How often a round over a full cluster calls a method."""
    count, method = 0, getattr(owner, name)

    def counting(*given: Any, **named: Any) -> Any:
        nonlocal count
        count += 1
        return method(*given, **named)

    scheduler = Scheduler(STARVING["starving"](jobs, shapes, nodes=4), STARVING["configured"](actions))
    with monkeypatch.context() as counted:
        counted.setattr(owner, name, counting)
        scheduler.round(1_000_000)
    return count


@pytest.mark.parametrize("action", ["preempt", "reclaim"])
def test_searches_for_victims_grow_with_classes_not_with_jobs(monkeypatch: pytest.MonkeyPatch, action: str) -> None:
    def searches(jobs: int, shapes: int) -> int:
        return calls(monkeypatch, jobs, shapes, Placement, "resolvable", f"enqueue, allocate, {action}")

    assert searches(60, 3) == searches(6, 3) == 3
    assert searches(60, 6) == 6


def test_a_planted_search_for_each_job_is_seen(monkeypatch: pytest.MonkeyPatch, plant: Plant) -> None:
    plant(HopelessSearches, "includes", lambda _self, _job: False)
    assert calls(monkeypatch, 60, 3, Placement, "resolvable", "enqueue, allocate, reclaim") == 60


def test_the_tree_of_shares_is_asked_once_for_pods_that_stand_alike_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = (calls(monkeypatch, jobs, 1, Tree, "before", "enqueue, allocate, reclaim") for jobs in (1, 50))
    assert many == few <= 4
