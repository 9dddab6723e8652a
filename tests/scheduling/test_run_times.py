"""How long pods and jobs are left alone after they got their places, whatever takes places from others."""

from __future__ import annotations

from typing import Any

from deployment import SECOND, Deployment, task, vcjob
from test_notice_protocol import CONFIGURATION, made, urgent

from engine.events.attempts import AttemptBound
from engine.events.decisions import DecidedEvicted
from engine.events.inputs import CommandIssued
from engine.events.jobs import JobPhaseChanged
from engine.events.preemptions import NoticeOpened
from engine.scheduling.configuration import Configuration, PluginOption, read_configuration
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


# --- notices --------------------------------------------------------------------------------------------------------------------

WITH_CDP = Configuration(CONFIGURATION.actions, (CONFIGURATION.tiers[0], (*CONFIGURATION.tiers[1], PluginOption("cdp"))))


def noticed_after(cooldowns: dict[str, str], configuration: Configuration = WITH_CDP, restart: str = "", **queue: Any) -> list[int]:
    """Return the seconds from when job `low` was Running to each notice to it.

    Args:
        cooldowns: task → cooldown time of its pods.
        configuration: of scheduling.
        restart: task whose pod is restarted after half a minute.
        queue: fields of the queue.
    """
    deployment = made(nodes=1, configuration=configuration, **queue)
    tasks = [task(name, cpu=2, labels={"volcano.sh/cooldown-time": stated}) for name, stated in cooldowns.items()]
    deployment.submit("low", vcjob("low", *tasks, queue="q", minAvailable=1))
    deployment.settle()
    deployment.wait(4)
    (began, *_) = [event.time for event in deployment.events(JobPhaseChanged, job="low") if event.data.phase == "Running"]
    deployment.wait(26)
    if restart:
        deployment.give("jobs", CommandIssued("RestartPod", "ann", task=restart, index=0), "low")
        deployment.settle()
    urgent(deployment)
    deployment.wait(60)
    return [(event.recordedtime - began) // SECOND for event in deployment.events(NoticeOpened)]


def test_a_job_gets_notice_only_after_the_longest_cooldown_of_its_pods() -> None:
    assert noticed_after({"a": "1h", "b": "10s"}) == []
    assert noticed_after({"a": "45s", "b": "10s"}) == [45]
    assert noticed_after({"a": "45s", "b": "10s"}, minRunSeconds=50) == [50]
    (at_once,) = noticed_after({"a": "45s", "b": "10s"}, CONFIGURATION)
    assert at_once < 40


def test_the_restart_of_a_pod_prolongs_no_cooldown_time_of_its_job() -> None:
    assert noticed_after({"a": "45s", "b": "45s"}, restart="b") == [45]
