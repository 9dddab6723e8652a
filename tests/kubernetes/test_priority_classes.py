"""The PriorityClass of an observed job, and of a pod."""

from __future__ import annotations

from typing import Any

import pytest
from pod_builders import pod

from engine.events.vocabulary import adapter
from engine.kubernetes.observation.jobs import observe_job
from engine.kubernetes.observation.pods import observe_pod


def template(name: str | None = None) -> dict[str, Any]:
    return {"spec": {"containers": [], **({} if name is None else {"priorityClassName": name})}}


def class_of(kind: str, api_version: str, spec: dict[str, Any]) -> str | None:
    content = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "train", "uid": "u"}, "spec": spec}
    return observe_job(content).priority_class


def job_set(*names: str | None) -> dict[str, Any]:
    return {
        "replicatedJobs": [
            {"name": f"g{number}", "template": {"spec": {"template": template(name)}}} for number, name in enumerate(names)
        ]
    }


def ray(head: str | None, worker: str | None) -> dict[str, Any]:
    groups = [{"groupName": "w", "replicas": 1, "template": template(worker)}]
    return {"rayClusterSpec": {"headGroupSpec": {"template": template(head)}, "workerGroupSpecs": groups}}


def training(policy: str | None, master: str | None, worker: str | None) -> dict[str, Any]:
    replicas = {"Master": {"template": template(master)}, "Worker": {"template": template(worker)}}
    return {"pytorchReplicaSpecs": replicas, "runPolicy": {"schedulingPolicy": {"priorityClass": policy} if policy else {}}}


@pytest.mark.parametrize(
    ("kind", "api_version", "spec", "expected"),
    [
        ("Job", "batch/v1", {"template": template("high")}, "high"),
        ("Job", "batch/v1", {"template": template()}, None),
        ("Job", "batch.volcano.sh/v1alpha1", {"priorityClassName": "high", "tasks": [{"template": template("low")}]}, "high"),
        ("Job", "batch.volcano.sh/v1alpha1", {"tasks": [{"template": template("low")}]}, None),
        ("JobSet", "jobset.x-k8s.io/v1alpha2", job_set(None, "high", "low"), "high"),
        ("RayJob", "ray.io/v1", ray("high", "low"), "high"),
        ("RayJob", "ray.io/v1", ray(None, "low"), "low"),
        ("PyTorchJob", "kubeflow.org/v1", training("urgent", "high", "low"), "urgent"),
        ("PyTorchJob", "kubeflow.org/v1", training(None, None, "low"), "low"),
        ("Framework", "frameworkcontroller.microsoft.com/v1", {"taskRoles": [{"task": {"pod": template("high")}}]}, "high"),
        ("Job", "batch/v1", {"template": {"spec": {"priorityClassName": 7}}}, None),
    ],
)
def test_class_of_a_job(kind: str, api_version: str, spec: dict[str, Any], expected: str | None) -> None:
    """Of a Volcano job that of the job, of a training job that of its scheduling policy, else the first that a template names."""
    assert class_of(kind, api_version, spec) == expected


@pytest.mark.parametrize(("label", "expected"), [("true", True), ("false", False), (None, False)])
def test_a_pod_tells_its_class_and_whether_it_is_preemptible(label: str | None, *, expected: bool) -> None:
    labels = {} if label is None else {"volcano.sh/preemptable": label}
    seen = observe_pod(pod(metadata={"labels": labels}, spec={"priorityClassName": "high"}))
    assert (seen.priority_class, seen.preemptible) == ("high", expected)


def test_an_object_without_a_class_is_projected_as_it_was() -> None:
    """Where the object has no resourceVersion, the id of an observation is a digest of these bytes."""
    seen = observe_pod(pod(metadata={"labels": {"app": "x"}}))
    job = observe_job({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}, "spec": {"template": template()}})
    for data in (seen, job):
        written = adapter(type(data)).dump_json(data, exclude_defaults=True)
        assert b"priority" not in written
        assert b"preemptible" not in written
