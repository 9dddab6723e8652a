"""When rounds are dated: never before the changes that they look at."""

from __future__ import annotations

import pytest
from deployment import SECOND, START, Deployment, task, vcjob

from engine.events import decode
from engine.events.decisions import DecidedBound, DecidedEnqueued
from engine.events.scheduling import JobExplained, RoundEnded

HOUR = 3_600 * SECOND


@pytest.fixture
def deployment() -> Deployment:
    made = Deployment(every=1)
    made.node("n1", cpu=4)
    made.settle()
    return made


def later(deployment: Deployment, hours: int) -> int:
    deployment.now += hours * HOUR
    return deployment.now


def test_a_reason_is_not_older_than_a_job_whose_node_was_there_before(deployment):
    submitted = later(deployment, 1)
    deployment.submit("j1", vcjob("big", task("w", cpu=20)))
    deployment.settle()
    (explained,) = deployment.events(JobExplained, job="j1")
    assert explained.data.reason == "ClusterTooSmall"
    assert explained.time == submitted


def test_a_job_waiting_again_gets_its_node_at_its_restart(deployment):
    """Not when another node came."""
    deployment.submit("j1", vcjob("train", task()))
    deployment.settle()
    deployment.wait(4)
    later(deployment, 1)
    deployment.node("n2", cpu=4)
    deployment.settle()
    restarted = later(deployment, 1)
    deployment.command("j1", "RestartJob")
    deployment.settle()
    deployment.wait(4)
    decided = deployment.events(DecidedEnqueued, DecidedBound, RoundEnded)
    assert sum(isinstance(event.data, DecidedBound) for event in decided) == 2
    assert [event for event in decided if HOUR < event.time - START < restarted - START] == []


def test_a_restart_between_change_and_round_dates_the_round_no_earlier(deployment):
    later(deployment, 1)
    deployment.node("n2", cpu=4)
    deployment.deaf = True
    deployment.settle()
    deployment.restart()
    deployment.deaf = False
    submitted = later(deployment, 1)
    deployment.submit("j1", vcjob("train", task()))
    for processor in deployment.lifecycle:
        processor.step()
    deployment.scheduling.step()
    deployment.restart()
    deployment.settle()
    (let_in,) = deployment.events(DecidedEnqueued, job="j1")
    assert let_in.time == submitted


def test_no_event_of_a_round_is_dated_before_its_cause(deployment):
    for number in range(4):
        later(deployment, 1)
        deployment.node(f"n{number}", cpu=4)
        deployment.submit(f"j{number}", vcjob(f"train{number}", task("w", 2)))
        deployment.settle()
        deployment.wait(3)
    events = [decode(message) for message in deployment.messages("scheduling", "decisions", "job-events", "cluster")]
    times = {event.id: event.time for event in events}
    assert [event for event in events if event.time < times.get(event.causationid, 0)] == []
