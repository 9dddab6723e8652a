"""Volcano's admission of a changed vcjob, its topology policy, and the order of dependent tasks."""

from __future__ import annotations

import json
import os
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from manifest_builders import container, paths, task, template, vcjob

from engine.conformance.admission import dependency_order, validate_create, validate_task_topology, validate_update

OLD = vcjob(task(replicas=5, minAvailable=2), minAvailable=2, policies=[{"event": "PodEvicted", "action": "RestartTask"}])


def changed(**spec: Any) -> list[str]:
    new = deepcopy(OLD)
    new["spec"].update(spec)
    return paths(validate_update(OLD, new))


def changed_task(**fields: Any) -> list[str]:
    return changed(tasks=[{**OLD["spec"]["tasks"][0], **fields}])


def test_the_same_job_again_is_accepted() -> None:
    assert changed() == []


def test_sizes_and_priority_may_change() -> None:
    assert changed(minAvailable=5) == []
    assert changed(priorityClassName="high") == []
    assert changed_task(replicas=9, minAvailable=9) == []
    assert changed_task(minAvailable=None) == []


def test_sizes_are_judged_anew() -> None:
    assert changed(minAvailable=6) == ["spec.minAvailable"]
    assert changed(minAvailable=-1) == ["spec.minAvailable"]
    assert changed_task(replicas=1) == ["spec.tasks[0].minAvailable", "spec.minAvailable"]
    assert changed_task(minAvailable=-1) == ["spec.tasks[0].minAvailable"]
    assert changed_task(replicas=-1, minAvailable=None)[:1] == ["spec.tasks[0].replicas"]


def test_partitions_and_topology_are_judged_anew() -> None:
    policy = {"totalPartitions": 2, "partitionSize": 2}
    old = vcjob(task(replicas=4, partitionPolicy=policy))
    new = vcjob(task(replicas=6, partitionPolicy=policy))
    assert paths(validate_update(old, new)) == ["spec.tasks[0].replicas"]
    pinned = vcjob(task(topologyPolicy="restricted"))
    assert paths(validate_update(pinned, pinned)) == ["spec.tasks[0].template.spec.containers[0].resources.requests.cpu"]


def test_tasks_may_not_come_or_go() -> None:
    assert changed(tasks=[*OLD["spec"]["tasks"], task(name="new")]) == ["spec.tasks"]
    assert changed(tasks=[], minAvailable=0) == ["spec.tasks"]


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"queue": "other"}, "spec.queue"),
        ({"maxRetry": 7}, "spec.maxRetry"),
        ({"plugins": {"svc": []}}, "spec.plugins"),
        ({"policies": [{"event": "PodEvicted", "action": "AbortJob"}]}, "spec.policies[0].action"),
        ({"policies": []}, "spec.policies"),
        ({"ttlSecondsAfterFinished": 0}, "spec.ttlSecondsAfterFinished"),
    ],
)
def test_nothing_else_may_change(spec: dict[str, Any], path: str) -> None:
    assert changed(**spec) == [path]


def test_nothing_else_of_a_task_may_change() -> None:
    assert changed_task(name="other") == ["spec.tasks[0].name"]
    assert changed_task(maxRetry=1) == ["spec.tasks[0].maxRetry"]
    assert changed_task(template=template(container(image="other"))) == ["spec.tasks[0].template.spec.containers[0].image"]


def test_empty_and_left_out_are_the_same_and_quantities_compare_by_value() -> None:
    old = vcjob(task(template=template(container(resources={"requests": {"cpu": "1000m"}, "limits": {}}))), volumes=None)
    new = vcjob(task(template=template(container(resources={"requests": {"cpu": 1}}))), volumes=[], schedulerName="")
    assert validate_update(old, new) == []


def test_an_empty_mapping_can_say_something() -> None:
    old = vcjob(task(template=template(volumes=[{"name": "v"}])))
    new = vcjob(task(template=template(volumes=[{"name": "v", "emptyDir": {}}])))
    assert paths(validate_update(old, new)) == ["spec.tasks[0].template.spec.volumes[0].emptyDir"]


def test_the_controller_may_name_the_claims_it_makes() -> None:
    claim = {"mountPath": "/a", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}}
    assert validate_update(vcjob(volumes=[claim]), vcjob(volumes=[{**claim, "volumeClaimName": "made-1"}])) == []
    own = {"mountPath": "/a", "volumeClaimName": "x"}
    renamed = vcjob(volumes=[{**own, "volumeClaimName": "y"}])
    assert paths(validate_update(vcjob(volumes=[own]), renamed)) == ["spec.volumes[0].volumeClaimName"]


def test_wrong_types_are_named() -> None:
    assert changed(minAvailable="2") == ["spec.minAvailable"]
    assert paths(validate_update([], OLD)) == [""]


@pytest.mark.parametrize("policy", ["best-effort", "restricted", "single-numa-node"])
@pytest.mark.parametrize(
    ("resources", "accepted"),
    [
        ({"requests": {"cpu": "2"}}, True),
        ({"requests": {"cpu": "2000m"}, "limits": {"cpu": "3500m"}}, True),
        ({"limits": {"cpu": 1, "memory": "100Mi"}}, True),
        ({"requests": {"cpu": "500m"}}, False),
        ({"requests": {"cpu": "0"}}, False),
        ({"requests": {"cpu": "much"}}, False),
        ({"requests": {"memory": "1Gi"}, "limits": {"cpu": "1"}}, False),
        ({}, False),
    ],
)
def test_a_topology_policy_asks_for_whole_cores(policy: str, resources: dict[str, Any], *, accepted: bool) -> None:
    judged = task(topologyPolicy=policy, template=template(container(resources=resources)))
    assert (validate_task_topology(judged) == []) is accepted
    assert validate_task_topology({**judged, "topologyPolicy": "none"}) == []
    assert validate_task_topology({**judged, "topologyPolicy": ""}) == []


def test_init_containers_ask_for_whole_cores_too() -> None:
    whole = container(resources={"requests": {"cpu": 1}})
    judged = task(topologyPolicy="restricted", template=template(whole, initContainers=[container(name="i")]))
    assert paths(validate_task_topology(judged)) == ["template.spec.initContainers[0].resources.requests.cpu"]


def order(**needs: list[str] | None) -> list[str] | None:
    tasks = [{"name": name, **({} if others is None else {"dependsOn": {"name": others}})} for name, others in needs.items()]
    return dependency_order({"spec": {"tasks": tasks}})


def test_dependencies_come_first() -> None:
    assert order(t1=["t2", "t3"], t2=["t3"], t3=[]) == ["t3", "t2", "t1"]
    assert order(a=None, b=["a"], c=["b"]) == ["a", "b", "c"]
    assert order() == []


def test_a_circle_an_unknown_task_or_a_repeated_dependency_has_no_order() -> None:
    assert order(a=["b"], b=["c"], c=["a"]) is None
    assert order(a=["a"]) is None
    assert order(a=["nobody"]) is None
    assert order(a=None, b=["a", "a"]) is None
    assert dependency_order("no job") is None


@given(st.integers(1, 8).flatmap(lambda n: st.lists(st.sets(st.integers(0, n - 1)), min_size=n, max_size=n)))
def test_an_order_exists_exactly_if_tasks_can_start_one_by_one(needs: list[set[int]]) -> None:
    started: set[int] = set()
    while ready := {number for number, others in enumerate(needs) if number not in started and others <= started}:
        started |= ready
    found = order(**{f"t{number}": [f"t{other}" for other in sorted(others)] for number, others in enumerate(needs)})
    assert (found is not None) is (len(started) == len(needs))
    for place, name in enumerate(found or []):
        assert {f"t{other}" for other in needs[int(name[1:])]} <= set((found or [])[:place])


SHARED = os.environ.get("LAHAR_SHARED")


@pytest.mark.skipif(SHARED is None, reason="LAHAR_SHARED does not say where the sample cases are")
def test_the_sample_cases() -> None:
    """Every validation case is answered as Volcano does."""
    lines = (Path(SHARED or "") / "conformance" / "validation.jsonl").read_text(encoding="utf-8").splitlines()
    wrong = []
    for case in map(json.loads, lines):
        if case["operation"] == "depends_on_dag":
            found = dependency_order(case["job"])
            answer: dict[str, Any] = {"is_dag": found is not None, "order": found}
        elif case["operation"] == "create":
            enabled = case.get("pod_level_resources_enabled", False)
            answer = {"accepted": not validate_create(case["job"], case["queues"], pod_level_resources_enabled=enabled)}
        elif case["operation"] == "update":
            answer = {"accepted": not validate_update(case["old_job"], case["job"])}
        else:
            answer = {"accepted": not validate_task_topology(case["task"])}
        wrong += [case["name"] for key, value in answer.items() if case["expected"].get(key, value) != value]
    assert lines
    assert wrong == []
