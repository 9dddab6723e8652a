"""Nobody shakes off a notice, or keeps out of one, by what costs nothing: asking for more pods, or restarting a small one."""

from __future__ import annotations

from typing import Any

import pytest
from deployment import SECOND, Deployment, task, vcjob
from test_notice_protocol import DELAY, made, phase, records, told, urgent

from engine.events.inputs import CommandIssued, JobUpdated
from engine.events.jobs import JobPhaseChanged
from engine.events.preemptions import NoticeExecuted, NoticeOpened


def manifest(pods: int = 1, small: int = 1) -> dict[str, Any]:
    """A job with a large pod that does the work, more of them if asked for, and a small one beside it."""
    tasks = [task("w", pods, cpu=3), task("small", small, cpu=1)]
    return vcjob("low", *tasks, minAvailable=pods + small, queue="q", maxRetry=100)


def running(**queue: Any) -> Deployment:
    """A job fills the one node."""
    deployment = made(nodes=1, **queue)
    deployment.submit("low", manifest())
    deployment.settle()
    deployment.wait(4)
    assert phase(deployment, "low") == "Running"
    return deployment


def scale_up(deployment: Deployment) -> None:
    deployment.give("jobs", JobUpdated(manifest(pods=9)), "low")
    deployment.settle()
    deployment.wait(2)


def restart_small_pod(deployment: Deployment) -> None:
    deployment.give("jobs", CommandIssued("RestartPod", "ann", task="small", index=0), "low")
    deployment.settle()


def test_a_victim_does_not_leave_its_notice_by_asking_for_more_pods():
    deployment = running()
    urgent(deployment)
    scale_up(deployment)
    assert (told(deployment), phase(deployment, "low")) == (["NoticeOpened"], "WillEvicted")
    deployment.wait(DELAY)
    assert (told(deployment)[1], phase(deployment, "urgent")) == ("NoticeExecuted", "Running")


def test_a_job_that_is_pending_while_its_pods_run_is_given_notice():
    deployment = running()
    scale_up(deployment)
    assert phase(deployment, "low") == "Pending"
    urgent(deployment)
    assert (told(deployment), phase(deployment, "low")) == (["NoticeOpened"], "WillEvicted")
    deployment.wait(DELAY + 2)
    assert phase(deployment, "urgent") == "Running"


def test_a_victim_that_scaled_up_is_pending_after_its_notice_is_withdrawn():
    deployment = running()
    urgent(deployment)
    scale_up(deployment)
    deployment.command("urgent", "AbortJob")
    deployment.settle()
    deployment.wait(2)
    phases = [event.data.phase for event in deployment.events(JobPhaseChanged, job="low")]
    assert phases[-3:] == ["WillEvicted", "Running", "Pending"]


def test_a_pending_job_that_has_not_run_yet_is_given_no_notice():
    deployment = made(nodes=1)
    deployment.lazy = True
    deployment.submit("low", manifest())
    deployment.settle()
    deployment.wait(4)
    assert phase(deployment, "low") == "Pending"
    urgent(deployment)
    assert told(deployment) == []


def test_a_restart_of_one_pod_gains_no_time():
    """The notice that follows has the deadline of the one that was left."""
    deployment = running()
    urgent(deployment)
    deployment.wait(DELAY - 10)
    restart_small_pod(deployment)
    deployment.wait(4)
    first, second = deployment.events(NoticeOpened)
    assert second.data.deadline == first.data.deadline
    assert second.data.delay == first.data.deadline - second.recordedtime < DELAY * SECOND
    deployment.wait(8)
    assert [event.recordedtime for event in deployment.events(NoticeExecuted)] == [first.data.deadline]


def test_restarts_of_one_pod_after_another_do_not_shield_a_job():
    deployment = running()
    urgent(deployment)
    deadline = records(deployment)[0].data.deadline
    while deployment.now < deadline + 20 * SECOND:
        if deployment.now // SECOND % 3 == 0:
            restart_small_pod(deployment)
        deployment.wait(1)
    assert phase(deployment, "urgent") == "Running"


@pytest.mark.parametrize(("how", "spared"), [(restart_small_pod, False), (lambda one: one.command("low", "RestartJob"), True)])
def test_the_minimum_run_time_begins_anew_only_when_no_pod_is_left(how, spared):
    deployment = running(minRunSeconds=100)
    deployment.wait(90)
    how(deployment)
    deployment.wait(6)
    assert phase(deployment, "low") == "Running"
    urgent(deployment, wait=12)
    assert (told(deployment) == []) is spared
