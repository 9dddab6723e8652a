"""What reading a pod costs grows with its size, not with its square: a pod may have 1.5 MB."""

from __future__ import annotations

from time import process_time
from typing import Any

import pytest
from pod_builders import pod, running, terminated

from engine.kubernetes.observation.pods import observe_pod

_CONTAINERS = 8_000
_SECONDS = 1.0
"""Ten times what it takes; with a square in it, each of these took 2.5 s to 40 s."""


def _specs(**fields: Any) -> list[dict[str, Any]]:
    return [{"name": f"c{number}", **fields} for number in range(_CONTAINERS)]


def _each_its_own_resource(**fields: Any) -> list[dict[str, Any]]:
    resources = ({"requests": {f"example.com/r{number}": "1"}} for number in range(_CONTAINERS))
    return [{**spec, "resources": own} for spec, own in zip(_specs(**fields), resources, strict=True)]


PODS = {
    "failed in its init containers": pod(
        "Failed",
        spec={"initContainers": _specs()},
        initContainerStatuses=[terminated(1, name=f"c{number}") for number in range(_CONTAINERS)],
    ),
    "waits for failed init containers": pod(
        "Pending",
        spec={"initContainers": _specs()},
        initContainerStatuses=[terminated(1, name=f"c{number}") for number in range(_CONTAINERS)],
    ),
    "waits for running init containers": pod(
        "Pending",
        spec={"initContainers": _specs()},
        initContainerStatuses=[running(name=f"c{number}") for number in range(_CONTAINERS)],
    ),
    "containers with resources of their own": pod(spec={"containers": _each_its_own_resource()}),
    "init containers with resources of their own": pod(spec={"initContainers": _each_its_own_resource()}),
    "sidecars with resources of their own": pod(spec={"initContainers": _each_its_own_resource(restartPolicy="Always")}),
}


@pytest.mark.parametrize("kind", PODS)
def test_a_pod_of_many_containers_is_read_at_once(kind: str) -> None:
    observe_pod(PODS[kind])  # fills caches
    begin = process_time()
    observe_pod(PODS[kind])
    assert process_time() - begin < _SECONDS


def test_an_init_container_counts_beside_the_sidecars_before_it_only() -> None:
    """A sidecar that starts later is not yet there; resources that only sidecars request are theirs at the end."""

    def asks(cpu: str, **fields: Any) -> dict[str, Any]:
        return {"resources": {"requests": {"cpu": cpu, **fields.pop("more", {})}}, **fields}

    sidecar = {"restartPolicy": "Always"}
    inits = [asks("1", **sidecar), asks("6"), asks("2", more={"example.com/nic": "3"}, **sidecar)]
    seen = observe_pod(pod(spec={"containers": [asks("500m")], "initContainers": inits}))
    assert (seen.requests.cpu_milli, seen.resources) == (7_000, {"example.com/nic": 3_000})
