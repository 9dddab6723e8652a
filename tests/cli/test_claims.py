"""A pod or an object says whose it is; a user of another namespace or cluster changes nothing of somebody else's job."""

from __future__ import annotations

import json

import pytest
import yaml
from watched_pods import JOB, pod, watched

from engine.events import Message
from engine.runtime.principal import spoken_by


@pytest.fixture
def research(lahar):
    """Research's job, whose replica runs; returns its id."""
    lahar("apply", "-", given=JOB)
    (job,) = (line["id"] for line in lahar("job", "list", "--json").records)
    lahar("ingest", "-", given=watched(pod("good", job, "Running")))
    return job


def phases(lahar):
    return {line["namespace"]: line["phase"] for line in lahar("job", "list", "--all", "--json").records}


def test_a_failed_pod_of_another_namespace_restarts_nobodys_job(lahar, research):
    before = lahar("history", research, "--json").records
    lahar("ingest", "-", given=watched(pod("evil", research, "Failed", namespace="tenant-evil")))
    assert lahar("history", research, "--json").records == before
    assert phases(lahar) == {"research": "Running", "tenant-evil": "Failed"}
    (own,) = (line["id"] for line in lahar("job", "list", "--all", "--json").records if line["namespace"] == "tenant-evil")
    history = lahar("history", own, "--json").records
    assert [one["data"]["what"] for one in history if one["type"] == "lahar.anomaly.v1"] == [
        f"pod pod-evil names job {research}, which is no job of its namespace tenant-evil in cluster default"
    ]
    assert "pod-evil" in lahar("why", own).out
    assert [found["ok"] for found in lahar("verify", "--json").records] == [True] * 4


def test_a_pod_of_another_controller_is_of_that_one(lahar, research):
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "set-1", "controller": True}
    lahar("ingest", "-", given=watched(pod("odd", research, "Failed", ownerReferences=[owner])))
    assert lahar("job", "show", "set-1", "--json").record["phase"] == "Failed"
    whats = [one["data"] for one in lahar("history", "set-1", "--json").records if one["type"] == "lahar.anomaly.v1"]
    assert [one["what"] for one in whats] == [f"pod pod-odd names job {research} by annotation, but its controller is web"]
    assert lahar("job", "show", research, "--json").record["phase"] == "Running"


def test_a_pod_of_another_cluster_is_nobodys_here(lahar, research):
    lahar("ingest", "--cluster", "beta", "-", given=watched(pod("good", research, "Failed", 2)))
    assert lahar("job", "show", research, "--json").record["phase"] == "Running"
    jobs = lahar("job", "list", "--all", "--json").records
    assert {line["cluster"]: line["phase"] for line in jobs} == {"default": "Running", "beta": "Failed"}


def test_a_pod_before_its_job_is_not_adopted_from_another_namespace(lahar):
    manifest = yaml.safe_load(JOB)
    manifest["metadata"]["uid"] = "j-1"
    lahar("ingest", "-", given=watched(pod("evil", "j-1", "Failed", namespace="tenant-evil")))
    lahar("apply", "-", given=json.dumps(manifest))
    assert phases(lahar) == {"research": "Pending", "tenant-evil": "Failed"}


@pytest.mark.parametrize("change", ["ADDED", "DELETED"])
def test_an_object_of_another_namespace_changes_no_job(lahar, change):
    manifest = yaml.safe_load(JOB)
    manifest["spec"]["managedBy"] = "lahar/engine"
    manifest["metadata"] |= {"uid": "j-1", "resourceVersion": "4", "generation": 2}
    lahar("ingest", "-", given=json.dumps(manifest))
    manifest["metadata"] |= {"namespace": "tenant-evil", "resourceVersion": "5", "generation": 3}
    manifest["spec"]["tasks"][0]["replicas"] = 5
    lahar("ingest", "-", given=json.dumps({"type": change, "object": manifest}))
    shown = lahar("job", "show", "j-1", "--json").record
    assert (shown["phase"], shown["namespace"], shown["tasks"]["worker"]["replicas"]) == ("Pending", "research", 1)


def test_a_submission_with_the_uid_of_anothers_job_makes_a_job_of_ones_own(lahar):
    manifest = yaml.safe_load(JOB)
    manifest["metadata"]["uid"] = "j-1"
    lahar("apply", "-", given=json.dumps(manifest))
    manifest["metadata"]["namespace"] = "tenant-evil"
    told = lahar("job", "submit", "-", given=json.dumps(manifest)).out
    assert "unchanged" not in told
    assert "tenant-evil" in told
    assert phases(lahar) == {"research": "Pending", "tenant-evil": "Pending"}


def test_what_cannot_be_read_is_put_in_as_it_stands():
    typed = Message("j", "i", "s", "lahar.job.submitted.v1", "j", 1, 1, 0, "j", "", "c", b'{"manifest": 1}')
    assert spoken_by([typed], "ann") == [typed]
