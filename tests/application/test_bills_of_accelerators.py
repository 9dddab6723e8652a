"""From pods with parts of GPUs and with other devices to bills, sums and answers."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import lahar
from engine.history.reading import cluster_facts
from engine.history.summary import Summary

BEGAN, ENDED, HOUR = "2026-04-01T08:00:00Z", "2026-04-01T09:00:00Z", 3600
MOMENT = datetime(2026, 4, 1, 8, 30, tzinfo=UTC)


def pod(name: str, asked: dict[str, str], *, ended: bool = True, version: int = 1, **metadata: Any) -> dict[str, Any]:
    """Return a pod of a job of its own name that ran for an hour, or runs."""
    state: dict[str, Any] = {"running": {"startedAt": BEGAN}}
    if ended:
        state = {"terminated": {"exitCode": 0, "startedAt": BEGAN, "finishedAt": ENDED}}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": f"job-{name}", "controller": True}
    return {
        "kind": "Pod",
        "metadata": {
            "name": f"{name}-0",
            "namespace": "lab",
            "uid": f"uid-{name}",
            "resourceVersion": f"{version}",
            "creationTimestamp": BEGAN,
            "ownerReferences": [owner],
            **metadata,
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": {"limits": asked}}]},
        "status": {
            "phase": "Succeeded" if ended else "Running",
            "startTime": BEGAN,
            "containerStatuses": [{"name": "c", "state": state}],
        },
    }


def book(price: str) -> dict[str, Any]:
    version = {"version": "1", "from": "2026-01-01T00:00:00Z", "prices": {"gpu_seconds": {"*": price}}}
    return {
        "apiVersion": "lahar.dev/v1",
        "kind": "PriceBook",
        "metadata": {"name": "b"},
        "spec": {"currency": "EUR", "versions": [version]},
    }


@pytest.mark.parametrize(
    ("asked", "annotations", "seconds"),
    [
        ({"koordinator.sh/gpu": "50"}, {}, 1800),
        ({"k8s.amazonaws.com/vgpu": "3"}, {}, 1080),
        ({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"}, {}, 1080),
        ({"nvidia.com/mig-1g.5gb": "7"}, {}, 3600),
        ({"nvidia.com/mig-2g.10gb": "1"}, {}, Decimal("1028.5714296")),
        ({"cpu": "1"}, {"gpu-fraction": "0.5"}, 1800),
        ({"amd.com/gpu": "2"}, {}, 7200),
    ],
)  # fmt: skip
def test_a_part_of_a_gpu_is_billed_as_that_part(asked: dict[str, str], annotations: dict[str, str], seconds: Decimal) -> None:
    with lahar.open("memory:", billing=True) as log:
        log.apply(book("0.001"))
        log.ingest([pod("train", asked, annotations=annotations)])
        charges = [record for record in log.bills.records() if record.charge.meter == "gpu_seconds"]
        assert sum(record.quantity for record in charges) == seconds
        assert sum(Decimal(record.charge.amount) for record in charges) == seconds * Decimal("0.001")
        assert log.summary()["gpu_seconds"] == seconds
        assert list(log.bills.verify()) == []


def test_a_pod_that_runs_and_ends_has_one_size_in_all_its_records() -> None:
    with lahar.open("memory:", billing=True) as log:
        log.ingest([pod("train", {"koordinator.sh/gpu": "50"}, ended=False)])
        log.ingest([pod("train", {"koordinator.sh/gpu": "50"}, version=2)])
        sizes = {record.charge.size for record in log.bills.records() if record.charge.meter == "gpu_seconds"}
    assert sizes == {"0.5"}


def test_the_most_gpus_in_use_count_parts() -> None:
    with lahar.open("memory:") as log:
        log.ingest(
            [
                pod("half", {"koordinator.sh/gpu": "50"}),
                pod("vgpu", {"k8s.amazonaws.com/vgpu": "3"}),
                pod("one", {"amd.com/gpu": "1"}),
            ]
        )
        assert log.summary()["peak_gpus"]["value"] == Decimal("1.8")


def test_devices_that_no_meter_charges_are_listed_by_name() -> None:
    tpu, shared = {"google.com/tpu": "4"}, {"nvidia.com/gpu.shared": "1", "nvidia.com/gpu": "1"}
    with lahar.open("memory:", billing=True) as log:
        log.ingest([pod("one", tpu), pod("two", shared), pod("three", tpu)])
        assert log.summary()["not_billed"] == {
            "google.com/tpu": {"unit_seconds": 8 * HOUR, "unit_seconds_so_far": 0},
            "nvidia.com/gpu.shared": {"unit_seconds": HOUR, "unit_seconds_so_far": 0},
        }
        assert log.summary()["gpu_seconds"] == HOUR


def test_the_use_of_a_device_by_a_pod_that_runs_is_listed_so_far() -> None:
    with lahar.open("memory:") as log:
        log.ingest([pod("one", {"google.com/tpu": "4"}, ended=False)])
        used = log.summary()["not_billed"]["google.com/tpu"]
        folded = Summary()
        for event in log.history("lab/one"):
            folded.add(event)
    assert used["unit_seconds"] == 0
    assert used["unit_seconds_so_far"] > 0
    assert folded.result()["not_billed"]["google.com/tpu"] == used


def test_what_a_log_of_gpus_beyond_64_bits_sums_up_is_exact() -> None:
    """Billionths of GPUs times microseconds outgrow a column of SQLite."""
    with lahar.open("memory:") as log:
        log.ingest([pod("huge", {"nvidia.com/gpu": "9P"})])
        summary = log.summary()
    assert summary["peak_gpus"]["value"] == 9 * 10**15
    assert summary["gpu_seconds"] == 9 * 10**15 * HOUR


def test_the_state_of_a_job_and_of_its_node_shows_parts_of_gpus() -> None:
    with lahar.open("memory:") as log:
        log.ingest([pod("half", {"koordinator.sh/gpu": "50", "google.com/tpu": "1"}, ended=False)])
        log.ingest([pod("vgpu", {"k8s.amazonaws.com/vgpu": "3"}, ended=False)])
        state, job = log.as_of(MOMENT), log.as_of(MOMENT, "lab/half")
    (node,) = state.document()["nodes"].values()
    assert node["allocated"]["gpu"] == Decimal("0.8")
    (attempt,) = job.document()["attempts"].values()
    assert attempt["requests"]["gpu"] == Decimal("0.5")
    assert attempt["requests"]["unmetered"] == {"google.com/tpu": 1000}


def test_an_operators_table_holds_for_pods_and_nodes_that_are_read() -> None:
    asked = {"nvidia.com/gpu.shared": "2", "example.com/npu": "1"}
    with lahar.open("memory:", billing=True, accelerators={"nvidia.com/gpu.shared": "1/4", "example.com/npu": "device"}) as log:
        log.ingest([pod("train", asked)])
        assert log.summary()["gpu_seconds"] == HOUR // 2
        assert list(log.summary()["not_billed"]) == ["example.com/npu"]
    with pytest.raises(ValueError, match="no share of a GPU"):
        lahar.open("memory:", accelerators={"nvidia.com/gpu.shared": "some"})


def test_a_job_that_lahar_runs_has_the_gpus_of_its_template() -> None:
    container = {"name": "c", "image": "x", "resources": {"limits": {"koordinator.sh/gpu": "50"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "half", "namespace": "lab"},
        "spec": {"template": template},
    }
    with lahar.open("memory:") as log:
        log.submit(job)
        assert log.job("lab/half").spec.tasks[0].requests.gpus == Decimal("0.5")


def test_operator_rows_hold_for_applied_nodes_as_for_observed_ones() -> None:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1", "resourceVersion": "1"},
        "status": {"allocatable": {"cpu": "8", "example.com/card": "4"}, "conditions": [{"type": "Ready", "status": "True"}]},
    }
    with lahar.open("memory:", accelerators={"example.com/card": "1"}) as applied:
        applied.apply(node)
        facts: list[Any] = [event.data for event in cluster_facts(applied.log)]
    assert [fact.gpu for fact in facts] == [4]


def test_a_managed_job_keeps_the_gpus_of_the_rows_with_which_it_was_opened(tmp_path: Path) -> None:
    container = {"name": "c", "image": "x", "resources": {"limits": {"example.com/card": "2"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    job: dict[str, Any] = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "lab"},
        "spec": {"tasks": [{"name": "main", "replicas": 1, "template": template}]},
    }
    url = f"sqlite:{tmp_path / 'lahar.db'}"
    with lahar.open(url, accelerators={"example.com/card": "1/4"}) as log:
        log.submit(job)
        assert log.job("lab/train").spec.tasks[0].requests.gpus == Decimal("0.5")
    job["spec"]["tasks"][0]["replicas"] = 2
    with lahar.open(url) as log:
        log.apply(job)
        (task,) = log.job("lab/train").spec.tasks
        assert (task.replicas, task.requests.gpus) == (2, Decimal("0.5"))
