"""Manifests to start from in tests: valid as they are, each field open to be replaced."""

from __future__ import annotations

from typing import Any

OPEN = [{"name": "default", "parent": "", "state": "Open"}]


def container(**fields: Any) -> dict[str, Any]:
    return {"name": "c", "image": "busybox:1.24", **fields}


def template(*containers: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": list(containers) or [container()], **fields}}


def task(**fields: Any) -> dict[str, Any]:
    return {"name": "task-1", "replicas": 1, "template": template(), **fields}


def vcjob(*tasks: dict[str, Any], metadata: dict[str, Any] | None = None, lahar: Any = None, **spec: Any) -> dict[str, Any]:
    job: dict[str, Any] = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "job-1", "namespace": "test", **(metadata or {})},
        "spec": {"minAvailable": 1, "queue": "default", "tasks": list(tasks) or [task()], **spec},
    }
    return job if lahar is None else {**job, "lahar": lahar}


def batch_job(metadata: dict[str, Any] | None = None, lahar: Any = None, **spec: Any) -> dict[str, Any]:
    job: dict[str, Any] = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "job-1", **(metadata or {})},
        "spec": {"template": template(restartPolicy="Never"), **spec},
    }
    return job if lahar is None else {**job, "lahar": lahar}


def paths(faults: list[Any]) -> list[str]:
    return [fault.path for fault in faults]
