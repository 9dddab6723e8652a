"""Reading a `batch/v1` Job, the PaddlePaddle job of the Kubernetes blog among them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from manifest_builders import batch_job, container, paths, template

from engine.kubernetes.manifests.manifest import read_manifest, update_spec
from engine.kubernetes.reading.markdown import extract_manifest
from statemachines.spec import JobSpec, Policy

PAGE = Path(__file__).parents[2] / "examples" / "paddlepaddle.md"


def spec_of(**spec: Any) -> JobSpec:
    read = read_manifest(batch_job(**spec))
    assert read.faults == []
    return read.spec


def warnings_of(**spec: Any) -> list[str]:
    return read_manifest(batch_job(**spec)).warnings


@pytest.mark.parametrize(
    ("spec", "replicas", "least", "min_success"),
    [
        ({}, 1, 1, None),
        ({"parallelism": 3, "completions": 3}, 3, 3, 3),
        ({"parallelism": 2, "completions": 5}, 5, 2, 5),
        ({"parallelism": 8, "completions": 5}, 5, 5, 5),
        ({"completions": 5}, 5, 1, 5),
        ({"parallelism": 4}, 4, 1, None),
        ({"parallelism": 0}, 0, 0, None),
        ({"completions": 0}, 0, 0, None),
    ],
)
def test_completions_bound_the_replicas(spec: dict[str, Any], replicas: int, least: int, min_success: int | None) -> None:
    """A work queue (no completions) is done when one pod succeeded; else each completion is one replica."""
    found = spec_of(**spec)
    assert [(task.name, task.replicas, task.min_available) for task in found.tasks] == [("main", replicas, least)]
    assert (found.min_available, found.min_success) == (least, min_success)


@pytest.mark.parametrize(("limit", "retries"), [(None, 7), (0, 1), (2, 3)])
def test_the_back_off_limit_counts_retries(limit: int | None, retries: int) -> None:
    found = spec_of(backoffLimit=limit)
    assert found.max_retry == retries
    assert found.policies == (Policy("RestartPod", ("PodFailed",)),)


@pytest.mark.parametrize(("limit", "restarts"), [(None, 6), (0, 1), (2, 2)])
def test_the_back_off_limit_counts_restarts_of_containers_too(limit: int | None, restarts: int) -> None:
    found = spec_of(backoffLimit=limit, template=template(restartPolicy="OnFailure"))
    assert found.policies == (Policy("RestartPod", ("PodFailed", "TaskFailed")),)
    assert found.tasks[0].max_retry == restarts


def test_a_job_of_an_earlier_release_keeps_its_rules_when_it_is_updated() -> None:
    manifest = batch_job(parallelism=4, completions=5, template=template(restartPolicy="OnFailure"))
    read = read_manifest(manifest).spec
    old = replace(read, policies=(Policy("RestartPod", ("PodFailed",)),), tasks=(replace(read.tasks[0], max_retry=3),))
    manifest["spec"]["parallelism"] = 2
    new, faults = update_spec(old, manifest)
    assert faults == []
    assert (new.policies, new.tasks[0].max_retry, new.min_available) == (old.policies, 3, 2)


def test_limits_of_time_priority_scheduler_and_queue() -> None:
    pod = template(restartPolicy="OnFailure", priorityClassName="high", schedulerName="mine")
    manifest = batch_job({"annotations": {"scheduling.volcano.sh/queue-name": "q"}}, template=pod, activeDeadlineSeconds=60)
    manifest["spec"]["ttlSecondsAfterFinished"] = 0
    read = read_manifest(manifest, queues=[{"name": "q", "state": "Open"}])
    assert read.faults == []
    assert (read.spec.active_deadline_seconds, read.spec.ttl_seconds_after_finished) == (60, 0)
    assert (read.spec.priority_class, read.spec.scheduler_name, read.spec.queue) == ("high", "mine", "q")
    assert paths(read_manifest(manifest).faults) == ["spec.queue"]


def test_suspension_and_the_manager_are_noted() -> None:
    read = read_manifest(batch_job(suspend=True, managedBy="lahar"))
    assert (read.kind, read.suspended, read.managed) == ("Job", True, True)
    assert [warning.split(":")[0] for warning in read.warnings] == ["spec.suspend"]


@pytest.mark.parametrize("field", ["podFailurePolicy", "successPolicy", "backoffLimitPerIndex", "maxFailedIndexes"])
def test_what_is_not_acted_on_is_said(field: str) -> None:
    value: Any = {} if field.endswith("Policy") else 1
    assert warnings_of(**{field: value}) == [f"spec.{field}: is not acted on"]


def test_a_smaller_parallelism_is_no_limit_and_said_to_be_none() -> None:
    assert len(warnings_of(parallelism=2, completions=5)) == 1
    assert warnings_of(parallelism=5, completions=5) == []


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"parallelism": -1}, "spec.parallelism"),
        ({"completions": -1}, "spec.completions"),
        ({"backoffLimit": -1}, "spec.backoffLimit"),
        ({"activeDeadlineSeconds": -1}, "spec.activeDeadlineSeconds"),
        ({"ttlSecondsAfterFinished": -1}, "spec.ttlSecondsAfterFinished"),
        ({"completionMode": "Sorted", "completions": 1}, "spec.completionMode"),
        ({"completionMode": "Indexed"}, "spec.completions"),
        ({"template": template()}, "spec.template.spec.restartPolicy"),
        ({"template": template(restartPolicy="Always")}, "spec.template.spec.restartPolicy"),
        ({"template": None}, "spec.template.spec.containers"),
        ({"template": template(container(image=""), restartPolicy="Never")}, "spec.template.spec.containers[0].image"),
        ({"parallelism": "3"}, "spec.parallelism"),
    ],
)
def test_what_kubernetes_refuses(spec: dict[str, Any], path: str) -> None:
    assert paths(read_manifest(batch_job(**spec)).faults) == [path]


def test_lahars_own_fields_hold_for_the_one_task() -> None:
    lahar = {"activeDeadlineSeconds": 9, "tasks": {"main": {"maxFailed": 1, "minSucceeded": 2}}}
    read = read_manifest(batch_job(lahar=lahar, completions=3, activeDeadlineSeconds=60))
    assert read.faults == []
    assert read.spec.active_deadline_seconds == 9
    assert (read.spec.tasks[0].max_failed, read.spec.tasks[0].min_succeeded) == (1, 2)


def test_the_parallelism_may_change_and_the_completions_may_not() -> None:
    old = spec_of(parallelism=2, completions=5)
    assert update_spec(old, batch_job(parallelism=4, completions=5))[0].min_available == 4
    assert paths(update_spec(old, batch_job(parallelism=2, completions=6))[1]) == ["spec.minSuccess"]


def test_the_paddlepaddle_job_as_it_stands_on_the_page() -> None:
    manifest = extract_manifest(PAGE.read_text(encoding="utf-8"))
    read = read_manifest(manifest)
    assert read.faults == []
    assert (read.kind, read.name, read.namespace) == ("Job", "PaddlePaddle-cluster-job", "default")
    assert [warning.split(":")[0] for warning in read.warnings] == ["metadata.name"]
    assert [(task.name, task.replicas, task.min_available) for task in read.spec.tasks] == [("main", 3, 3)]
    assert read.spec.min_success == 3
    template_read = read.spec.tasks[0].template
    assert template_read is not None
    assert template_read["spec"]["containers"][0]["image"] == "your_repo/paddle:mypaddle"
    assert paths(read_manifest(manifest, strict=True).faults) == ["metadata.name"]
