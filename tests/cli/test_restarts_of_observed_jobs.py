"""Observed jobs of any kind: was a pod replaced, why, and where did it run?"""

from __future__ import annotations

import json
from typing import Any

import pytest

UID = "7d3f0000-0000-4000-8000-00000000000"
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "Job": ("batch/v1", {"batch.kubernetes.io/job-completion-index": "1"}),
    "PyTorchJob": (
        "kubeflow.org/v1",
        {"training.kubeflow.org/replica-type": "worker", "training.kubeflow.org/replica-index": "1"},
    ),
    "RayCluster": ("ray.io/v1", {"ray.io/group": "gpu"}),
    "Flow": ("example.com/v1", {}),
}


def pod(kind: str, number: int, node: str, code: int, reason: str, start: str, end: str) -> dict[str, Any]:
    version, labels = KINDS[kind]
    owner = {"apiVersion": version, "kind": kind, "name": "etl", "uid": UID + "0", "controller": True}
    state = {"terminated": {"exitCode": code, "reason": reason, "startedAt": start, "finishedAt": end}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"etl-{number}",
            "namespace": "lab",
            "uid": f"{UID}{number}",
            "resourceVersion": str(10 + number),
            "creationTimestamp": start,
            "labels": labels,
            "annotations": labels,
            "ownerReferences": [owner],
        },
        "spec": {"restartPolicy": "Never", "nodeName": node, "containers": [{"name": "main", "image": "x"}]},
        "status": {
            "phase": "Failed" if code else "Succeeded",
            "startTime": start,
            "containerStatuses": [{"name": "main", "restartCount": 0, "ready": False, "image": "x", "imageID": "", "state": state}],
        },
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_pod_that_ran_out_of_memory_and_was_replaced_is_told(lahar, folder, kind):
    pods = [
        pod(kind, 1, "gpu-2", 137, "OOMKilled", "2026-03-03T11:00:00Z", "2026-03-03T11:52:40Z"),
        pod(kind, 2, "gpu-3", 0, "Completed", "2026-03-03T11:53:00Z", "2026-03-03T12:10:00Z"),
    ]
    (folder / "pods.jsonl").write_text("\n".join(json.dumps({"type": "ADDED", "object": one}) for one in pods))
    lahar("ingest", "--recorded", "pods.jsonl")
    said = " ".join(lahar("why", "lab/etl").out.split())
    assert "1 of its pods was replaced." in said
    assert "attempt 1 was OOM-killed (exit 137) at 2026-03-03 11:52:40Z on gpu-2 after running 52 min 40 s" in said
    assert "attempt 2 started as pod etl-2 at 2026-03-03 11:53:00Z" in said
    assert json.loads(lahar("as-of", "2026-03-03T13:00:00Z", "lab/etl", "--json").out)["restarts"] == 1
    assert "restarts 1" in lahar("job", "show", "lab/etl").out
