"""Pods that somebody else places: whatever they ask for, and in whatever order they are seen, rounds go on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from deployment import CLUSTER, SECOND, Deployment, task, vcjob

from engine.events.inputs import PodObserved
from engine.kubernetes.observation.nodes import observe_node
from engine.kubernetes.reading.requests import observed_requests
from statemachines.spec import Requests

HUGE = 2**63 - 1


def observe(deployment: Deployment, uid: str, phase: Any, version: str, **seen: Any) -> None:
    """Show a pod of index 0 of an observed job."""
    fields = {"kind": "Job", "owner": "train", "task": "main", "index": 0, "requests": Requests(1000, 1 << 30), **seen}
    created = fields.pop("created", deployment.now)
    deployment.give("pods", PodObserved(uid, "job1", f"pod-{uid}", phase, created, version=version, **fields), "job1")
    deployment.settle()


def idle(deployment: Deployment) -> dict[str, int]:
    model = deployment.scheduling.state.clusters[CLUSTER].model
    model.settle()
    return {name: int(model.table.idle[row, 0]) for name, row in model.table.resources.items()}


@pytest.fixture
def deployment() -> Deployment:
    made = Deployment()
    made.node("n1", cpu=8)
    made.settle()
    return made


@pytest.mark.parametrize(
    ("requests", "resources"),
    [(Requests(HUGE), {}), (Requests(0, HUGE), {}), (Requests(0, 0, HUGE), {}), (Requests(), {"example.com/a": HUGE})],
    ids=["cpu", "memory", "gpu", "other"],
)
@pytest.mark.parametrize("node", ["", "n1"], ids=["pending", "bound"])
def test_a_pod_may_ask_for_any_amount(deployment: Deployment, node: str, requests: Requests, resources: dict[str, int]) -> None:
    """The snapshot is written, a restart reads it, and a full node has no room for others."""
    observe(deployment, "full", "Running", "1", requests=Requests(8000, 1 << 20), node="n1", index=1)
    observe(deployment, "huge", "Bound" if node else "Pending", "1", requests=requests, resources=resources, node=node or None)
    deployment.restart()
    deployment.submit("j1", vcjob("train", task("w", 2, cpu=2)))
    deployment.settle()
    deployment.wait(6)
    assert deployment.places("j1") == {}
    assert idle(deployment)["cpu"] <= 0


def test_an_older_pod_that_is_seen_later_leaves_its_node_to_others(deployment: Deployment) -> None:
    """A list has the running pod of an index before the one that failed there."""
    before = idle(deployment)
    now = deployment.now
    observe(deployment, "new", "Running", "5", node="n1", created=now - 10 * SECOND, running=now - 9 * SECOND)
    observe(deployment, "old", "Failed", "4", node="n1", created=now - 60 * SECOND, ended=now - 30 * SECOND, exit_code=1)
    observe(deployment, "new", "Succeeded", "6", node="n1", created=now - 10 * SECOND, ended=now, exit_code=0)
    deployment.wait(2)
    assert list(deployment.log.scan(("dead-letters",))) == []
    assert idle(deployment) == before


def test_a_pod_may_outlive_its_replacement(deployment: Deployment) -> None:
    before = idle(deployment)
    now = deployment.now
    old: dict[str, Any] = {"node": "n1", "created": now - 60 * SECOND, "running": now - 50 * SECOND}
    observe(deployment, "a", "Running", "1", **old)
    observe(deployment, "a", "Terminating", "2", **old, deleting=True, terminating=now)
    observe(deployment, "b", "Running", "3", node="n1", running=now)
    observe(deployment, "b", "Succeeded", "4", node="n1", running=now, ended=now, exit_code=0)
    observe(deployment, "a", "Failed", "5", **old, deleting=True, terminating=now, ended=now, exit_code=143)
    deployment.wait(2)
    assert list(deployment.log.scan(("dead-letters",))) == []
    assert idle(deployment) == before


def test_a_pod_takes_the_devices_of_its_node_by_their_own_names(deployment: Deployment) -> None:
    """An AMD pod leaves all NVIDIA devices, and half a card of Koordinator is 50 of its units."""
    offered = {"cpu": "8", "memory": "8Gi", "pods": "20", "nvidia.com/gpu": "2", "amd.com/gpu": "2", "koordinator.sh/gpu": "200"}
    node = observe_node({"metadata": {"name": "n1"}, "status": {"allocatable": offered}})
    deployment.give("cluster", node, "n1")
    asked = {"limits": {"amd.com/gpu": "2", "koordinator.sh/gpu": "50"}}
    requests, resources = observed_requests({"containers": [{"resources": asked}]}, {})
    observe(deployment, "amd", "Running", "1", requests=requests, resources=resources, node="n1")
    devices = {name: amount for name, amount in idle(deployment).items() if "/" in name}
    assert devices == {"nvidia.com/gpu": 2000, "amd.com/gpu": 0, "koordinator.sh/gpu": 150_000}


@pytest.mark.parametrize("restarted", [False, True])
def test_a_pod_that_moves_to_the_job_above_its_own_holds_its_node_once(deployment: Deployment, restarted: bool) -> None:
    """Both jobs are in one partition."""
    before, now = idle(deployment), deployment.now
    lived: dict[str, Any] = {"node": "n1", "created": now - 10 * SECOND, "running": now - 9 * SECOND, "task": None, "index": None}
    observe(deployment, "a", "Running", "1", **lived)
    held = idle(deployment)
    above = PodObserved(
        "a", "rj", "pod-a", "Running", lived["created"], version="2", kind="RayJob", owner="rj", through="train",
        controller="job1", chained=True, node="n1", running=lived["running"], requests=Requests(1000, 1 << 30),
    )  # fmt: skip
    deployment.give("pods", above, "rj")
    deployment.settle()
    if restarted:
        deployment.restart()
    assert idle(deployment) == held != before
    assert set(deployment.scheduling.state.jobs) == {"rj"}
    deployment.give("pods", replace(above, version="3", phase="Succeeded", ended=deployment.now), "rj")
    deployment.settle()
    assert idle(deployment) == before
