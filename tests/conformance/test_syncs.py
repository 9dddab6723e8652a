"""What Volcano's status shows after a sync."""

from __future__ import annotations

import pytest

from engine.conformance.kinds import KINDS

COUNTERS = ("pending", "running", "succeeded", "failed", "terminating", "unknown")


def synced(replicas, *pods):
    """Sync a job of one task `a`, and say whose deletion was asked for and which counters are not zero."""
    spec = {"tasks": [{"name": "a", "replicas": replicas}]}
    case = {"phase": "Running", "action": "SyncJob", "job_name": "j", "spec": spec, "pods": pods, "podgroup": {"phase": "Running"}}
    found = KINDS["state"](case)
    return found["killed"], {name: found[name] for name in COUNTERS if found[name]}, KINDS["sync_job"](case)["total_pods"]


def pod(name, phase="Running", **fields):
    return {"task": "a", "name": name, "phase": phase, **fields}


def test_a_pod_that_is_made_counts_as_pending():
    assert synced(3, pod("j-a-0")) == ([], {"pending": 2, "running": 1}, 3)


def test_a_pod_beyond_the_replicas_is_terminating_alone():
    assert synced(1, pod("j-a-0"), pod("j-a-1")) == (["j-a-1"], {"running": 1, "terminating": 1}, 1)


def test_a_pod_that_is_out_of_sync_is_terminating_in_addition_to_its_phase():
    assert synced(1, pod("j-a-0", out_of_sync=True)) == (["j-a-0"], {"running": 1, "terminating": 1}, 0)


def test_a_pod_that_is_being_deleted_keeps_its_place():
    assert synced(1, pod("j-a-0", deleting=True, out_of_sync=True)) == ([], {"terminating": 1}, 1)


@pytest.mark.parametrize(("task", "killed"), [("a", ["pod1"]), ("gone", [])])
def test_a_pod_of_no_replica_is_deleted_if_its_task_is_of_the_job(task, killed):
    assert synced(0, {**pod("pod1"), "task": task})[0] == killed


def test_containers_are_ready_unless_a_pod_says_otherwise():
    spec = {"tasks": [{"name": "a", "replicas": 1, "min_available": 1}]}
    case = {"job_name": "j", "spec": spec, "depends_on_task": "a", "pods": [pod("j-a-0")]}
    assert KINDS["depends_on_ready"](case) == {"ready": True}
    case["pods"] = [pod("j-a-0", container_ready=[False])]
    assert KINDS["depends_on_ready"](case) == {"ready": False}
