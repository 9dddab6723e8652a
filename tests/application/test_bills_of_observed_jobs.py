"""From objects of a cluster to records: the terms of jobs that another controller runs, and resizes of their pods."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

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


def test_a_resize_waiting_for_room_is_billed_once_the_scheduler_counts_it() -> None:
    wanted = {"cpu": "4", "conditions": pending("Deferred"), **has("2")}
    found = records(running(1, **has("2")), running(2, **wanted), succeeded(3, **wanted))
    assert sum(record.quantity for record in found if record.charge.meter == "cpu_seconds") == 2 * 1200 + 4 * 600
    assert {record.start for record in found} == {parse_time(BEGAN), parse_time(RESIZED)}


def written(content: dict[str, Any], **times: str) -> dict[str, Any]:
    """Return a pod with the time of its last write by subresource."""
    fields = [{"manager": "m", "operation": "Update", "subresource": name, "time": time} for name, time in times.items()]
    content["metadata"]["managedFields"] = fields
    return content


@pytest.mark.parametrize(("before", "after", "seconds"), [("2", "8", 2 * 1200 + 8 * 600), ("8", "2", 8 * 1201 + 2 * 599)])
def test_a_resize_is_billed_from_the_write_that_shows_it(before: str, after: str, seconds: int) -> None:
    """A larger size counts when it is asked for, a smaller one when the node has taken it, a second later."""
    done = "2023-05-25T07:20:01Z"
    found = records(
        written(running(1, cpu=before, **has(before)), status=BEGAN),
        written(running(2, cpu=after, **has(before)), status=BEGAN, resize=RESIZED),
        written(running(3, cpu=after, **has(after)), status=done, resize=RESIZED),
        written(succeeded(4, cpu=after, **has(after)), status=ENDED, resize=RESIZED),
    )
    assert sum(record.quantity for record in found if record.charge.meter == "cpu_seconds") == seconds


@pytest.mark.parametrize("seen", ["the end alone", "the deletion, then the end"])
def test_a_pod_whose_end_is_told_after_its_deletion_is_billed_to_its_end(seen: str) -> None:
    """Its node could not be reached for a while, in which somebody deleted it."""
    deleted = {"deletionTimestamp": "2023-05-25T08:30:30Z", "deletionGracePeriodSeconds": 30}
    objects = [running(1), running(2), succeeded(3)]
    for one in objects[1:]:
        one["metadata"] |= deleted
    if seen == "the end alone":
        del objects[1]
    found = records(*objects)
    assert [(record.start, record.end) for record in found] == [(parse_time(BEGAN), parse_time(ENDED))]


BOOK = {
    "apiVersion": "lahar.dev/v1",
    "kind": "PriceBook",
    "metadata": {"name": "prices"},
    "spec": {
        "currency": "EUR",
        "versions": [
            {
                "version": "1",
                "from": "2020-01-01",
                "prices": {"cpu_seconds": {"*": "0.01"}},
                "multipliers": [{"priority_class": "high", "factor": "3"}, {"preemptible": True, "factor": "0.5"}],
            }
        ],
    },
}
TEMPLATE = {"spec": {"priorityClassName": "high", "containers": [{"name": "c"}]}}
VOLCANO = "batch.volcano.sh/v1alpha1"


def job(api_version: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": "train", "namespace": "lab", "uid": "job-1", "resourceVersion": "1", "creationTimestamp": BEGAN}
    return {"apiVersion": api_version, "kind": "Job", "metadata": metadata, "spec": spec, "status": {}}


def of_class(content: dict[str, Any], api_version: str = "batch/v1", **labels: str) -> dict[str, Any]:
    """Return the pod as the controller of a job of class `high` makes it."""
    content["spec"]["priorityClassName"] = "high"
    content["metadata"]["labels"] = labels
    content["metadata"]["ownerReferences"][0]["apiVersion"] = api_version
    return content


def charged(*objects: dict[str, Any]) -> tuple[set[str | None], Decimal]:
    """Return the classes on the records, and the sum of their amounts."""
    with lahar.open("memory:", billing=True) as log:
        log.apply(BOOK)
        log.ingest(list(objects))
        found = log.bills.records()
        return {record.run.priority_class for record in found}, sum((record.amount for record in found), Decimal(0))


HALF_AN_HOUR = Decimal("0.01") * 2 * 1800


@pytest.mark.parametrize(
    ("api_version", "spec"),
    [
        ("batch/v1", {"template": TEMPLATE}),
        (VOLCANO, {"priorityClassName": "high", "tasks": [{"name": "main", "replicas": 1, "template": TEMPLATE}]}),
    ],
)
def test_the_multiplier_of_its_class_applies_to_an_observed_job(api_version: str, spec: dict[str, Any]) -> None:
    objects = [job(api_version, spec), of_class(running(2), api_version), of_class(succeeded(3), api_version)]
    assert charged(*objects) == ({"high"}, 3 * HALF_AN_HOUR)
    assert charged(*objects[1:], objects[0]) == ({"high"}, 3 * HALF_AN_HOUR)


def test_a_job_known_by_its_pods_has_multipliers_of_their_class_and_label() -> None:
    assert charged(of_class(running(1)), of_class(succeeded(2))) == ({"high"}, 3 * HALF_AN_HOUR)
    label = {"volcano.sh/preemptable": "true"}
    assert charged(of_class(running(1), **label), of_class(succeeded(2), **label)) == ({"high"}, Decimal("1.5") * HALF_AN_HOUR)


def test_a_job_without_a_class_is_charged_the_list_price() -> None:
    assert charged(running(1), succeeded(2)) == ({None}, HALF_AN_HOUR)
