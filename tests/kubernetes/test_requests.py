"""The scheduler's effective request of a pod."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.kubernetes.reading.requests import effective_requests, observed_requests
from statemachines.spec import Requests


def container(cpu: Any = None, memory: Any = None, *, gpu: Any = None, **fields: Any) -> dict[str, Any]:
    asked = {"cpu": cpu, "memory": memory, "nvidia.com/gpu": gpu}
    return {"resources": {"requests": {name: value for name, value in asked.items() if value is not None}}, **fields}


def test_containers_are_summed() -> None:
    spec = {"containers": [container("500m", "1Gi"), container(1, "512Mi", gpu="2")]}
    assert effective_requests(spec) == Requests(cpu_milli=1500, memory_bytes=1536 * 2**20, gpu=2)


def test_a_missing_request_takes_the_limit_resource_by_resource() -> None:
    resources = {"requests": {"cpu": "1"}, "limits": {"cpu": "4", "memory": "2Gi", "nvidia.com/gpu": 1}}
    assert effective_requests({"containers": [{"resources": resources}]}) == Requests(1000, 2 * 2**30, 1)


def test_the_largest_init_container_decides_if_above_the_containers() -> None:
    spec = {"containers": [container("1", "1Gi")], "initContainers": [container("3", "1Mi"), container("2", "3Gi")]}
    assert effective_requests(spec) == Requests(3000, 3 * 2**30)


def test_a_sidecar_runs_beside_containers_and_later_init_containers() -> None:
    sidecar = container("1", "1Gi", restartPolicy="Always")
    early = {"containers": [container("1")], "initContainers": [sidecar, container("2")]}
    late = {"containers": [container("1")], "initContainers": [container("2"), sidecar]}
    assert effective_requests(early).cpu_milli == 3000
    assert effective_requests(late).cpu_milli == 2000


def test_overhead_is_added_at_the_end() -> None:
    spec = {"containers": [container("1", "1Gi")], "overhead": {"cpu": "250m", "memory": "64Mi"}}
    assert effective_requests(spec) == Requests(1250, 2**30 + 64 * 2**20)


def test_fractions_are_summed_exactly_and_rounded_up_once() -> None:
    spec = {"containers": [container("100u", "0.25"), container("0.0001", "250m")]}
    assert effective_requests(spec) == Requests(cpu_milli=1, memory_bytes=1)


def test_the_gpus_of_every_maker_count() -> None:
    asked = {"nvidia.com/gpu": "2", "amd.com/gpu": "1", "example.com/gpu": "1", "nvidia.com/gpumem": "8000"}
    assert effective_requests({"containers": [{"resources": {"requests": asked}}]}) == Requests(gpu=4)


def test_devices_of_two_makers_are_compared_each_by_itself() -> None:
    """An init container's devices are not there for a container that asks for another maker's."""
    init = {"resources": {"limits": {"nvidia.com/gpu": "1", "amd.com/gpu": "1"}}}
    spec = {"containers": [{"resources": {"limits": {"amd.com/gpu": "3"}}}], "initContainers": [init]}
    assert effective_requests(spec).gpu == 4


def test_no_request_exceeds_what_kubernetes_counts() -> None:
    assert effective_requests({"containers": [container("9E", "9E", gpu="9E")] * 3}) == Requests(*[2**63 - 1] * 3)


@pytest.mark.parametrize("spec", [None, [], {"containers": {}}, {"containers": [1, {"resources": []}]}, {"overhead": "1"}])
def test_what_cannot_be_read_counts_as_nothing(spec: object) -> None:
    assert effective_requests(spec) == Requests()


def test_a_bad_or_negative_quantity_counts_as_nothing() -> None:
    assert effective_requests({"containers": [container("lots", "-1Gi"), container("1")]}) == Requests(1000)


@given(st.lists(st.integers(0, 10**6), max_size=5), st.lists(st.integers(0, 10**6), max_size=5))
def test_the_request_covers_the_containers_and_each_init_container(main: list[int], init: list[int]) -> None:
    spec = {"containers": [container(f"{cpu}m") for cpu in main], "initContainers": [container(f"{cpu}m") for cpu in init]}
    assert effective_requests(spec).cpu_milli == max([sum(main), *init])


# --- resized in place -----------------------------------------------------------------------------------------------------------


def reported(name: str = "c", cpu: Any = None, memory: Any = None, *, gpu: Any = None, **fields: Any) -> dict[str, Any]:
    """Return what a node reports of a container."""
    return container(cpu, memory, gpu=gpu, name=name, **fields)


def pending(reason: str, status: str = "True") -> dict[str, Any]:
    return {"conditions": [{"type": "PodResizePending", "status": status, "reason": reason}]}


RESIZED = {"containers": [container("4", "1Gi", gpu="1", name="c")]}
HELD = {"containerStatuses": [reported("c", "2", "2Gi", gpu="1")]}


@pytest.mark.parametrize("status", [HELD, HELD | pending("Deferred"), HELD | pending("Infeasible", "False")])
def test_a_resized_container_counts_with_the_larger_of_desired_and_actual(status: dict[str, Any]) -> None:
    assert effective_requests(RESIZED, status) == Requests(4000, 2 * 2**30, 1)


@pytest.mark.parametrize("refused", [pending("Infeasible"), {"resize": "Infeasible"}])
def test_a_resize_that_the_node_refuses_does_not_count(refused: dict[str, Any]) -> None:
    assert effective_requests(RESIZED, HELD | refused) == Requests(2000, 2 * 2**30, 1)


def test_node_allocated_resources_count_before_the_container_has_them() -> None:
    status = {"containerStatuses": [reported("c", "2", "1Gi", allocatedResources={"cpu": "3", "memory": "1Gi"})]}
    small = {"containers": [container("1", "1Gi", name="c")]}
    assert effective_requests(small, status) == Requests(3000, 2**30)
    assert effective_requests(RESIZED, status | pending("Infeasible")) == Requests(3000, 2**30, 1)


def test_devices_that_a_node_does_not_report_are_those_asked_for() -> None:
    """Devices cannot be resized, and some kubelets report nothing but cpu and memory."""
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "4", "nvidia.com/gpu": "2", "example.com/nic": "1"}}}]}
    status = {"containerStatuses": [reported("c", "2")]} | pending("Infeasible")
    assert observed_requests(spec, status) == (Requests(2000, 0, 2, unmetered={"example.com/nic": 1000}), {"example.com/nic": 1000})


def test_a_sidecar_is_resized_too_and_another_init_container_is_not() -> None:
    spec = {
        "containers": [container("1", name="c")],
        "initContainers": [container("1", name="sidecar", restartPolicy="Always"), container("1", name="init")],
    }
    status = {"initContainerStatuses": [reported("sidecar", "5"), reported("init", "9")]}
    assert effective_requests(spec, status).cpu_milli == 6000


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"containerStatuses": {}},
        {"containerStatuses": [{"name": "c"}, 7, {"name": [], "resources": {}}, {"resources": {"requests": {"cpu": "9"}}}]},
        {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "9"}}], **pending("Infeasible")},
        {"containerStatuses": [{"name": "other", "resources": {"requests": {"cpu": "9"}}}]},
        {"containerStatuses": [{"name": "c", "resources": {"requests": [], "limits": {"cpu": "9"}}, "allocatedResources": 1}]},
    ],
)
def test_a_container_whose_node_reports_no_resources_counts_as_specified(status: dict[str, Any]) -> None:
    assert effective_requests(RESIZED, status) == effective_requests(RESIZED)


amounts = st.dictionaries(st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), st.integers(0, 9), max_size=3)
running_containers = st.lists(st.tuples(amounts, st.none() | amounts, st.none() | amounts, st.booleans()), max_size=5)


@given(running_containers, st.booleans(), amounts)
def test_a_pod_counts_with_the_sum_of_what_its_containers_hold(
    drawn: list[tuple[dict[str, int], dict[str, int] | None, dict[str, int] | None, bool]],
    refused: bool,
    overhead: dict[str, int],
) -> None:
    """Restated per resource, as kube-scheduler does it."""
    spec: dict[str, Any] = {"containers": [], "initContainers": [], "overhead": overhead}
    status: dict[str, Any] = {"containerStatuses": [], "initContainerStatuses": []} | (pending("Infeasible") if refused else {})
    expected = dict(overhead)
    for number, (asked, has, allocated, is_sidecar) in enumerate(drawn):
        one: dict[str, Any] = {"name": str(number), "resources": {"requests": asked}}
        told: dict[str, Any] = {"name": str(number)} | ({} if has is None else {"resources": {"requests": has}})
        one |= {"restartPolicy": "Always"} if is_sidecar else {}
        told |= {} if allocated is None else {"allocatedResources": allocated}
        spec["initContainers" if is_sidecar else "containers"].append(one)
        status["initContainerStatuses" if is_sidecar else "containerStatuses"].append(told)
        for name in ("cpu", "memory", "nvidia.com/gpu"):
            held = [] if has is None else [has.get(name, 0), (allocated or {}).get(name, 0)]
            wanted = asked.get(name, 0)
            counts = max(held) if held and refused and name != "nvidia.com/gpu" else max([wanted, *held])
            expected[name] = expected.get(name, 0) + counts
    whole = Requests(expected.get("cpu", 0) * 1000, expected.get("memory", 0), expected.get("nvidia.com/gpu", 0))
    assert effective_requests(spec, status) == whole
