"""When a reason is worth a record: another reason at once, other figures from time to time."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from deployment import SECOND, Deployment, task, vcjob

from engine.events.scheduling import JobExplained, RoundEnded
from engine.scheduling.explanations import changed

SAID = JobExplained(
    "InsufficientResource", "allocate", "", "w", {"cpu": 500}, {"InsufficientResource/cpu": 3, "Taint": 1}, "q", 20, 40, ["j"]
)


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
        {"place": 40},
        {"place": 10},
        {"place": 8},
    ],
    ids=str,
)
def test_another_reason_is_told_at_once(change):
    assert changed(replace(SAID, **change), SAID)


@pytest.mark.parametrize(
    "change",
    [
        {"reason": "GangNotComplete"},
        {"missing": {"cpu": 900, "memory": 1}},
        {"missing": {}},
        {"nodes": {"InsufficientResource/cpu": 1, "Taint": 3}},
        {"place": 39},
        {"place": 11},
        {"waiting": 500, "ahead": ["k"]},
    ],
    ids=str,
)
def test_other_figures_are_the_same_reason(change):
    assert not changed(replace(SAID, **change), SAID)


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
def test_figures_that_change_are_told_within_two_minutes_though_nothing_happens_any_more(restarts):
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
