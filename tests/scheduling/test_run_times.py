"""How long pods and jobs are left alone after they got their places, whatever takes places from others."""

from __future__ import annotations

from typing import Any

from deployment import SECOND, Deployment, task, vcjob

from engine.events.attempts import AttemptBound
from engine.events.decisions import DecidedEvicted
from engine.scheduling.configuration import read_configuration
from engine.scheduling.stage import SchedulingStage


def configured(*more: str) -> SchedulingStage:
    """Return a stage that preempts."""
    tiers = [["priority", "conformance", *more], ["predicates", "capacity", "nodeorder"]]
    read = read_configuration(
        {
            "actions": "enqueue, allocate, backfill, preempt",
            "tiers": [{"plugins": [{"name": name} for name in tier]} for tier in tiers],
        }
    )
    return SchedulingStage(read)


def contended(deployment: Deployment, name: str, **more: Any) -> None:
    """Submit a job that fits on node n1 only; there is room for it in its queue."""
    if name == "low":
        deployment.node("n1", cpu=4, labels={"place": "here"})
        deployment.node("n2", cpu=8)
        deployment.apply("PriorityClass", "high", value=100)
    deployment.submit(name, vcjob(name, task(cpu=4, nodeSelector={"place": "here"}), queue="q", **more))
    deployment.settle()


def starting(least: int) -> Deployment:
    """Return a cluster whose pods do not start by themselves, with one that has its node for some seconds."""
    deployment = Deployment(configured)
    deployment.apply("Queue", "q", minRunSeconds=least)
    deployment.lazy = True
    contended(deployment, "low")
    deployment.wait(4)
    return deployment


def evictions(deployment: Deployment, since: int) -> list[int]:
    """Let a more important job come; return the seconds from a time to each eviction for it."""
    contended(deployment, "high", priorityClassName="high")
    deployment.wait(60)
    return [(event.recordedtime - since) // SECOND for event in deployment.events(DecidedEvicted)]


def bound(deployment: Deployment) -> int:
    return deployment.events(AttemptBound, job="low")[0].time


def test_a_pod_that_is_still_starting_is_spared_from_when_it_got_its_node() -> None:
    for least, expected in ((3600, []), (30, [30])):
        deployment = starting(least)
        assert evictions(deployment, bound(deployment)) == expected
    deployment = starting(0)
    (at_once,) = evictions(deployment, bound(deployment))
    assert at_once < 10


def test_the_least_run_time_of_a_pod_counts_anew_from_when_it_began_to_run() -> None:
    deployment = starting(30)
    deployment.wait(20)
    deployment.run("low-w-0-1")
    deployment.settle()
    assert evictions(deployment, deployment.now) == [30]
