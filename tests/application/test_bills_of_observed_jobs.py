"""From objects of a cluster to records: the terms of jobs that another controller runs, and resizes of their pods."""

from __future__ import annotations

from typing import Any

import lahar
from engine.events.times import parse_time

BEGAN, RESIZED, ENDED = "2023-05-25T07:00:00Z", "2023-05-25T07:20:00Z", "2023-05-25T07:30:00Z"


def pod(version: int, state: dict[str, Any], *, cpu: str = "2", **status: Any) -> dict[str, Any]:
    """Return a pod of the job; `status` goes to that of its container, but for `conditions` and `phase`."""
    conditions, phase = status.pop("conditions", []), status.pop("phase", "Running")
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "job-1", "controller": True}
    return {
        "kind": "Pod",
        "metadata": {
            "name": "train-0",
            "namespace": "lab",
            "uid": "uid-1",
            "resourceVersion": f"{version}",
            "creationTimestamp": BEGAN,
            "ownerReferences": [owner],
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
        "status": {
            "phase": phase,
            "startTime": BEGAN,
            "conditions": conditions,
            "containerStatuses": [{"name": "c", "state": state, **status}],
        },
    }


def running(version: int, **fields: Any) -> dict[str, Any]:
    return pod(version, {"running": {"startedAt": BEGAN}}, **fields)


def succeeded(version: int, **fields: Any) -> dict[str, Any]:
    ended = {"terminated": {"exitCode": 0, "startedAt": BEGAN, "finishedAt": ENDED}}
    return pod(version, ended, phase="Succeeded", **fields)


def records(*objects: dict[str, Any]) -> list[lahar.Record]:
    with lahar.open("memory:", billing=True) as log:
        log.ingest(list(objects))
        return list(log.bills.records())


def pending(reason: str) -> list[dict[str, str]]:
    return [{"type": "PodResizePending", "status": "True", "reason": reason, "lastTransitionTime": RESIZED}]


def has(cpu: str) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": cpu}}}


def test_a_resize_that_the_node_refuses_is_not_billed() -> None:
    wanted = {"cpu": "4", "conditions": pending("Infeasible"), **has("2")}
    found = records(running(1, **has("2")), running(2, **wanted), succeeded(3, **wanted))
    assert {record.quantity for record in found if record.charge.meter == "cpu_seconds"} == {2 * 1800}


def test_a_resize_that_waits_for_room_is_billed_from_when_the_scheduler_counts_it() -> None:
    wanted = {"cpu": "4", "conditions": pending("Deferred"), **has("2")}
    found = records(running(1, **has("2")), running(2, **wanted), succeeded(3, **wanted))
    assert sum(record.quantity for record in found if record.charge.meter == "cpu_seconds") == 2 * 1200 + 4 * 600
    assert {record.start for record in found} == {parse_time(BEGAN), parse_time(RESIZED)}
