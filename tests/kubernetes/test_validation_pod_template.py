"""Kubernetes' rules of a pod template."""

from __future__ import annotations

from typing import Any

import pytest
from manifest_builders import OPEN, container, paths, task, template, vcjob

from engine.conformance.admission import validate_create

BASE = "spec.tasks[0].template."


def found(pod_template: Any, *, pod_level: bool = False) -> list[str]:
    job = vcjob(task(template=pod_template))
    faults = paths(validate_create(job, OPEN, pod_level_resources_enabled=pod_level))
    assert all(path.startswith(BASE) for path in faults)
    return [path.removeprefix(BASE) for path in faults]


def resources(requests: Any = None, limits: Any = None) -> dict[str, Any]:
    return {"resources": {"requests": requests, "limits": limits}}


@pytest.mark.parametrize("empty", [None, {}, {"spec": None}, {"spec": {"containers": []}}])
def test_a_template_has_a_container(empty: Any) -> None:
    assert found(empty) == ["spec.containers"]


def test_containers_have_names_of_their_own() -> None:
    assert found(template(container(name="a"), container(name="b"), initContainers=[container(name="d")])) == []
    assert found(template(container(name="a"), container(name="a"))) == ["spec.containers[1].name"]
    assert found(template(container(name="a"), initContainers=[container(name="a")])) == ["spec.initContainers[0].name"]
    assert found(template(container(name=""))) == ["spec.containers[0].name"]
    assert found(template(container(name="Upper"))) == ["spec.containers[0].name"]
    assert found(template(container(name="c" * 64))) == ["spec.containers[0].name"]


def test_a_container_has_an_image() -> None:
    assert found(template(container(image=None))) == ["spec.containers[0].image"]
    assert found(template(container(image=" busybox"))) == ["spec.containers[0].image"]
    assert found(template(container(), initContainers=[container(name="i", image="")])) == ["spec.initContainers[0].image"]


@pytest.mark.parametrize(
    ("requests", "limits", "expected"),
    [
        ({"cpu": "1", "memory": 1024}, {"cpu": 1, "memory": "1Ki"}, []),
        ({"cpu": "1000m"}, {"cpu": "1"}, []),
        ({"cpu": "0"}, None, []),
        (None, {"nvidia.com/gpu": "1"}, []),
        ({"nvidia.com/gpu": 1}, {"nvidia.com/gpu": "1"}, []),
        ({"hugepages-2Mi": "4Mi"}, {"hugepages-2Mi": "4Mi"}, []),
        ({"cpu": "2"}, {"cpu": "1"}, ["requests.cpu"]),
        ({"cpu": "-1"}, None, ["requests.cpu"]),
        (None, {"memory": "lots"}, ["limits.memory"]),
        ({"cpu": [1]}, None, ["requests.cpu"]),
        ({"nvidia.com/gpu": 1}, None, ["limits[nvidia.com/gpu]"]),
        ({"nvidia.com/gpu": 1}, {"nvidia.com/gpu": 2}, ["requests[nvidia.com/gpu]"]),
        (None, {"nvidia.com/gpu": "500m"}, ["limits[nvidia.com/gpu]"]),
        ({"cores": 1}, None, ["requests.cores"]),
        ({"a b/c": 1}, {"a b/c": 1}, ["limits[a b/c]", "requests[a b/c]"]),
    ],
)
def test_resources(requests: Any, limits: Any, expected: list[str]) -> None:
    assert found(template(container(**resources(requests, limits)))) == [
        f"spec.containers[0].resources.{path}" for path in expected
    ]


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("restartPolicy", ["Always", "OnFailure", "Never", "", None], "Sometimes"),
        ("dnsPolicy", ["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"], "Mine"),
        ("activeDeadlineSeconds", [1, 2**31 - 1], 0),
        ("terminationGracePeriodSeconds", [0, 30], -1),
    ],
)
def test_fields_of_the_pod(field: str, good: list[Any], bad: Any) -> None:
    assert [found(template(**{field: value})) for value in good] == [[]] * len(good)
    assert found(template(**{field: bad})) == [f"spec.{field}"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"imagePullPolicy": "IfNotPresent"}, []),
        ({"imagePullPolicy": "Perhaps"}, ["imagePullPolicy"]),
        ({"ports": [{"containerPort": 22, "hostPort": 0, "protocol": "TCP"}]}, []),
        ({"ports": [{"containerPort": 0}, {"containerPort": 65536}]}, ["ports[0].containerPort", "ports[1].containerPort"]),
        ({"ports": [{"containerPort": 1, "hostPort": -1, "protocol": "X"}]}, ["ports[0].hostPort", "ports[0].protocol"]),
        ({"env": [{"name": "A", "value": ""}, {"value": "b"}]}, ["env[1].name"]),
        ({"env": [{"name": "A", "value": 1}]}, ["env[0].value"]),
        ({"securityContext": {"privileged": True}}, []),
    ],
)
def test_fields_of_a_container(fields: dict[str, Any], expected: list[str]) -> None:
    assert found(template(container(**fields))) == [f"spec.containers[0].{path}" for path in expected]


def test_an_init_container_restarts_always_or_not_at_all() -> None:
    assert found(template(initContainers=[container(name="i", restartPolicy="Always")])) == []
    assert found(template(initContainers=[container(name="i", restartPolicy="Never")])) == ["spec.initContainers[0].restartPolicy"]


def test_mounts_name_a_volume_of_the_pod() -> None:
    volumes = [{"name": "v", "emptyDir": {}}]
    mount = {"name": "v", "mountPath": "/v"}
    assert found(template(container(volumeMounts=[mount]), volumes=volumes)) == []
    assert found(template(container(volumeMounts=[mount]))) == ["spec.containers[0].volumeMounts[0].name"]
    assert found(template(container(volumeMounts=[{"mountPath": "/v"}]), volumes=volumes)) == [
        "spec.containers[0].volumeMounts[0].name"
    ]
    assert found(template(container(volumeMounts=[{"name": "v"}]), volumes=volumes)) == [
        "spec.containers[0].volumeMounts[0].mountPath"
    ]
    assert found(template(container(volumeMounts=[mount, mount]), volumes=volumes)) == [
        "spec.containers[0].volumeMounts[0].mountPath",
        "spec.containers[0].volumeMounts[1].mountPath",
    ]


def test_volumes_have_names_of_their_own_and_one_source() -> None:
    assert found(template(volumes=[{"name": "v"}, {"name": "w", "hostPath": {"path": "/"}, "nfs": None}])) == []
    assert found(template(volumes=[{"name": "v"}, {"name": "v"}])) == ["spec.volumes[1].name"]
    assert found(template(volumes=[{"name": "V"}, {}])) == ["spec.volumes[0].name", "spec.volumes[1].name"]
    assert found(template(volumes=[{"name": "v", "emptyDir": {}, "nfs": {}}])) == ["spec.volumes[0]"]


def test_labels_of_the_template() -> None:
    assert found({"metadata": {"labels": {"app.io/name": "a", "empty": ""}}, **template()}) == []
    assert found({"metadata": {"labels": {"a b": "c", "d": "e f"}}, **template()}) == [
        "metadata.labels[a b]",
        "metadata.labels.d",
    ]


class TestPodLevelResources:
    asks = resources({"cpu": "1", "memory": "1Gi"})

    def pod(self, requests: Any = None, limits: Any = None, **fields: Any) -> dict[str, Any]:
        return template(container(**self.asks), container(name="d", **self.asks), **resources(requests, limits), **fields)

    def test_they_cover_the_containers(self) -> None:
        assert found(self.pod({"cpu": "2", "memory": "2Gi"}, {"cpu": "4"}), pod_level=True) == []
        assert found(self.pod({"cpu": "1999m"}), pod_level=True) == ["spec.resources.requests.cpu"]

    def test_they_are_ignored_where_the_cluster_does_not_know_them(self) -> None:
        assert found(self.pod({"cpu": "1"}, {"cpu": "500m"})) == []
        assert found(template(resources="nonsense")) == []

    def test_a_request_is_at_most_the_limit(self) -> None:
        assert found(self.pod({"cpu": "3"}, {"cpu": "2"}), pod_level=True) == ["spec.resources.requests.cpu"]

    def test_a_sidecar_counts_and_so_does_the_largest_init_container(self) -> None:
        sidecar = container(name="s", restartPolicy="Always", **self.asks)
        first = container(name="i", **resources({"cpu": "5"}))
        assert found(self.pod({"cpu": "2"}, initContainers=[sidecar]), pod_level=True) == ["spec.resources.requests.cpu"]
        assert found(self.pod({"cpu": "5"}, initContainers=[first]), pod_level=True) == []
        assert found(self.pod({"cpu": "5"}, initContainers=[sidecar, first]), pod_level=True) == ["spec.resources.requests.cpu"]

    def test_no_container_may_have_more_than_the_pod(self) -> None:
        pod = template(container(**resources({"cpu": "1"}, {"cpu": "3"})), **resources({"cpu": "1"}, {"cpu": "2"}))
        assert found(pod, pod_level=True) == ["spec.resources.limits.cpu"]

    def test_only_cpu_memory_and_huge_pages(self) -> None:
        assert found(self.pod({"ephemeral-storage": "1Gi"}), pod_level=True) == ["spec.resources.requests[ephemeral-storage]"]
        assert found(self.pod({"hugepages-2Mi": "2Mi"}, {"hugepages-2Mi": "2Mi"}), pod_level=True) == []

    def test_wrong_types_are_named(self) -> None:
        assert found(template(resources="nonsense"), pod_level=True) == ["spec.resources"]

    def test_without_them_there_is_nothing_to_judge(self) -> None:
        assert found(template(container(**self.asks)), pod_level=True) == []
