"""Whatever happens between rounds: no node, gang or queue is broken, and sums are as if they had been counted anew."""

from __future__ import annotations

import numpy as np
import pytest
from clusters import Twin, configuration, recounted
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.scheduling.preemption import evictable
from engine.scheduling.preemption.evictable import Evictable
from engine.scheduling.scheduler import Scheduler

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
                memory, twin.scheduler = twin.scheduler.memory, Scheduler(twin.cluster, configuration("proportion"))
                twin.scheduler.memory = memory
            outcome, _ = twin.round()
            found.append([(task.key, node) for task, node in outcome.bound])
            twin.happen()
        return found

    for seed in range(30):
        assert story(seed, forget=False) == story(seed, forget=True)


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
