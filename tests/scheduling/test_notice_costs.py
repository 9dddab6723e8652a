"""What open notices cost: there is a bound of them, and a round costs in proportion to how many there are."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from deployment import Deployment, task, vcjob
from test_notice_protocol import DELAY, made, submit, told, urgent

from engine.events.preemptions import NoticeOpened
from engine.kubernetes.observation.nodes import observe_node
from engine.scheduling.cluster.model import Cluster


def with_notices(count: int, delay: int = 600) -> Deployment:
    """As many low jobs as nodes, and as many privileged ones."""
    deployment = made(nodes=count)
    deployment.apply("Queue", "q", preemption="notice", preemptionDelaySeconds=delay)
    for number in range(count):
        submit(deployment, f"low{number}", wait=0)
    deployment.wait(4)
    for number in range(count):
        urgent(deployment, f"urgent{number}", wait=0)
    deployment.wait(count + 4)
    return deployment


def open_notices(deployment: Deployment) -> int:
    return len(deployment.scheduling.state.clusters["c1"].model.notices)


def test_open_notices_are_bounded_and_the_others_have_their_turn(monkeypatch):
    monkeypatch.setattr(import_module("engine.scheduling.preemption.give_notice"), "MOST_NOTICES", 2)
    deployment = with_notices(4, delay=DELAY)
    assert (told(deployment), open_notices(deployment)) == (["NoticeOpened"] * 2, 2)
    deployment.wait(2 * DELAY + 10)
    assert told(deployment).count("NoticeExecuted") == 4
    assert {uid.partition("-")[0].rstrip("0123456789") for uid in deployment.running()} == {"urgent"}


def moves_of_a_round(monkeypatch: pytest.MonkeyPatch, deployment: Deployment) -> int:
    """Let a round run, and return how often it has moved a task of the model."""
    found: list[object] = []
    move = Cluster.move

    def counting(*given: Any) -> None:
        found.append(given)
        move(*given)

    with monkeypatch.context() as counted:
        counted.setattr(Cluster, "move", counting)
        deployment.apply("Queue", "else", weight=2)
        deployment.settle()
        deployment.wait(1)
    return len(found)


def test_a_round_costs_in_proportion_to_the_open_notices(monkeypatch):
    def moves(count: int) -> int:
        deployment = with_notices(count)
        assert open_notices(deployment) == count
        return moves_of_a_round(monkeypatch, deployment)

    few, many = moves(6), moves(24)
    assert few > 0
    assert many <= 4.4 * few


def test_a_round_costs_in_proportion_to_the_victims_of_a_notice(monkeypatch):
    def moves(count: int) -> int:
        deployment = made(nodes=0)
        deployment.node("large", cpu=count, pods=2 * count)
        for number in range(count):
            submit(deployment, f"low{number}", cpu=1, wait=0)
        deployment.wait(4)
        urgent(deployment, cpu=count)
        assert len(deployment.events(NoticeOpened)[0].data.victims) == count
        return moves_of_a_round(monkeypatch, deployment)

    few, many = moves(8), moves(32)
    assert few > 0
    assert many <= 4.4 * few


def test_the_job_losing_the_least_gpu_work_of_any_maker_gets_the_notice() -> None:
    deployment = made(nodes=0)
    for name in ("n0", "n1"):
        offered = {"cpu": "4", "memory": "64Gi", "pods": "20", "amd.com/gpu": "2", "koordinator.sh/gpu": "200"}
        deployment.give("cluster", observe_node({"metadata": {"name": name}, "status": {"allocatable": offered}}), name)
    asked = {"a-two-cards": {"amd.com/gpu": "2"}, "b-half-a-card": {"koordinator.sh/gpu": "50"}}
    for name, devices in asked.items():
        low = vcjob(name, task("w", cpu=4), queue="q")
        low["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["resources"]["limits"] = devices
        deployment.submit(name, low)
    deployment.settle()
    deployment.wait(4)
    urgent(deployment)
    (opened,) = deployment.events(NoticeOpened)
    assert list(opened.data.victims) == ["b-half-a-card"]
