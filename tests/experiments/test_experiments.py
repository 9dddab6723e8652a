"""The experiments' table: every claim holds with its feature and fails without it."""

from __future__ import annotations

import pytest
from experiments import EXPERIMENTS

OURS = {
    "gang": {
        "1 job: seconds": "604",
        "2 jobs: finished, seconds": "2 of 2, 1207",
        "5 jobs: finished, seconds": "5 of 5, 3016",
        "1 job: seconds, without gang": "604",
        "2 jobs: finished, seconds, without gang": "0 of 2: deadlock",
        "5 jobs: finished, seconds, without gang": "0 of 5: deadlock",
        "A and B: finished, GPUs at first": "2 of 2, 0 and 4",
        "A and B: finished, GPUs at first, without gang": "0 of 2, 2 and 2",
    },
    "fair-share": {
        "jobs of 300 and 60: pods": "20 and 20",
        "jobs of 300 and 60: pods, without drf": "1 and 39",
        "namespaces 3 : 1: pods": "30 and 10",
        "namespaces 3 : 1: pods, without fairshare": "1 and 39",
        "queues 1 : 3 : 4, c asks for 4: pods": "9 : 27 : 4",
        "queues 1 : 3 : 4, c asks for 4: pods, without proportion": "40 : 0 : 0",
        "queues 1 : 3 : 4, c asks for nothing: pods": "10 : 30 : 0",
        "queues 1 : 3 : 4, c now asks for 40: pods": "5 : 15 : 20",
        "queues 1 : 3 : 4, c asks for nothing: pods, without reclaim": "10 : 30 : 0",
        "queues 1 : 3 : 4, c now asks for 40: pods, without reclaim": "10 : 30 : 0",
    },
    "binpack": {
        "job of 16: pods by node": "16",
        "job of 24: pods by node": "20 and 4",
        "job of 16: pods by node, without binpack": "8 and 8",
        "job of 24: pods by node, without binpack": "12 and 12",
    },
    "task-topology": {
        "mean seconds, with and without": "1204, 1604 (-25 %)",
        "their deviation, with and without": "0, 267",
        "mean seconds, without annotations": "1604, 1604 (+0 %)",
    },
    "notice": {
        "GPU minutes lost, notice": "0.8",
        "GPU minutes lost, notice, nobody saves": "760.4",
        "GPU minutes lost, immediate": "2883.6",
        "seconds to the start, notice": "71",
        "seconds to the start, notice, nobody saves": "310",
        "seconds to the start, immediate": "10",
        "seconds to the start, none": "9007",
        "jobs stopped, notice": "2",
        "jobs stopped, immediate": "8",
    },
    "paddlepaddle": {
        "own cluster: seconds, combined pods": "3004",
        "own cluster: seconds, two tasks": "3004",
        "own cluster: seconds, two tasks apart": "3604",
        "shared cluster: seconds, two tasks": "3604",
        "shared cluster: seconds, combined pods": "10197",
        "dead trainer: seconds, two tasks": "3607",
        "dead trainer: seconds, combined pods": "never ends",
        "dead trainer: seconds, combined pods, RestartJob": "4509",
        "slow trainer: seconds, two tasks, node drained": "4360",
        "slow trainer: seconds, two tasks": "7204",
        "slow trainer: seconds, combined pods": "6004",
        "slow trainer: seconds, combined pods, node drained": "4514",
        "2 to 8 trainers: services run after seconds, hours": "10, 3.5",
        "8 trainers: services run after seconds, hours": "3607, 2.0",
        "2 trainers: services run after seconds, hours": "4, 8.0",
    },
}


@pytest.mark.parametrize("name", OURS)
def test_an_experiment_shows_what_is_claimed(name: str):
    rows = list(EXPERIMENTS[name].rows())
    assert {row.measure: row.ours for row in rows} == OURS[name]
    assert {row.name for row in rows} == {name}
    assert [row for row in rows if not row.ok] == []


def test_a_feature_that_does_nothing_is_found(monkeypatch: pytest.MonkeyPatch):
    """The checks can fail: with a plugin that scores no node, the claims about it do not hold."""
    monkeypatch.setattr("engine.scheduling.plugins.binpack.BinPack.node_order", lambda *_: None)
    assert [row.ok for row in EXPERIMENTS["binpack"].rows()] == [False, False, True, True]


def test_work_that_is_not_saved_on_notice_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("engine.simulation.joint_work.JointWork.save", lambda _: None)
    assert [row.measure for row in EXPERIMENTS["notice"].rows() if not row.ok] == ["GPU minutes lost, notice"]


def test_trainers_that_go_on_as_one_are_found(monkeypatch: pytest.MonkeyPatch):
    """With trainers that hold the work as servers do, a dead one and a drained one take it with them."""
    monkeypatch.setattr("experiments.jobs.TrainingJob.holds_work", lambda *_: True)
    wrong = [row.measure for row in EXPERIMENTS["paddlepaddle"].rows() if not row.ok]
    assert wrong == ["dead trainer: seconds, two tasks", "slow trainer: seconds, two tasks, node drained"]
