"""Whatever happens, decisions break nothing, are the same after any restart, and nobody who fits waits for ever."""

from __future__ import annotations

from collections import Counter

from deployment import Deployment
from hypothesis import given, settings
from hypothesis import strategies as st
from log_checker import faults_of
from stage_stories import Story, told

from engine.scheduling.cluster.entities import Job
from engine.scheduling.configuration import Configuration, PluginOption
from engine.scheduling.stage import SchedulingStage

SEEDS = st.integers(0, 10**6)


def make(limit: int = 2_000) -> SchedulingStage:
    """The stage with all actions."""
    tiers = (("priority", "gang", "conformance"), ("overcommit", "drf", "predicates", "proportion", "nodeorder", "binpack"))
    actions = ("enqueue", "allocate", "backfill", "preempt", "reclaim")
    configuration = Configuration(actions, tuple(tuple(PluginOption(name) for name in tier) for tier in tiers))
    return SchedulingStage(configuration, round_limit=limit)


def records(stage: SchedulingStage, state) -> dict[str, bytes | None]:
    return {name: stage.dump(state, name) for name in stage.records(state)}


@settings(deadline=None, max_examples=12)
@given(SEEDS)
def test_decisions_keep_the_rules(seed):
    assert faults_of(told(seed, make).log) == []


@settings(deadline=None, max_examples=8)
@given(SEEDS)
def test_a_restart_at_any_moment_changes_nothing(seed):
    def same_state(story: Story) -> None:
        stage, state = make(), story.deployment.scheduling.state
        before = records(stage, state)
        again = stage.initial()
        stage.load(again, [(name, record) for name, record in before.items() if record is not None])
        assert records(stage, again) == before
        assert stage.due(again) == stage.due(state)

    without = told(seed, make, after=same_state)
    with_restarts = told(seed, make, restarts=True)
    topics = "scheduling", "decisions", "preemptions"
    assert with_restarts.messages(*topics) == without.messages(*topics)


def finished(deployment: Deployment) -> list[str]:
    """Give the cluster plenty of everything; return who still waits after a while."""
    deployment.deaf = deployment.lazy = deployment.failing = False
    deployment.apply("Queue", "q", weight=2)
    for zone in "ab":
        deployment.node(f"plenty-{zone}", cpu=500, gpu=100, pods=500, labels={"zone": zone})
    deployment.settle()
    deployment.wait(140)
    jobs = deployment.scheduling.state.jobs.values()
    return [job.key for job in jobs if job.group is not None and not job.held and waits(job)]


def waits(job: Job) -> bool:
    """Whether a job has no pods yet, or some of them no node; not if so many pods have failed that no gang is left."""
    left = Counter(task.role for task in job.tasks.values() if task.status != "Failed")
    complete = left.total() >= job.min_member and all(left[role] >= least for role, least in job.role_minimum.items())
    return job.phase == "Pending" or (complete and bool(job.with_status("Pending")))


@settings(deadline=None, max_examples=8)
@given(SEEDS)
def test_who_fits_does_not_wait_for_ever(seed):
    assert finished(told(seed, make)) == []
