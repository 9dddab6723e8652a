"""`lahar job submit`: one id has one outcome, and a live name is taken."""

from __future__ import annotations

import json
from typing import Any

import pytest

GOOD: dict[str, Any] = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "metadata": {"name": "train", "namespace": "ml"},
    "spec": {"tasks": [{"name": "worker", "replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}]},
}
BAD: dict[str, Any] = {**GOOD, "spec": {**GOOD["spec"], "minAvailable": -1}}
FAULT = "spec.minAvailable: must be at least 0"
REPEATED = "an input with this id was"


@pytest.fixture
def submit(lahar):
    def call(manifest, *options, code=0):
        return lahar("job", "submit", "-", *options, given=json.dumps(manifest), code=code)

    return call


def names(lahar):
    return [record["name"] for record in lahar("job", "list", "--json").records]


def test_a_rejected_submission_stays_rejected_under_its_id(lahar, submit):
    assert FAULT in submit(BAD, "--id", "nightly", code=2).err
    for _ in range(2):
        corrected = submit(GOOD, "--id", "nightly", code=2)
        assert FAULT in corrected.err
        assert REPEATED in corrected.err
        assert "needs a new id" in corrected.err
        assert names(lahar) == []
    record = submit(GOOD, "--id", "nightly", "--json", code=2).record
    assert (record["outcome"], record["repeated"]) == ("rejected", True)
    assert "was submitted" in submit(GOOD, "--id", "nightly-2").out


def test_another_manifest_under_the_id_of_an_opened_job_changes_nothing(lahar, submit):
    submit(GOOD, "--id", "nightly")
    again = submit({**GOOD, "spec": {**GOOD["spec"], "minAvailable": 1}}, "--id", "nightly")
    assert "unchanged" in again.out
    assert REPEATED in again.err
    assert FAULT not in submit(BAD, "--id", "nightly").err
    assert len(lahar("job", "list", "--json").records) == 1


def test_another_command_under_a_known_id_changes_nothing(lahar, submit):
    submit(GOOD)
    lahar("job", "command", "ml/train", "AbortJob", "--id", "c1")
    again = lahar("job", "command", "ml/train", "ResumeJob", "--id", "c1")
    assert "unchanged" in again.out
    assert REPEATED in again.err
    assert lahar("job", "show", "ml/train", "--json").record["phase"] in {"Aborting", "Aborted"}


def test_a_refused_command_stays_refused_under_its_id(lahar, submit):
    submit(GOOD)
    for _ in range(2):
        refused = lahar("job", "command", "ml/train", "ResumeJob", "--id", "c1", code=2)
        assert "only an aborted job can be resumed" in refused.err
    assert REPEATED in refused.err


def test_a_live_name_is_taken(lahar, submit):
    submit(GOOD)
    refused = submit(GOOD, code=2)
    assert "AlreadyExists: job ml/train is live (Pending, id " in refused.err
    assert "--allow-same-name" in refused.err
    assert names(lahar) == ["train"]
    other = {**GOOD, "metadata": {"name": "train", "namespace": "other"}}
    submit(other)
    submit(GOOD, "--allow-same-name")
    submit(GOOD, "--id", "mine")
    assert names(lahar) == ["train"] * 4


def test_a_finished_job_leaves_its_name(lahar, submit):
    (task,) = GOOD["spec"]["tasks"]
    empty = {**GOOD, "spec": {"minAvailable": 0, "tasks": [{**task, "replicas": 0}]}}
    submit(empty)
    lahar("job", "command", "ml/train", "TerminateJob")
    assert lahar("job", "show", "ml/train", "--json").record["phase"] == "Terminated"
    assert "was submitted" in submit(empty).out


def test_a_name_that_waits_in_the_log_is_taken(submit):
    submit(GOOD, "--no-process")
    assert "AlreadyExists" in submit(GOOD, code=2).err


def test_one_name_twice_in_a_file_opens_none(lahar, folder):
    (folder / "two.yaml").write_text(f"{json.dumps(GOOD)}\n---\n{json.dumps(GOOD)}\n")
    assert "AlreadyExists: job ml/train is submitted twice" in lahar("job", "submit", folder / "two.yaml", code=2).err
    assert names(lahar) == []


def test_generated_names_are_all_free(lahar, submit):
    generated = {**GOOD, "metadata": {"generateName": "train-"}}
    submit(generated)
    submit(generated)
    assert len(names(lahar)) == 2


def test_a_command_without_its_replica_is_asked_for_it(lahar, submit):
    submit(GOOD)
    asked = lahar("job", "command", "ml/train", "RestartPod", "--task", "worker", code=2).err
    assert "RestartPod of which replica of task worker? Give its number" in asked
    assert "None" not in asked
    assert "of which task? The job has worker" in lahar("job", "command", "ml/train", "RestartTask", code=2).err


def test_an_observed_job_has_no_pod_group_and_the_answer_says_why(lahar):
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "etl", "uid": "j1", "controller": True}
    metadata = {
        "name": "etl-0",
        "namespace": "ml",
        "uid": "p1",
        "ownerReferences": [owner],
        "creationTimestamp": "2026-05-01T12:05:00Z",
    }
    pod = {"kind": "Pod", "metadata": metadata, "spec": {"containers": [{"name": "m"}]}, "status": {"phase": "Running"}}
    lahar("ingest", given=json.dumps(pod))
    assert "job ml/etl has no pod group: it is only observed" in lahar("podgroup", "show", "ml/etl", code=3).err


@pytest.mark.parametrize(
    ("action", "options", "part"),
    [
        ("TerminateJob", ["--task", "worker", "--index", "1"], "task"),
        ("AbortJob", ["--index", "0"], "index"),
        ("RestartJob", ["--task", "worker"], "task"),
        ("RestartTask", ["--task", "worker", "--index", "0"], "index"),
        ("RestartPod", ["--task", "worker", "--index", "0", "--partition", "1"], "partition"),
    ],
)
def test_an_action_is_about_no_part_that_it_does_not_take(lahar, submit, action, options, part):
    submit(GOOD)
    assert f"{action} is about no {part}" in lahar("job", "command", "ml/train", action, *options, code=2).err
    assert "action_taken" not in lahar("history", "ml/train").out
    assert lahar("job", "show", "ml/train", "--json").record["phase"] == "Pending"
