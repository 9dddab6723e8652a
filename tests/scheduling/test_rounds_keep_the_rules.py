"""Whatever happens between rounds: no node, gang or queue is broken, and sums are as if they had been counted anew."""

from __future__ import annotations

import numpy as np
import pytest
from clusters import Twin, recounted
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.scheduling import statement
from engine.scheduling.cluster.model import Cluster
from engine.scheduling.cluster.nodes import NodeTable
from engine.scheduling.placement import Placement
from engine.scheduling.plugins import gang
from engine.scheduling.plugins.capacity import Capacity
from engine.scheduling.plugins.predicates import Predicates
from engine.scheduling.preemption import evictable
from engine.scheduling.preemption.evictable import Evictable
from engine.scheduling.session import Session

PLUGINS = ("proportion", "capacity")
ROUNDS = 8


def broken(seed: int, plugin: str) -> list[str]:
    """What is broken in a story of a few rounds."""
    twin = Twin(seed, plugin)
    for _ in range(3):
        twin.add_job()
    for _ in range(ROUNDS):
        _, faults = twin.round()
        faults = faults or recounted(twin.cluster)
        if faults:
            return faults
        twin.happen()
    return []


@pytest.mark.parametrize("plugin", PLUGINS)
@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6))
def test_rounds_keep_the_rules(plugin, seed):
    assert broken(seed, plugin) == []


@pytest.mark.parametrize("plugin", PLUGINS)
def test_the_same_story_has_the_same_end(plugin):
    def story(seed):
        twin = Twin(seed, plugin)
        found = []
        for _ in range(ROUNDS):
            twin.add_job()
            outcome, _ = twin.round()
            found.append(
                [[(task.key, node) for task, node in part] for part in (outcome.bound, outcome.evicted, outcome.pipelined)]
            )
            twin.happen()
        return found

    assert [story(seed) for seed in range(5)] == [story(seed) for seed in range(5)]


def test_what_was_learned_in_earlier_rounds_changes_nothing():
    """Masks and scores that are kept give the same decisions as those that are made anew in each round."""

    def story(seed, *, forget):
        twin = Twin(seed, "proportion")
        found = []
        for _ in range(ROUNDS):
            twin.add_job()
            if forget:
                twin.scheduler._kept.clear()
            outcome, _ = twin.round()
            found.append([(task.key, node) for task, node in outcome.bound])
            twin.happen()
        return found

    for seed in range(30):
        assert story(seed, forget=False) == story(seed, forget=True)


def no_filter(self, pod_class):
    return iter(())


def forgets_the_future(self, row, pod_class, idle, future, take=NodeTable.take):
    take(self, row, pod_class, idle, idle)


def binds_half(self, commit=statement.Statement.commit):
    del self._moves[: len(self._moves) // 2]
    commit(self)


def every_node_fits(self, task, best=Placement.best):
    found = best(self, task)
    return found or (self._table.nodes[0], True)


def miscounts(self, task, old, new, count=Cluster._count):
    count(self, task, old, new)
    if new.counted:
        count(self, task, old, new)


@pytest.mark.parametrize(
    ("owner", "name", "bug"),
    [
        (Placement, "best", every_node_fits),
        (Predicates, "predicate", no_filter),
        (Predicates, "pod_predicate", lambda self, pod_class, namespace, without: iter(())),
        (gang, "is_ready", lambda job: True),
        (Capacity, "allocatable", lambda self, queue, task: True),
        (Session, "job_ready", lambda self, job: job.ready > 0),
        (statement.Statement, "commit", binds_half),
        (statement.Statement, "discard", lambda self: None),
        (NodeTable, "take", forgets_the_future),
        (Cluster, "_count", miscounts),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_the_checks_see_a_planted_bug(monkeypatch, owner, name, bug):
    monkeypatch.setattr(owner, name, bug)
    assert any(broken(seed, "capacity") for seed in range(60))


@pytest.mark.parametrize("plugin", PLUGINS)
def test_nodes_that_are_passed_over_could_not_have_been_freed(monkeypatch, plugin):
    """The upper bounds of what evicting frees spare work and change no decision."""

    def story(seed):
        twin = Twin(seed, plugin)
        found = []
        for _ in range(ROUNDS):
            twin.add_job()
            outcome, _ = twin.round()
            found.append([(task.key, action) for task, action in outcome.evicted])
            twin.happen()
        return found

    monkeypatch.setattr(evictable, "_FEW", 0)
    monkeypatch.setattr(evictable, "_MANY", 1)
    pruned = [story(seed) for seed in range(30)]
    assert any(any(rounds) for rounds in pruned)
    monkeypatch.setattr(Evictable, "_enough", lambda self, task, freed, lacking: np.ones(len(self._table.nodes), np.bool_))
    assert [story(seed) for seed in range(30)] == pruned
