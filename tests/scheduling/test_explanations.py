"""When a reason is worth a record: new words at once; figures, places and words told before from time to time."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from deployment import SECOND, Deployment, task, vcjob

from engine.events.scheduling import JobExplained, RoundEnded
from engine.history.waiting import Waiting
from engine.scheduling.cluster.job_records import JobRecord
from engine.scheduling.configuration import Configuration, PluginOption
from engine.scheduling.pending.explanations import due_at, words_of
from engine.scheduling.stage import SchedulingStage

SAID = JobExplained(
    "InsufficientResource", "allocate", "", "w", {"cpu": 500}, {"InsufficientResource/cpu": 3, "Taint": 1}, "q", 20, 40, ["j"]
)
HEAD = JobRecord("c1", "ns", 0, reason=SAID, since=30 * SECOND, told=4_000 * SECOND, told_words=[words_of(SAID)])
"""A job that was told its reason an hour after it began to wait."""
IN_A_MINUTE, IN_AN_HOUR = 4_080 * SECOND, 7_620 * SECOND


def replaced(head: JobRecord, **change: Any) -> JobRecord:
    return msgspec.structs.replace(head, **change)


@pytest.mark.parametrize(
    "change",
    [
        {"reason": "Taint"},
        {"action": "enqueue"},
        {"plugin": "proportion"},
        {"about": "ps"},
        {"nodes": {"InsufficientResource/cpu": 4}},
        {"nodes": {"InsufficientResource/memory": 3, "Taint": 1}},
        {"queue": "other"},
        {"message": "by its annotation"},
    ],
    ids=str,
)
def test_new_words_are_told_at_once_and_those_told_before_at_a_full_minute(change):
    said = replace(SAID, **change)
    assert due_at(said, SAID.place, HEAD) == 0
    assert due_at(said, SAID.place, replaced(HEAD, told_words=[words_of(said), words_of(SAID)])) == IN_AN_HOUR
    assert due_at(said, SAID.place, replaced(HEAD, reason=None)) == 0


@pytest.mark.parametrize("place", [40, 10, 8])
def test_a_place_that_has_halved_or_doubled_is_told_at_a_full_minute(place):
    assert due_at(SAID, place, HEAD) == IN_AN_HOUR
    assert due_at(SAID, place, replaced(HEAD, since=HEAD.told)) == IN_A_MINUTE


@pytest.mark.parametrize(
    "change",
    [
        {"reason": "GangNotComplete"},
        {"missing": {"cpu": 900, "memory": 1}},
        {"missing": {}},
        {"nodes": {"InsufficientResource/cpu": 1, "Taint": 3}},
        {"waiting": 500, "ahead": ["k"]},
    ],
    ids=str,
)
@pytest.mark.parametrize("place", [20, 39, 11])
def test_other_figures_behind_the_first_of_a_queue_wait_for_another_place(change, place):
    said = replace(SAID, **change)
    assert words_of(said) == words_of(SAID)
    assert due_at(said, place, HEAD) is None
    assert due_at(said, 3, HEAD) == IN_AN_HOUR


def waiting(deployment: Deployment) -> None:
    """A job for which the cluster is too small."""
    deployment.node("n1", cpu=1)
    deployment.submit("j1", vcjob("train", task("w", 100)))
    deployment.settle()
    deployment.wait(2)


def told(deployment: Deployment) -> list[tuple[int, int]]:
    """When reasons of the job were written down, and how much CPU it lacked."""
    return [(event.recordedtime // SECOND, event.data.missing["cpu"]) for event in deployment.events(JobExplained, job="j1")]


@pytest.mark.parametrize("restarts", [False, True])
def test_changed_figures_are_published_within_two_minutes_when_idle(restarts):
    deployment = Deployment()
    waiting(deployment)
    for cpu in range(2, 12):
        deployment.node("n1", cpu=cpu)
        deployment.settle()
        deployment.wait()
    assert [missing for _, missing in told(deployment)] == [98_800]
    rounds = len(deployment.events(RoundEnded))
    if restarts:
        deployment.restart()
    deployment.wait(120)
    (first, _), (second, missing) = told(deployment)
    assert (missing, second % 60) == (86_800, 0)
    assert 60 <= second - first < 120
    assert len(deployment.events(RoundEnded)) == rounds + 1


def test_a_reason_that_stands_for_long_is_told_ever_more_rarely():
    deployment = Deployment()
    waiting(deployment)
    for at in range(260):
        deployment.node("n1", cpu=2 + at % 2 + at // 2 % 2)
        deployment.settle()
        deployment.wait(15)
    times = [time for time, _ in told(deployment)]
    minutes = [round((later - times[0]) / 60) for later in times[1:]]
    assert minutes[0] in {1, 2}
    assert all(later <= 2 * earlier + 2 for earlier, later in pairwise(minutes))
    assert len(minutes) in {5, 6}


def test_who_moves_up_in_a_queue_is_told_no_oftener_than_each_minute():
    """One of forty jobs ends every ten seconds: each of the others has another place then."""
    deployment = Deployment()
    deployment.node("n1", cpu=1)
    for at in range(40):
        deployment.submit(f"j{at:02}", vcjob(f"j{at:02}", task("w", 1)))
    deployment.settle()
    deployment.wait(3)
    while running := deployment.running():
        deployment.end(running[0])
        deployment.settle()
        deployment.wait(10)
    news = 0
    for at in range(40):
        told: list[tuple[int, JobExplained]] = [(e.recordedtime, e.data) for e in deployment.events(JobExplained, job=f"j{at:02}")]
        for (before, one), (time, other) in pairwise(told):
            if one.reason and other.reason and words_of(one) == words_of(other):
                news += 1
                assert time - before >= 60 * SECOND
        assert len(told) <= 12
    assert news > 20


def test_a_promise_is_a_reason_of_its_own():
    tiers = tuple((PluginOption(name),) for name in ("priority", "gang", "predicates"))
    deployment = Deployment(stage=lambda: SchedulingStage(Configuration(("enqueue", "allocate", "preempt"), tiers)))
    for name, value in (("low", 1), ("high", 9)):
        deployment.apply("PriorityClass", name, value=value)
    deployment.node("n1", cpu=1)
    deployment.submit("low", vcjob("low", task("w", 1), priorityClassName="low"))
    deployment.settle()
    deployment.wait(3)
    do = deployment.do
    deployment.do = lambda event: None if event.data.effect == "delete_pod" else do(event)
    deployment.submit("high", vcjob("high", task("w", 1), priorityClassName="high"))
    deployment.settle()
    deployment.wait(5)
    told = deployment.events(JobExplained, job="high")[-1]
    assert told.data.reason == "VictimsLeaving"
    assert "it waits for evicted pods to leave" in Waiting(told, {}).sentences()[0]
    deployment.gone(deployment.running()[0])
    deployment.settle()
    deployment.wait(3)
    assert deployment.places("high") == {"high-w-0-1": "n1"}
    assert deployment.events(JobExplained, job="high")[-1].data.reason == ""
