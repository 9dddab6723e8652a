"""What an operator reads of objects as API servers show them: the first screen tells what is wrong and what to do."""

from __future__ import annotations

import json
from typing import Any

import pytest

CREATED = "2026-03-01T10:00:00Z"
FULL = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
BACK_OFF = 'Back-off pulling image "registry.example/none:1"'
HOSTILE = "x\x1b[2J\u202eevil\nroot did it"
SHOWN = r"x\x1b[2J\u202eevil root did it"


def pod(name, phase, node=None, namespace="ml", owner=None, version="1", **status: Any):
    owners = [{"kind": "Job", "apiVersion": "batch/v1", "name": owner, "uid": f"uid-{owner}", "controller": True}] if owner else []
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": version}
    return {
        "kind": "Pod",
        "metadata": {**metadata, "creationTimestamp": CREATED, "ownerReferences": owners},
        "spec": {"containers": [{"name": "c"}], **({"nodeName": node} if node else {})},
        "status": {"phase": phase, "startTime": CREATED if node else None, **status},
    }


def container(**state):
    return [{"name": "c", "restartCount": 0, "state": state}]


def unschedulable(message=FULL):
    return [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message, "lastTransitionTime": CREATED}
    ]


def node(name, ready="True", uid="n"):
    conditions = [{"type": "Ready", "status": ready}]
    return {"kind": "Node", "metadata": {"name": name, "uid": uid, "resourceVersion": "1"}, "status": {"conditions": conditions}}


@pytest.fixture
def ingest(lahar):
    def take(*objects, cluster="default"):
        lahar("ingest", "--cluster", cluster, given="".join(json.dumps(one) + "\n" for one in objects))

    return take


def flat(text):
    return " ".join(text.split())


def test_a_pod_for_which_there_is_no_room(lahar, ingest):
    ingest(pod("gpu", "Pending", conditions=unschedulable()))
    assert flat(lahar("why", "ml/gpu").out) == (
        "ml/gpu is Pending since 2026-03-01 10:00:00Z. "
        f"main[0] waits for a node since 2026-03-01 10:00:00Z, attempt 1: Unschedulable: “{FULL}” "
        "To do: Unschedulable: no node fits: free or add what the message names, or ask for less."
    )
    assert f"“{FULL}”" in flat(lahar("history", "ml/gpu").out)
    assert lahar("why", "ml/gpu", "--json").record["replicas"][0]["message"] == FULL
    ingest(pod("gpu", "Pending", version="2", conditions=unschedulable("0/2 nodes are available: 2 node(s) were cordoned.")))
    assert "were cordoned" in lahar("why", "ml/gpu").out
    assert "Insufficient" in lahar("history", "ml/gpu").out


def test_an_image_that_is_not_there(lahar, ingest):
    waiting = container(waiting={"reason": "ImagePullBackOff", "message": BACK_OFF})
    ingest(pod("typo", "Pending", node="n1", containerStatuses=waiting))
    told = flat(lahar("why", "ml/typo", "main[0]").out)
    assert told.startswith(
        f"ml/typo: main[0] has not started on n1 since 2026-03-01 10:00:00Z, attempt 1: ImagePullBackOff: “{BACK_OFF}”. "
        "The job is Pending. Its pod is typo, uid uid-typo. To do: ImagePullBackOff: check the name of its image"
    )


def test_a_job_that_is_held_and_one_that_has_failed(lahar, ingest):
    def job(name, kind, reason, message):
        condition = {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": CREATED}
        metadata = {"name": name, "namespace": "ml", "uid": f"uid-{name}", "creationTimestamp": CREATED, "resourceVersion": "1"}
        return {"kind": "Job", "apiVersion": "batch/v1", "metadata": metadata, "spec": {}, "status": {"conditions": [condition]}}

    ingest(job("held", "Suspended", "JobSuspended", "Job suspended"), job("bad", "Failed", "BackoffLimitExceeded", "Too often"))
    assert "is Pending (JobSuspended) since" in lahar("why", "ml/held").out
    assert "Its Job object says: “Job suspended”." in lahar("why", "ml/held").out
    assert "“Too often”" in lahar("why", "ml/bad").out


def test_a_node_and_whose_pods_are_there(lahar, ingest):
    ended = {"exitCode": 1, "reason": "Error", "startedAt": CREATED, "finishedAt": "2026-03-01T11:00:00Z", "message": "disk full"}
    ingest(
        node("n1", "Unknown"),
        pod("a-0", "Running", node="n1", owner="a", containerStatuses=container(running={"startedAt": CREATED})),
        pod("a-1", "Running", node="n2", owner="a", containerStatuses=container(running={"startedAt": CREATED})),
        pod("b-0", "Failed", node="n1", owner="b", containerStatuses=container(terminated=ended)),
        pod("c-0", "Succeeded", node="n1", owner="c", containerStatuses=container(terminated={**ended, "exitCode": 0})),
    )
    told = lahar("why", "--node", "n1").out.splitlines()
    assert told[0].startswith("Node n1 of cluster default is silent (Ready=Unknown) as of ")
    whole = flat("\n".join(told))
    assert "; 1 pod is there." in whole
    assert "ml/a: main[0] runs on n1 since 2026-03-01 10:00:00Z, attempt 1: Suspect." in whole
    assert "1 attempt has succeeded there." in whole
    assert "ml/b: main[0] failed (exit 1) on n1 at 2026-03-01 11:00:00Z, attempt 1: “disk full”." in whole
    assert "To do: it is silent: look at its kubelet" in whole
    assert [one["job"] for one in lahar("why", "--node", "n1", "--json").record["replicas"]] == ["ml/a", "ml/b"]
    ingest({"type": "DELETED", "object": {**node("n1"), "metadata": {**node("n1")["metadata"], "resourceVersion": "2"}}})
    assert lahar("why", "--node", "n1").out.startswith("Node n1 of cluster default was deleted at ")
    assert "`lahar as-of TIME` lists all nodes" in lahar("why", "--node", "n9", code=3).err


def test_a_node_of_one_of_several_clusters(lahar, ingest):
    ingest(pod("x", "Running", node="n1"), cluster="alpha")
    ingest(node("n1"), pod("y", "Running", node="n1"), cluster="beta")
    assert "alpha/n1, beta/n1; give --cluster" in lahar("why", "--node", "n1", code=2).err
    alpha, beta = (lahar("why", "--node", "n1", "--cluster", name).out for name in ("alpha", "beta"))
    assert "was never observed itself; 1 pod is there." in flat(alpha)
    assert "ml/x" in alpha
    assert "ml/y" not in alpha
    assert "is ready as of" in flat(beta)
    assert "ml/y" in beta


def test_what_a_tenants_program_says_moves_no_cursor(lahar, ingest):
    ended = {"exitCode": 1, "reason": "Error", "startedAt": CREATED, "finishedAt": CREATED, "message": HOSTILE}
    ingest(pod("evil", "Failed", node="n1", containerStatuses=container(terminated=ended)))
    for asked in (["ml/evil"], ["ml/evil", "main[0]"], ["--node", "n1"]):
        assert SHOWN in flat(lahar("why", *asked).out)
        assert lahar("why", *asked, "--json").record["details"] is not None
    assert r"x\x1b[2J\u202eevil\nroot did it" in lahar("history", "ml/evil").out
    events = lahar("history", "ml/evil", "--json").records
    assert HOSTILE in [event["data"].get("message") for event in events]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ([], 2, "give a job, an event or --node NAME"),
        (["ml/gpu", "--node", "n"], 2, "only one of them"),
        (["ml/gpu", "main"], 2, "write TASK[INDEX]"),
        (["ml/gpu", "main[7]"], 3, "no replica 'main[7]'"),
        (["ml/none", "main[0]"], 3, "no job 'ml/none'"),
    ],
)
def test_what_cannot_be_answered(lahar, ingest, arguments, code, says):
    ingest(pod("gpu", "Pending"))
    assert says in lahar("why", *arguments, code=code).err
