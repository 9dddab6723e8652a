"""Writes a List of pods as `kubectl get pods -A -o json` prints it: some 3.5 KB a pod."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def _pod(number: int) -> dict[str, Any]:
    job = f"job-{number // 500}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"train-{number}",
            "namespace": "ml",
            "uid": f"00000000-0000-0000-0000-{number:012}",
            "resourceVersion": str(1000 + number),
            "creationTimestamp": "2026-03-01T00:00:00Z",
            "labels": {f"example.com/label-{key}": "v" * 20 for key in range(6)},
            "annotations": {f"example.com/annotation-{key}": "w" * 60 for key in range(3)},
            "ownerReferences": [{"kind": "Job", "apiVersion": "batch/v1", "name": job, "uid": job, "controller": True}],
        },
        "spec": {
            "nodeName": f"n{number % 1000}",
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example.com/team/train:1.2.3",
                    "env": [{"name": f"V{key}", "value": "x" * 20} for key in range(4)],
                    "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
                }
            ],
        },
        "status": {
            "phase": "Running",
            "startTime": "2026-03-01T00:00:01Z",
            "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-03-01T00:00:01Z"}],
            "containerStatuses": [{"name": "main", "restartCount": 0, "state": {"running": {"startedAt": "2026-03-01T00:00:02Z"}}}],
        },
    }


def write_pods(path: Path, pods: range, *, indent: int | None) -> int:
    """Write a List of these pods; returns its bytes.

    Args:
        path: the file.
        pods: their numbers.
        indent: spaces of a level; `None`: all of it is one line, as an API server answers.
    """
    end = "" if indent is None else "\n"
    with path.open("w", encoding="ascii") as file:
        # kubectl writes the kind behind the items, an API server before them.
        file.write('{"apiVersion": "v1", ' + ('"kind": "PodList", ' if indent is None else "") + f'"items": [{end}')
        for number in pods:
            file.write(json.dumps(_pod(number), indent=indent) + ("" if number == pods[-1] else ",") + end)
        file.write("]" + ("" if indent is None else f',{end}"kind": "List", "metadata": {{"resourceVersion": ""}}') + "}\n")
    return path.stat().st_size
