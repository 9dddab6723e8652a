"""Resources of the whole pod (`spec.resources`): they replace the sum over its containers, each for itself."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.kubernetes.manifests.manifest import read_manifest
from engine.kubernetes.observation.inspection import inspect_job, inspect_pod
from engine.kubernetes.observation.pods import observe_pod
from engine.kubernetes.reading.documents import Document
from engine.kubernetes.reading.pod_shape import pod_shape
from engine.kubernetes.reading.requests import effective_requests, observed_requests
from statemachines.spec import Requests

GI = 2**30
MAIN = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}
SIDE = {"name": "side", "image": "y"}


def pod_spec(*containers: dict[str, Any], requests: Any = None, limits: Any = None, **fields: Any) -> dict[str, Any]:
    stated = {name: value for name, value in (("requests", requests), ("limits", limits)) if value is not None}
    return {"restartPolicy": "Never", "containers": list(containers or (MAIN, SIDE)), "resources": stated, **fields}


def test_the_pods_own_request_replaces_the_sum_for_each_named_resource() -> None:
    assert effective_requests(pod_spec(requests={"cpu": "8"})) == Requests(8000, GI)
    assert effective_requests(pod_spec(requests={"cpu": "8", "memory": "16Gi"})) == Requests(8000, 16 * GI)


def test_a_pod_request_replaces_those_of_init_containers_and_sidecars_too() -> None:
    init = [{**MAIN, "restartPolicy": "Always"}, {"resources": {"requests": {"cpu": "64"}}}]
    assert effective_requests(pod_spec(requests={"cpu": "8"}, initContainers=init)).cpu_milli == 8000


def test_a_pod_limit_counts_where_no_container_requests_the_resource() -> None:
    """Kubernetes fills in the request: the containers' sum where there is one, else the limit."""
    assert effective_requests(pod_spec(SIDE, limits={"cpu": "4", "memory": "2Gi"})) == Requests(4000, 2 * GI)
    assert effective_requests(pod_spec(limits={"cpu": "4", "memory": "2Gi"})) == Requests(2000, GI)


def test_a_limit_of_huge_pages_is_the_pods_request() -> None:
    pages = {"resources": {"limits": {"hugepages-2Mi": "4Mi"}}}
    spec = pod_spec(pages, limits={"hugepages-2Mi": "16Mi"})
    assert observed_requests(spec, {})[1] == {"hugepages-2Mi": 16 * 2**20 * 1000}


def test_overhead_is_added_to_the_pods_own_request() -> None:
    assert effective_requests(pod_spec(requests={"cpu": "8"}, overhead={"cpu": "250m"})).cpu_milli == 8250


def test_devices_are_summed_over_containers_whatever_the_pod_states() -> None:
    gpu = {"resources": {"limits": {"nvidia.com/gpu": "2"}}}
    assert effective_requests(pod_spec(gpu, gpu, requests={"cpu": "1", "nvidia.com/gpu": "9"})) == Requests(1000, 0, 4)


@pytest.mark.parametrize(
    "status",
    [
        {"resources": {"requests": {"cpu": "6"}}, "allocatedResources": {"cpu": "12", "memory": "9Gi"}},
        {"resources": {"requests": {"cpu": "12"}}, "allocatedResources": {"cpu": "6"}},
        {"allocatedResources": {"cpu": "12"}},
    ],
)
def test_a_resized_pod_counts_with_the_larger_of_desired_and_actual(status: dict[str, Any]) -> None:
    assert effective_requests(pod_spec(requests={"cpu": "8"}), status) == Requests(12000, GI)


def test_a_resize_of_the_pod_that_its_node_refuses_does_not_count() -> None:
    refused = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]}
    status = {"resources": {"requests": {"cpu": "6"}}, "allocatedResources": {"cpu": "6"}, **refused}
    assert effective_requests(pod_spec(requests={"cpu": "8"}), status).cpu_milli == 6000
    assert effective_requests(pod_spec(requests={"cpu": "8"}), refused).cpu_milli == 8000


@pytest.mark.parametrize("resources", [None, [], "8", {"requests": []}, {"limits": 3}, {"requests": {"pods": "5"}}])
def test_resources_of_a_pod_that_cannot_be_read_leave_the_sum(resources: object) -> None:
    assert effective_requests({"containers": [MAIN], "resources": resources}) == Requests(2000, GI)


amounts = st.dictionaries(st.sampled_from(["cpu", "memory", "hugepages-2Mi"]), st.integers(1, 99), max_size=3)


@given(st.lists(amounts, max_size=3), amounts, amounts, amounts)
def test_each_resource_is_the_pods_own_request_else_the_sum_else_the_limit(
    containers: list[dict[str, int]], requests: dict[str, int], limits: dict[str, int], overhead: dict[str, int]
) -> None:
    sums = {name: sum(one.get(name, 0) for one in containers) for name in {name for one in containers for name in one}}
    spec = pod_spec(*({"resources": {"requests": one}} for one in containers), requests=requests, limits=limits, overhead=overhead)
    spec["containers"] = [{"resources": {"requests": one}} for one in containers]
    found = dict(pod_shape({"spec": spec}).requests)
    for name in ("cpu", "memory", "hugepages-2Mi"):
        by_limit = {**sums, **limits} if name.startswith("hugepages") else {**limits, **sums}
        expected = (requests.get(name) or by_limit.get(name, 0)) + overhead.get(name, 0)
        assert found.get(name, 0) == expected * (1 if name == "memory" else 1000)


# --- the same in every reader ---------------------------------------------------------------------------------------------------

WHOLE = pod_spec(requests={"cpu": "8", "memory": "16Gi"})
EXPECTED = {"cpu_milli": 8000, "memory_bytes": 16 * GI, "gpu": 0}
TEMPLATE = {"spec": WHOLE}
VCJOB: dict[str, Any] = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "metadata": {"name": "wide", "namespace": "lab"},
    "spec": {"minAvailable": 1, "schedulerName": "lahar", "tasks": [{"name": "w", "replicas": 1, "template": TEMPLATE}]},
}
BATCH = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "wide", "uid": "u"}, "spec": {"template": TEMPLATE}}
JOBSET = {
    "apiVersion": "jobset.x-k8s.io/v1alpha2",
    "kind": "JobSet",
    "metadata": {"name": "wide", "uid": "u"},
    "spec": {"replicatedJobs": [{"name": "w", "template": {"spec": {"template": TEMPLATE}}}]},
}


def test_a_pod_is_observed_and_inspected_with_its_own_request() -> None:
    pod = {"kind": "Pod", "metadata": {"name": "p", "uid": "u", "creationTimestamp": "2026-04-01T08:00:00Z"}, "spec": WHOLE}
    assert observe_pod(pod).requests == Requests(8000, 16 * GI)
    assert inspect_pod(Document(1, "", pod))["requests"] == EXPECTED


@pytest.mark.parametrize("job", [VCJOB, BATCH, JOBSET], ids=lambda job: job["apiVersion"])
def test_a_job_of_any_kind_is_inspected_with_its_pods_own_request(job: dict[str, Any]) -> None:
    assert inspect_job(Document(1, "", job))["total_requests"] == EXPECTED


@pytest.mark.parametrize("job", [VCJOB, BATCH], ids=["vcjob", "batch"])
def test_a_submitted_job_asks_for_its_pods_own_request(job: dict[str, Any]) -> None:
    read = read_manifest(job, strict=True)
    assert read.faults == []
    assert read.spec.tasks[0].requests == Requests(8000, 16 * GI)


@pytest.mark.parametrize("job", [VCJOB, BATCH], ids=["vcjob", "batch"])
def test_a_job_whose_pod_requests_less_than_its_containers_is_refused(job: dict[str, Any]) -> None:
    small = json.loads(json.dumps(job).replace('"cpu": "8"', '"cpu": "1"'))
    (fault,) = read_manifest(small).faults
    assert fault.path.endswith("template.spec.resources.requests.cpu")
    assert fault.message == "must be at least what the containers request together"
