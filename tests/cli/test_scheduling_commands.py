"""Queues, nodes, tenants and pod groups by command: what they show, and opening and closing of queues."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

GI = 1 << 30


def node(name, gpus, **spec):
    status = {"allocatable": {"cpu": "16", "memory": "64Gi", "pods": "20", "nvidia.com/gpu": str(gpus)}}
    status["conditions"] = [{"type": "Ready", "status": "True"}]
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec, "status": status}


def queue(name, **spec):
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def job(name, of, replicas, gpus=1):
    container = {"name": "w", "image": "i", "resources": {"limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": str(gpus)}}}
    task = {"name": "worker", "replicas": replicas, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    spec = {"schedulerName": "lahar", "queue": of, "minAvailable": replicas, "tasks": [task]}
    metadata = {"name": name, "namespace": "nlp"}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": metadata, "spec": spec}


def given(*objects):
    return "---\n".join(map(yaml.safe_dump, objects))


@pytest.fixture
def busy(lahar):
    """The command, in a cluster with two queues: a job of `research` has nodes, and two wait."""
    at = "2026-03-04T14:00:0"
    tenant = {"apiVersion": "lahar.dev/v1", "kind": "Tenant", "metadata": {"name": "nlp"}, "spec": {"weight": 3}}
    cordoned = node("n2", 4, unschedulable=True, taints=[{"key": "old", "value": "yes", "effect": "NoSchedule"}])
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "nlp"}}
    quota |= {"spec": {"hard": {"requests.nvidia.com/gpu": "8"}}, "status": {"used": {"requests.nvidia.com/gpu": "2"}}}
    cluster = (node("n1", 4), cordoned, queue("research", weight=2), queue("idle"), tenant, quota)
    lahar("apply", "-", "--at", f"{at}0", given=given(*cluster, job("runs", "research", 2)))
    lahar("apply", "-", "--at", f"{at}5", given=given(job("wide", "research", 3)))
    lahar("apply", "-", "--at", f"{at}9", given=given(job("later", "research", 4)))
    return lahar


def test_a_queue_shows_its_share_and_who_waits_for_what(busy):
    default, idle, research, root = busy("queue", "list", "--json").records
    assert [one["name"] for one in (default, idle, research, root)] == ["default", "idle", "research", "root"]
    assert (idle["state"], idle["share"], idle["jobs"], idle["waiting"]) == ("Open", None, {}, [])
    assert research["allocated"] == {"cpu": 2000, "memory": 2 * GI, "nvidia.com/gpu": 2000, "pods": 2000}
    assert (research["weight"], research["plugin"], research["jobs"]) == (2, "proportion", {"Inqueue": 2, "Pending": 1})
    waiting = {one["name"]: one["reason"] for one in research["waiting"]}
    assert waiting == {"nlp/wide": "GangNotComplete", "nlp/later": "QueueLimit"}
    assert busy("queue", "show", "research", "--json").record == research
    shown = busy("queue", "show", "research").out
    assert "Open, weight 2, priority 0" in shown
    assert "\njobs: 1 Pending, 2 Inqueue\n" in shown
    assert "QueueLimit" in shown
    row = next(line.split() for line in shown.splitlines() if line.startswith("nvidia.com/gpu"))
    assert row[-2] == "2"
    assert "no queue 'nope' in this log; `lahar queue list` lists" in busy("queue", "show", "nope", code=3).err


def test_a_node_shows_what_is_used_by_whom(busy):
    first, second = busy("node", "list", "--json").records
    assert (first["used"]["nvidia.com/gpu"], first["idle"]["nvidia.com/gpu"], first["allocatable"]["pods"]) == (2000, 2000, 20_000)
    assert [(pod["name"], pod["task"], pod["index"], pod["status"], pod["ours"]) for pod in first["pods"]] == [
        ("runs", "worker", index, "Binding", True) for index in (0, 1)
    ]
    assert (second["cordoned"], second["used"], second["pods"]) == (True, {}, [])
    assert second["taints"] == ["old=yes:NoSchedule"]
    shown = busy("node", "show", "n1").out
    assert "nlp/runs  worker[1]" in shown
    assert "Ready, cordoned" in busy("node", "list").out
    assert "no node 'n9'" in busy("node", "show", "n9", code=3).err


def test_a_tenant_shows_its_jobs_and_quotas(busy):
    (found,) = busy("tenant", "list", "--json").records
    assert (found["name"], found["weight"], found["namespaces"], found["jobs"], found["waiting"]) == ("nlp", 3, ["nlp"], 3, 2)
    assert found["allocated"]["nvidia.com/gpu"] == 2000
    gpus = "requests.nvidia.com/gpu"
    assert found["quotas"] == [{"namespace": "nlp", "hard": {gpus: 8000}, "used": {gpus: 2000}}]
    assert busy("tenant", "show", "nlp", "--json").record == found
    assert "quota of namespace nlp" in busy("tenant", "show", "nlp").out
    assert "no tenant 'x'" in busy("tenant", "show", "x", code=3).err


def test_a_pod_group_shows_its_members_and_why_it_waits(busy):
    groups = {one["name"]: one for one in busy("podgroup", "list", "--json").records}
    assert groups["nlp/runs"]["members"] == {"Binding": 2}
    assert (groups["nlp/wide"]["phase"], groups["nlp/wide"]["members"]) == ("Inqueue", {"Pending": 3})
    assert [one["name"] for one in busy("podgroup", "list", "--waiting", "--json").records] == ["nlp/wide", "nlp/later"]
    assert busy("podgroup", "show", "nlp/wide", "--json").record == groups["nlp/wide"]
    shown = busy("podgroup", "show", "nlp/wide").out
    assert "Inqueue, queue research, priority 0, needs 3" in shown
    assert "pods: 3 Pending" in shown
    assert "(allocate" in shown
    busy("podgroup", "show", "nlp/none", code=3)


def test_a_closed_queue_is_closing_until_its_jobs_are_over(busy):
    busy("queue", "close", "research")
    busy("queue", "close", "idle")
    states = {one["name"]: one["state"] for one in busy("queue", "list", "--json").records}
    assert states == {"default": "Open", "idle": "Closed", "research": "Closing", "root": "Open"}
    assert busy("queue", "close", "idle").out == "Queue idle: was Closed\n"
    assert busy("queue", "open", "research", "--json").record["outcome"] == "changed"
    assert busy("queue", "open", "research", "--json").record["outcome"] == "unchanged"
    assert "no queue 'nope'" in busy("queue", "open", "nope", code=3).err
    assert "root" in busy("queue", "close", "root", code=2).err


def test_a_queue_closes_and_opens_with_its_children_and_is_else_unchanged(lahar):
    """Volcano: only those that were closed with it open with it; below a closed queue none opens."""
    leaf = queue("leaf", parent="middle", weight=7, capability={"cpu": "8"}, priority=3)
    leaf["metadata"]["annotations"] = {"volcano.sh/hierarchy": "root/a", "volcano.sh/hierarchy-weights": "1/2"}
    tree = (queue("root"), queue("top"), queue("middle", parent="top"), leaf, queue("shut", parent="top"), queue("other"))
    lahar("apply", "-", given=given(*tree))

    def states():
        return {one["name"]: one["state"] for one in lahar("queue", "list", "--json").records}

    def spec():
        events = map(json.loads, lahar("export").out.splitlines())
        return [e["data"]["spec"] for e in events if e.get("type") == "lahar.object.applied.v1" and e["data"]["name"] == "leaf"]

    lahar("queue", "close", "shut")
    lahar("queue", "close", "top")
    assert states() == dict.fromkeys(("leaf", "middle", "shut", "top"), "Closed") | dict.fromkeys(
        ("default", "other", "root"), "Open"
    )
    assert "queue middle above it is closed; open that first" in lahar("queue", "open", "leaf", code=2).err
    assert "root cannot be closed" in lahar("queue", "close", "root", code=2).err
    opened = lahar("queue", "open", "top", "--json").records
    assert [one["name"] for one in opened] == ["top", "middle", "leaf"]
    assert states() == {name: "Closed" if name == "shut" else "Open" for name in states()}
    first, closed, last = spec()
    assert closed == {**first, "state": "Closed", "closedByParent": True}
    assert last == {**first, "state": "Open"}


def test_a_job_is_not_taken_by_a_closed_queue(busy):
    busy("queue", "close", "idle")
    assert "idle" in busy("apply", "-", given=given(job("late", "idle", 1)), code=2).err


def test_where_two_clusters_have_the_name_the_cluster_is_asked_for(lahar, folder):
    for cluster in ("alpha", "beta"):
        (folder / "lahar.toml").write_text(f'cluster = "{cluster}"\n')
        lahar("apply", "-", given=given(node("n1", 1), queue("shared")))
    for command in ("queue show shared", "queue close shared", "node show n1"):
        assert "give --cluster" in lahar(*command.split(), code=2).err
    lahar("queue", "close", "shared", "--cluster", "alpha")
    states = {(one["cluster"], one["name"]): one["state"] for one in lahar("queue", "list", "--json").records}
    assert (states["alpha", "shared"], states["beta", "shared"]) == ("Closed", "Open")
    assert lahar("node", "show", "n1", "--cluster", "beta", "--json").record["cluster"] == "beta"
    assert [one["cluster"] for one in lahar("node", "list", "--cluster", "alpha", "--json").records] == ["alpha"]
    assert lahar("node", "list").out.startswith("CLUSTER")


def test_where_the_stage_is_off_it_says_so(lahar):
    done = lahar("queue", "list", LAHAR_SCHEDULING="false", LAHAR_LOG="memory:")
    assert "the scheduling stage is off here" in done.err


def test_queues_nodes_and_groups_are_listed_as_they_stood(lahar):
    """The first job has the node at ten; the second waits for it from eleven on."""
    lahar("apply", "-", "--at", "2026-03-01T09:00:00Z", given=given(node("n1", 1)))
    lahar("apply", "-", "--at", "2026-03-01T10:00:00Z", given=given(job("first", "default", 1)))
    lahar("apply", "-", "--at", "2026-03-01T11:00:00Z", given=given(job("second", "default", 1)))

    def waiting(*at):
        (found,) = [one for one in lahar("queue", "list", "--json", *at).records if one["name"] == "default"]
        return [one["name"] for one in found["waiting"]], sum(found["jobs"].values())

    assert waiting() == waiting("--at", "2026-03-01 11:30") == (["nlp/second"], 2)
    assert waiting("--at", "2026-03-01 10:30") == ([], 1)
    assert lahar("queue", "list", "--at", "2026-03-01 08:00", "--json").records == []
    for command in (("podgroup", "list"), ("tenant", "list"), ("node", "list")):
        assert len(lahar(*command, "--at", "2026-03-01 10:30", "--json").records) <= 1


@pytest.mark.parametrize("pieces", [1, 4, 100])
def test_a_recorded_moment_does_not_depend_on_the_batches_of_inputs(lahar, folder, pieces):
    story = Path(__file__).parent.parent.parent / "examples" / "out-of-memory"
    lahar("apply", story / "nodes.yaml", story / "job.yaml", "--at", "2026-03-03T11:00:00")
    lines = (story / "pods.jsonl").read_text().splitlines(keepends=True)
    size = -(-len(lines) // pieces)
    for place in range(0, len(lines), size):
        (folder / "part.jsonl").write_text("".join(lines[place : place + size]))
        lahar("ingest", "--recorded", "part.jsonl")
    held = {node["name"]: len(node["pods"]) for node in lahar("node", "list", "--at", "2026-03-03 11:30", "--json").records}
    assert held == dict.fromkeys(["cpu-1", "cpu-2", "gpu-1", "gpu-2", "gpu-3"], 1)


def test_the_default_queue_of_a_log_of_jobs_only_is_closed_and_opened(lahar, folder):
    (folder / "job.yaml").write_text(yaml.safe_dump(job("train", "default", 1)))
    lahar("job", "submit", "job.yaml")
    lahar("queue", "close", "default")
    assert [queue["state"] for queue in lahar("queue", "list", "--json").records if queue["name"] == "default"] != ["Open"]
    lahar("queue", "open", "default")
    assert "cannot be closed" in lahar("queue", "close", "root", code=2).err
