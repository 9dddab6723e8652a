"""`lahar why` of jobs that wait for the scheduling stage: what stops them, how much is missing, and who is ahead."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

import pytest
import yaml

from engine.events import Event
from engine.events.scheduling import JobExplained
from engine.history import waiting
from engine.scheduling.pending.reasons import REASONS, ReasonCode


def node(name: str, gpus: int, **spec) -> dict:
    allocatable = {"cpu": "16", "memory": "64Gi", "pods": "20", "nvidia.com/gpu": str(gpus)}
    status = {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec, "status": status}


def job(name: str, gpus: int) -> dict:
    limits = {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": str(gpus)}
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i", "resources": {"limits": limits}}]}}
    spec = {"schedulerName": "lahar", "tasks": [{"name": "worker", "replicas": 1, "template": template}]}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def crowded(lahar, folder: Path):
    """Two nodes, none of which takes the first job; the third one is not let in."""
    objects = [node("gpu-01", 2), node("gpu-02", 4, taints=[{"key": "special", "effect": "NoSchedule"}])]
    (folder / "nodes.yaml").write_text(yaml.safe_dump_all(objects))
    lahar("apply", "nodes.yaml")
    for number in (1, 2, 3):
        (folder / "job.yaml").write_text(yaml.safe_dump(job(f"train{number}", 3)))
        lahar("apply", "job.yaml")
    return lahar


def test_nodes_that_refuse_its_pods_are_counted(crowded):
    said = crowded("why", "train1").out.replace("\n", " ")
    assert "no node takes a pod of task worker; 1 nvidia.com/gpu is missing on the nearest (allocate, Taint)." in said
    assert "Nodes: 1 with a taint that it does not tolerate, 1 with too little nvidia.com/gpu even when empty." in said
    assert "It was 1st of 1 that wait in queue default." in said
    assert "To do: Taint: change the nodes" in said
    assert "no scheduler has looked at it" not in said


def test_who_is_ahead_is_named(crowded):
    said = json.loads(crowded("why", "train3", "--json").out)
    assert said["waiting"]["reason"] == "ClusterOvercommitted"
    assert (said["waiting"]["action"], said["waiting"]["plugin"]) == ("enqueue", "overcommit")
    assert said["waiting"]["missing"] == {"nvidia.com/gpu": 1800}
    assert (said["waiting"]["place"], said["waiting"]["waiting"]) == (3, 3)
    assert [ahead["name"] for ahead in said["waiting"]["ahead"]] == ["default/train1", "default/train2"]
    assert "It has no pods yet: the scheduler has not enqueued it." in said["details"]


def test_a_job_waits_since_its_submission_at_the_earliest(lahar, folder):
    (folder / "node.yaml").write_text(yaml.safe_dump(node("gpu-01", 2)))
    lahar("apply", "node.yaml", "--at", "2026-05-01T08:00:00Z")
    (folder / "job.yaml").write_text(yaml.safe_dump(job("big", 8)))
    lahar("apply", "job.yaml", "--at", "2026-05-01T09:30:00Z")
    assert json.loads(lahar("why", "big", "--json").out)["waiting"]["since"] == "2026-05-01T09:30:00.000000Z"


def test_a_reason_dated_too_early_before_counts_from_the_submission():
    explained = Event("e", "s", JobExplained.TYPE, "j", 1, 9, 1, "j", "", "c", JobExplained("Waiting"))
    assert waiting.Waiting(explained, {}, submitted=5).since == 5


def test_a_past_moment_has_the_reason_of_then(crowded, folder):
    since = json.loads(crowded("why", "train1", "--json").out)["waiting"]["since"]
    (folder / "more.yaml").write_text(yaml.safe_dump(node("gpu-03", 8)))
    crowded("apply", "more.yaml")
    assert json.loads(crowded("why", "train1", "--json").out)["waiting"] is None
    then = json.loads(crowded("why", "train1", "--at", since, "--json").out)
    assert then["waiting"]["reason"] == "Taint"
    assert "--at is for jobs" in crowded("why", "--node", "gpu-01", "--at", since, code=2).err


def test_every_reason_has_words():
    assert set(waiting.REASONS) | set(waiting.NODE_REASONS) == REASONS


def test_the_page_has_every_reason_with_what_is_said_of_it():
    page = (Path(__file__).parents[2] / "docs" / "scheduling.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (.+) \| (.+) \|$", page.partition("### Reasons")[2].partition("\n## ")[0], re.MULTILINE)
    assert [code for code, _, _ in rows] == list(get_args(ReasonCode))
    for code, said, remedy in rows:
        known = waiting.REASONS[code][0] if code in waiting.REASONS else f"{{about}} nodes {waiting.NODE_REASONS[code]}"
        assert re.fullmatch(re.sub(r"\\{\w+\\}", ".+", re.escape(known)), said), code
        assert remedy.endswith(".")
