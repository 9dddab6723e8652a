"""The rows of `lahar inspect pod` and `lahar inspect job`."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from pod_builders import DELETING, condition, owner, pod, running, status, terminated

from engine.kubernetes.observation.inspection import inspect_job, inspect_pod
from engine.kubernetes.reading.accelerators import Accelerators
from engine.kubernetes.reading.documents import Document

POD_KEYS = [
    *("kind", "namespace", "name", "uid", "phase", "state", "reason", "exit_code", "node", "ready", "restarts", "init_restarts"),
    *("deleting", "owners", "requests"),
]
JOB_KEYS = ["kind", "namespace", "name", "uid", "phase", "reason", "queue", "min_available", "tasks", "total_requests"]


def row(content: dict[str, Any], change: Any = None) -> dict[str, Any]:
    return inspect_pod(Document(1, "", content, change))


def job(kind: str, spec: Any = None, status: Any = None, api_version: str = "batch/v1", **metadata: Any) -> dict[str, Any]:
    content = {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec, "status": status}
    return inspect_job(Document(1, "", content))


def template(cpu: str = "1", gpu: str = "0") -> dict[str, Any]:
    return {"spec": {"containers": [{"resources": {"requests": {"cpu": cpu}, "limits": {"nvidia.com/gpu": gpu}}}]}}


def test_a_failed_pod() -> None:
    content = pod(
        "Failed",
        terminated(137, "OOMKilled", restartCount=2),
        metadata={**DELETING, **owner("Job")},
        initContainerStatuses=[status({}, restartCount=1)],
    )
    found = row(content)
    assert list(found) == POD_KEYS
    assert found == {
        "kind": "Pod",
        "namespace": "research",
        "name": "train-0",
        "uid": "11111111-2222-3333-4444-555555555555",
        "phase": "Failed",
        "state": "Failed",
        "reason": "OomKilled",
        "exit_code": 137,
        "node": "n1",
        "ready": False,
        "restarts": 2,
        "init_restarts": 1,
        "deleting": True,
        "owners": ["Job/train"],
        "requests": {"cpu_milli": 500, "memory_bytes": 2**30, "gpu": 0},
    }


def test_a_pod_that_was_never_observed_has_a_row_all_the_same() -> None:
    found = row({"spec": {"containers": []}})
    assert found == dict.fromkeys(POD_KEYS) | {
        "kind": "Pod",
        "state": "Pending",
        "reason": "Queued",
        "ready": False,
        "restarts": 0,
        "init_restarts": 0,
        "deleting": False,
        "owners": [],
        "requests": {"cpu_milli": 0, "memory_bytes": 0, "gpu": 0},
    }


def test_other_rows_of_pods() -> None:
    assert row(pod("Succeeded", terminated()))["exit_code"] == 0
    assert row(pod("Running", running(), conditions=(condition("Ready"),)))["ready"] is True
    assert row(pod("Running", running()), "DELETED")["reason"] == "DeletedByApi"


def test_another_kind_has_only_its_name() -> None:
    found = row({"kind": "Node", "metadata": {"name": "n"}})
    assert found == dict.fromkeys(POD_KEYS) | {"kind": "Node", "name": "n"}


@pytest.mark.parametrize(
    ("status", "phase", "reason"),
    [
        (None, "Pending", None),
        ({"active": 1}, "Running", None),
        ({"terminating": 2}, "Running", None),
        ({"conditions": [condition("Suspended")]}, "Pending", "JobSuspended"),
        ({"conditions": [condition("Complete", reason="CompletionsReached")]}, "Completed", "CompletionsReached"),
        ({"conditions": [condition("Failed", reason="BackoffLimitExceeded")]}, "Failed", "BackoffLimitExceeded"),
        ({"active": 1, "conditions": [condition("FailureTarget"), condition("SuccessCriteriaMet")]}, "Running", None),
        ({"active": 1, "conditions": [condition("Failed", "False")]}, "Running", None),
    ],
)
def test_phase_of_a_batch_job(status: Any, phase: str, reason: str | None) -> None:
    found = job("Job", {}, status)
    assert (found["phase"], found["reason"]) == (phase, reason)


def test_a_batch_job() -> None:
    spec = {"parallelism": 2, "completions": 3, "template": template("250m", "2")}
    found = job("Job", spec, name="j", labels={"kueue.x-k8s.io/queue-name": "q"})
    each = {"cpu_milli": 250, "memory_bytes": 0, "gpu": 2}
    assert list(found)[: len(JOB_KEYS)] == JOB_KEYS
    assert found["tasks"] == [{"name": "main", "replicas": 3, "min_available": None, "requests": each}]
    assert found["total_requests"] == {"cpu_milli": 750, "memory_bytes": 0, "gpu": 6}
    assert (found["queue"], found["min_available"], found["supported"]) == ("q", None, True)


def test_a_vcjob() -> None:
    tasks = [
        {"name": "ps", "replicas": 1, "template": template()},
        {"replicas": 4, "minAvailable": 2, "template": template("2", "1")},
    ]
    spec = {"minAvailable": 3, "queue": "q", "tasks": tasks}
    found = job("Job", spec, {"state": {"phase": "Restarting", "reason": "r"}}, "batch.volcano.sh/v1alpha1")
    assert (found["kind"], found["phase"], found["reason"], found["queue"], found["min_available"]) == (
        "Job",
        "Restarting",
        "r",
        "q",
        3,
    )
    assert [(task["name"], task["replicas"], task["min_available"]) for task in found["tasks"]] == [
        ("ps", 1, None),
        ("default1", 4, 2),
    ]
    assert found["total_requests"] == {"cpu_milli": 9000, "memory_bytes": 0, "gpu": 4}
    assert job("Job", {}, None, "batch.volcano.sh/v1alpha1")["phase"] == "Pending"
    assert job("Job", {}, {"state": {"phase": "Aborted"}}, "batch.volcano.sh/v1alpha1")["phase"] == "Aborted"
    assert job("Job", {}, {"state": {"phase": "Odd"}}, "batch.volcano.sh/v1alpha1")["phase"] is None


@pytest.mark.parametrize(
    ("kind", "spec", "tasks"),
    [
        (
            "JobSet",
            {
                "replicatedJobs": [
                    {"name": "leader", "template": {"spec": {"template": template()}}},
                    {"name": "w", "replicas": 2, "template": {"spec": {"parallelism": 3, "template": template()}}},
                ]
            },
            [("leader", 1), ("w", 6)],
        ),
        (
            "PyTorchJob",
            {"pytorchReplicaSpecs": {"Master": {"template": template()}, "Worker": {"replicas": 2, "template": template()}}},
            [("Master", 1), ("Worker", 2)],
        ),
        ("TFJob", {"tfReplicaSpecs": {"PS": {"replicas": 2, "template": template()}}}, [("PS", 2)]),
        ("MPIJob", {"mpiReplicaSpecs": {"Launcher": {"template": template()}}}, [("Launcher", 1)]),
        (
            "RayJob",
            {
                "rayClusterSpec": {
                    "headGroupSpec": {"template": template()},
                    "workerGroupSpecs": [
                        {"groupName": "g", "replicas": 2, "numOfHosts": 3, "template": template()},
                        {"minReplicas": 1, "template": template()},
                    ],
                }
            },
            [("head", 1), ("g", 6), ("worker", 1)],
        ),
        ("Framework", {"taskRoles": [{"name": "ps", "taskNumber": 2, "task": {"pod": template()}}]}, [("ps", 2)]),
    ],
)
def test_tasks_of_other_kinds(kind: str, spec: Any, tasks: list[tuple[str, int]]) -> None:
    found = job(kind, spec)
    assert [(task["name"], task["replicas"]) for task in found["tasks"]] == tasks
    assert all(task["requests"]["cpu_milli"] == 1000 for task in found["tasks"])
    assert found["total_requests"]["cpu_milli"] == 1000 * sum(replicas for _, replicas in tasks)
    assert found["phase"] == "Pending"


def finished(name: str) -> dict[str, Any]:
    return {"state": "Completed", "attemptStatus": {"completionStatus": {"type": {"name": name}, "phrase": "why"}}}


@pytest.mark.parametrize(
    ("kind", "status", "phase", "reason"),
    [
        ("JobSet", {"conditions": [condition("Completed", reason="AllJobsCompleted")]}, "Completed", "AllJobsCompleted"),
        ("PyTorchJob", {"conditions": [condition("Running", "False"), condition("Succeeded")]}, "Completed", None),
        ("MPIJob", {"conditions": [condition("Failed", reason="BackoffLimitExceeded")]}, "Failed", "BackoffLimitExceeded"),
        ("TFJob", {"conditions": [condition("Running")]}, "Running", None),
        ("RayJob", {"jobStatus": "SUCCEEDED"}, "Completed", None),
        ("RayJob", {"jobStatus": "STOPPED"}, "Terminated", None),
        ("RayJob", {"jobStatus": "RUNNING"}, "Running", None),
        ("RayJob", {"jobDeploymentStatus": "Failed", "reason": "DeadlineExceeded"}, "Failed", "DeadlineExceeded"),
        ("Framework", finished("Succeeded"), "Completed", None),
        ("Framework", finished("Failed"), "Failed", "why"),
        ("Framework", {"state": "AttemptRunning"}, "Running", None),
    ],
)
def test_phase_of_other_kinds(kind: str, status: Any, phase: str | None, reason: str | None) -> None:
    found = job(kind, {}, status)
    assert (found["phase"], found["reason"]) == (phase, reason)


def test_scheduling_policy_of_a_training_job() -> None:
    found = job("PyTorchJob", {"runPolicy": {"schedulingPolicy": {"minAvailable": 3, "queue": "q"}}})
    assert (found["min_available"], found["queue"]) == (3, "q")


@pytest.mark.parametrize("kind", ["Pod", "Deployment", "RayService", "ClusterQueue"])
def test_what_is_no_job_that_is_read(kind: str) -> None:
    found = job(kind, {}, name="x")
    assert found == dict.fromkeys(JOB_KEYS) | {"kind": kind, "name": "x", "supported": False}


def test_a_job_of_another_api_is_none_that_is_read() -> None:
    assert job("Job", {}, api_version="sagemaker.services.k8s.aws/v1alpha1")["supported"] is False
    assert inspect_job(Document(1, "", {"kind": "Job"}))["supported"] is True


def test_a_pod_whose_resize_is_refused_requests_what_it_has() -> None:
    refused = condition("PodResizePending", reason="Infeasible")
    content = pod("Running", running(resources={"requests": {"cpu": "250m", "memory": "1Gi"}}), conditions=(refused,))
    assert row(content)["requests"] == {"cpu_milli": 250, "memory_bytes": 2**30, "gpu": 0}


def test_rows_of_operators_say_which_resources_of_a_job_are_gpus() -> None:
    asked = {"spec": {"containers": [{"resources": {"limits": {"example.com/card": "2"}}}]}}
    content = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"completions": 3, "template": asked}}
    found = inspect_job(Document(1, "", content), Accelerators({"example.com/card": "1/4"}))
    assert found["tasks"][0]["requests"] == {"cpu_milli": 0, "memory_bytes": 0, "gpu": Decimal("0.5")}
    assert found["total_requests"]["gpu"] == Decimal("1.5")
