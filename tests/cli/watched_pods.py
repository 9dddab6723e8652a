"""Pods of a managed job as a watch shows them, and the job."""

from __future__ import annotations

import json
from typing import Any

JOB = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: train, namespace: research}
spec:
  policies: [{event: PodFailed, action: RestartJob}]
  tasks:
  - {name: worker, replicas: 1, template: {spec: {containers: [{name: c, image: i}], restartPolicy: Never}}}
"""


def pod(uid: str, job: str, phase: str, version: int = 1, namespace: str = "research", **metadata: Any) -> dict[str, Any]:
    """A pod as an API server shows it, with the annotations of replica 0 of a job."""
    annotations = {"lahar/job": job, "lahar/task": "worker", "lahar/index": "0"}
    state: dict[str, Any] = {"running": {"startedAt": "2026-03-01T10:00:00Z"}}
    if phase == "Failed":
        state = {"terminated": {"exitCode": 1, "startedAt": "2026-03-01T10:00:00Z", "finishedAt": "2026-03-01T10:01:00Z"}}
    head = {
        "name": f"pod-{uid}",
        "namespace": namespace,
        "uid": uid,
        "resourceVersion": str(version),
        "creationTimestamp": "2026-03-01T09:59:00Z",
        "annotations": annotations,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": head | metadata,
        "spec": {"nodeName": "n1", "containers": [{"name": "c"}]},
        "status": {"phase": phase, "containerStatuses": [{"name": "c", "state": state}]},
    }


def watched(*pods: dict[str, Any]) -> str:
    return "".join(json.dumps({"type": "MODIFIED", "object": one}) + "\n" for one in pods)
