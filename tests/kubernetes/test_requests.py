"""The scheduler's effective request of a pod."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.kubernetes.reading.requests import effective_requests
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


def test_the_largest_init_container_decides_where_it_exceeds_the_containers() -> None:
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


def test_every_resource_whose_name_ends_in_gpu_counts() -> None:
    asked = {"nvidia.com/gpu": "2", "amd.com/gpu": "1", "volcano.sh/vgpu": "1", "nvidia.com/gpumem": "8000"}
    assert effective_requests({"containers": [{"resources": {"requests": asked}}]}).gpu == 4


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
