"""No manifest, however broken, breaks the reader."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from manifest_builders import OPEN, batch_job, container, task, template, vcjob

from engine.conformance.admission import dependency_order, validate_create, validate_task_topology, validate_update
from engine.kubernetes.manifests.event_schemas import data_fault, schema_fault
from engine.kubernetes.manifests.identity import read_identity
from engine.kubernetes.manifests.manifest import read_manifest, update_spec
from engine.kubernetes.reading.requests import effective_requests

TEXT = """a task-1 learner none restricted Always Never PodFailed * MainTaskEvent RestartPod default root 1 500m 1Gi -1 1h 5s Upper
nvidia.com/gpu cpu memory lahar/spec {} [1 x:"""
WORDS = st.sampled_from(TEXT.split())
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | WORDS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6) | WORDS, inner, max_size=4),
    max_leaves=12,
)
FULL = vcjob(
    task(
        minAvailable=1,
        maxRetry=2,
        dependsOn={"name": [], "iteration": "any"},
        policies=[{"event": "PodFailed", "action": "RestartPod", "timeout": "5s"}, {"exitCode": 3, "action": "AbortJob"}],
        partitionPolicy={"totalPartitions": 1, "partitionSize": 1, "minPartitions": 1, "networkTopology": {"mode": "hard"}},
        topologyPolicy="none",
        template=template(
            container(
                resources={"requests": {"cpu": "1"}, "limits": {"cpu": "2", "nvidia.com/gpu": 1}},
                ports=[{"containerPort": 22}],
                env=[{"name": "A", "value": "b"}],
                volumeMounts=[{"name": "v", "mountPath": "/v"}],
            ),
            volumes=[{"name": "v", "emptyDir": {}}],
            initContainers=[container(name="i")],
            resources={"requests": {"cpu": "1"}},
        ),
    ),
    metadata={"labels": {"lahar/tenant": "t"}, "annotations": {"a": "b"}},
    lahar={
        "raise": [{"raise": "E", "when": {"phase": "Running", "count": 1}}],
        "customEvents": {"E": {"type": "object"}},
        "tasks": {"task-1": {"main": True}},
        "permanentExitCodes": [1],
    },
    plugins={"svc": ["--x"]},
    volumes=[{"mountPath": "/a", "volumeClaimName": "x"}],
    networkTopology={"mode": "soft", "highestTierAllowed": 1},
    ttlSecondsAfterFinished=1,
)
BATCH = batch_job(lahar={"tasks": {"main": {"maxFailed": 1}}}, completions=3, parallelism=3, backoffLimit=1, suspend=False)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, one in below for place in places(one, (*path, key)))]


@st.composite
def broken(draw: st.DrawFn) -> Any:
    """A valid manifest with some of its fields replaced, removed or added."""
    manifest = deepcopy(draw(st.sampled_from([FULL, BATCH])))
    for _ in range(draw(st.integers(1, 3))):
        if not manifest:
            break
        *path, last = draw(st.sampled_from(places(manifest)[1:]))
        inner = manifest
        for step in path:
            inner = inner[step]
        how = draw(st.sampled_from(["replace", "remove", "add"]))
        if how == "replace":
            inner[last] = draw(VALUES)
        elif how == "remove":
            del inner[last]
        elif isinstance(inner, dict):
            inner[draw(st.text(max_size=6) | WORDS)] = draw(VALUES)
        else:
            inner.append(draw(VALUES))
    return manifest


def judge(manifest: Any) -> None:
    for strict in (False, True):
        read = read_manifest(manifest, strict=strict)
        assert all(fault.message for fault in read.faults)
        json.dumps([read.warnings, [fault.path + fault.message for fault in read.faults]]).encode()
    identity = read_identity(manifest if isinstance(manifest, dict) else {}, "seed")
    if not read_manifest(manifest).faults:
        read = read_manifest(manifest, seed="seed")
        assert identity == (read.namespace, read.name, read.tenant)
        assert update_spec(read.spec, manifest) == (read.spec, [])
    validate_create(manifest, OPEN, pod_level_resources_enabled=True)
    validate_update(FULL, manifest)
    validate_update(manifest, FULL)
    validate_task_topology(manifest)
    dependency_order(manifest)
    effective_requests(manifest)


def test_the_manifests_that_are_broken_are_whole_at_first() -> None:
    assert read_manifest(FULL).faults == []
    assert read_manifest(BATCH).faults == []


@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(broken() | VALUES)
def test_nothing_raises(manifest: Any) -> None:
    judge(manifest)


@pytest.mark.slow
@settings(max_examples=100_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(broken() | VALUES)
def test_nothing_raises_at_length(manifest: Any) -> None:
    judge(manifest)


SCHEMA_WORDS = st.sampled_from(
    [
        "$ref",
        "$id",
        "$defs",
        "allOf",
        "properties",
        "type",
        "pattern",
        "items",
        "#",
        "#/allOf/0",
        "#/$defs/a",
        "a",
        "object",
        "(",
        "http://[",
    ]
)
SCHEMAS = st.dictionaries(
    SCHEMA_WORDS,
    st.recursive(
        SCHEMA_WORDS | st.integers(0, 2) | st.booleans(),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(SCHEMA_WORDS, inner, max_size=3),
        max_leaves=6,
    ),
    max_size=4,
)


def judge_schema(schema: dict[str, Any], data: dict[str, Any]) -> None:
    if schema_fault(schema) is None:
        data_fault(schema, data)


@settings(max_examples=400, deadline=None)
@given(SCHEMAS, st.dictionaries(SCHEMA_WORDS, VALUES, max_size=2))
def test_no_schema_of_an_event_raises(schema: dict[str, Any], data: dict[str, Any]) -> None:
    judge_schema(schema, data)


@pytest.mark.slow
@settings(max_examples=50_000, deadline=None)
@given(SCHEMAS, st.dictionaries(SCHEMA_WORDS, VALUES, max_size=2))
def test_no_schema_of_an_event_raises_at_length(schema: dict[str, Any], data: dict[str, Any]) -> None:
    judge_schema(schema, data)


@pytest.mark.parametrize(
    "value",
    ["\ud800", {"\ud800": 1}, {1: 2}, {None: {}}, float("nan"), float("inf"), 10**400, b"bytes", {"a"}, object()],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("place", places(FULL)[1:], ids=str)
def test_what_no_json_says_does_not_raise_either(place: tuple[Any, ...], value: Any) -> None:
    manifest = deepcopy(FULL)
    inner: Any = manifest
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    read_manifest(manifest)
    validate_create(manifest, OPEN, pod_level_resources_enabled=True)
    validate_update(FULL, manifest)
