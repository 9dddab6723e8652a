"""A round leaves the model as it was, whatever it decides, and also when a plugin raises; only events change it."""

from __future__ import annotations

from contextlib import nullcontext
from random import Random
from typing import Any

import pytest
from clusters import Twin, recounted
from deployment import task, vcjob
from hypothesis import given, settings
from hypothesis import strategies as st
from model_digest import WatchedStage, digest
from stage_stories import Story, told

from engine.scheduling.actions import ACTIONS
from engine.scheduling.cluster.model import Cluster
from engine.scheduling.configuration import Configuration, PluginOption
from engine.scheduling.extension_points import POINTS
from engine.scheduling.session import Plugin, Session

SEEDS = st.integers(0, 10**6)
ACTIONS_OF_STORIES = ("enqueue", "allocate", "backfill", "preempt", "reclaim", "shuffle")
NEUTRAL: dict[str, object] = {
    **dict.fromkeys(("job_order", "queue_order", "task_order", "victim_queue_order", "least_run", "excess"), 0),
    **dict.fromkeys(("job_pipelined", "job_enqueueable"), 0),
    **dict.fromkeys(("job_ready", "job_starving", "sub_group_ready", "allocatable", "preemptive"), True),
    **dict.fromkeys(("predicate", "pod_predicate", "batch_node_order", "victims"), ()),
    "lacking": ("", {}),
    "overused": False,
}
"""Answer at an extension point that leaves the decision to other plugins; absent: `None`."""


ASKED = sorted(POINTS.keys() - {"share_of"})
"""Extension points of rounds; the other one is for operators."""


def stage(plugin: type[Plugin] | None = None) -> WatchedStage:
    """The stage with all actions, and a plugin of a third party."""
    tiers = [["priority", "gang", "conformance"], ["overcommit", "drf", "predicates", "capacity", "nodeorder", "binpack"]]
    if plugin is not None:
        tiers[0].insert(0, plugin.NAME)
    options = tuple(tuple(PluginOption(name) for name in tier) for tier in tiers)
    return WatchedStage(Configuration(ACTIONS_OF_STORIES, options), {} if plugin is None else {plugin.NAME: plugin})


def gangs(story: Story) -> None:
    """Submit a job with gangs within it, once."""
    if "gangs" not in story.jobs:
        pods = {**task("w", 4), "partitionPolicy": {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1}}
        story.jobs["gangs"] = vcjob("gangs", pods, minAvailable=2)
        story.deployment.submit("gangs", story.jobs["gangs"])


def faults(seed: int, plugin: type[Plugin] | None = None) -> list[str]:
    """Return what rounds left changed in a story."""
    watched = stage(plugin)
    told(seed, lambda: watched, after=gangs)
    assert watched.rounds
    return watched.faults


@settings(deadline=None, max_examples=10)
@given(SEEDS)
def test_a_round_leaves_the_model_as_it_was(seed):
    assert faults(seed) == []


def raising(point: str, chance: Random, raised: list[str]) -> type[Plugin]:
    """Return a plugin that raises at some of the questions at an extension point, while there are jobs."""

    def answer(self: Plugin, *asked: Any) -> object:
        if self.session.cluster.jobs and chance.random() < 0.2:
            raised.append(point)
            raise ZeroDivisionError(point)
        return asked[0] if point == "protected" else NEUTRAL.get(point)

    def opened(self: Plugin, session: Session) -> None:
        Plugin.open(self, session)
        answer(self, session)

    methods: dict[str, object] = {
        "alike": {"job_order": lambda self, job: 0},
        "protected": {"victims": lambda self, running: running[:1]},
    }.get(point, {})
    return type("Raising", (Plugin,), {"NAME": "raising", point: opened if point == "open" else answer, **methods})


@pytest.mark.parametrize("point", ["open", "alike", *ASKED])
def test_a_round_in_which_a_plugin_raises_leaves_the_model_as_it_was(point):
    raised: list[str] = []
    chance = Random(1)  # noqa: S311 - a story, not a secret
    for seed in range(3):
        assert faults(seed, raising(point, chance, raised)) == []
        if len(raised) > 2:
            break
    assert raised


@settings(deadline=None, max_examples=15)
@given(SEEDS)
def test_a_round_decides_the_same_after_one_that_was_discarded(seed):
    """What plugins, queues and classes of pods keep from round to round follows the model back."""

    def story(*, twice: bool) -> list[object]:
        twin, found = Twin(seed, "capacity"), list[object]()
        for _ in range(6):
            twin.add_job()
            if twice:
                before = digest(twin.cluster)
                with twin.cluster.transaction():
                    twin.scheduler.round(twin.now + 1)
                assert digest(twin.cluster) == before
                assert recounted(twin.cluster) == []
            outcome, _ = twin.round()
            found.append(
                [[(task.key, where) for task, where in part] for part in (outcome.bound, outcome.evicted)]
                + [sorted((task.key, node) for task, node in outcome.pipelined)]
            )
            twin.happen()
        return found

    assert story(twice=True) == story(twice=False)


def test_a_transaction_is_not_opened_in_another():
    cluster = Cluster()
    with cluster.transaction(), pytest.raises(RuntimeError, match="is open"), cluster.transaction():
        pass
    with cluster.transaction():
        pass


def writes_beside(session: Session, placement: object) -> None:
    for job in session.cluster.jobs.values():
        job.phase = "Inqueue"


def moves_beside(session: Session, placement: object) -> None:
    for job in session.cluster.jobs.values():
        for one in job.tasks.values():
            one.node = None


@pytest.mark.parametrize("bug", [writes_beside, moves_beside])
def test_an_action_that_writes_beside_the_transaction_is_seen(plant, bug):
    plant(ACTIONS, "backfill", bug)
    assert any(faults(seed) for seed in range(5))


def test_a_round_without_a_transaction_is_seen(plant):
    plant(Cluster, "transaction", lambda self: nullcontext())
    assert any(faults(seed) for seed in range(5))
