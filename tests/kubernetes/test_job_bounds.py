"""How large a job may be: beyond a bound it is rejected with the bound's name, and what that costs does not grow with it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.events.bounds import (
    CUSTOM_EVENTS,
    FAULT_CHARACTERS,
    FAULTS,
    LABELS,
    LAHAR_SPEC_BYTES,
    MANIFEST_VALUES,
    NAME_CHARACTERS,
    NESTING,
    POLICIES,
    RAISE_RULES,
    REPLICAS,
    SCHEMA_PATTERN_CHARACTERS,
    SCHEMA_VALUES,
    TASKS,
)
from engine.kubernetes.manifests.manifest import read_manifest, update_spec

TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "busybox:1"}], "restartPolicy": "Never"}}


def vcjob(*tasks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "ml"},
        "spec": {"tasks": [{"template": TEMPLATE, **task} for task in tasks]},
        **more,
    }


def batch(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}, "spec": {"template": TEMPLATE, **spec}}


def nested(levels: int) -> Any:
    return json.loads("[" * levels + "]" * levels)


def annotated(text: str) -> dict[str, Any]:
    manifest = vcjob({"name": "a", "replicas": 1})
    manifest["metadata"]["annotations"] = {"lahar/spec": text}
    return manifest


def with_metadata(**fields: Any) -> dict[str, Any]:
    manifest = vcjob({"name": "a", "replicas": 1})
    manifest["metadata"] |= fields
    return manifest


POLICY = {"event": "PodFailed", "action": "AbortJob"}
ONE = {"name": "a", "replicas": 1}
BEYOND: dict[str, tuple[Any, str, str]] = {
    "replicas": (vcjob({"name": "a", "replicas": 2_000_000_000}), "spec.tasks", "2,000,000,000 replicas, more than 20,000"),
    "replicas together": (vcjob(*({"name": f"a{n}", "replicas": 10_001} for n in range(2))), "spec.tasks", "20,002 replicas"),
    "completions": (batch(completions=2**31 - 1), "spec.completions", "(max_replicas)"),
    "parallelism": (batch(parallelism=20_001), "spec.parallelism", "(max_replicas)"),
    "tasks": (vcjob(*({"name": f"a{n}", "replicas": 1} for n in range(TASKS + 1))), "spec.tasks", "501 tasks"),
    "policies of a task": (vcjob({**ONE, "policies": [POLICY] * (POLICIES + 1)}), "spec.tasks[0].policies", "101 policies"),
    "policies of a job": (
        {**vcjob(ONE), "spec": {**vcjob(ONE)["spec"], "policies": [POLICY] * (POLICIES + 1)}},
        "spec.policies",
        "101 policies",
    ),
    "rules": (
        vcjob(ONE, lahar={"raise": [{"raise": "E", "when": {"phase": "Completed"}}] * (RAISE_RULES + 1)}),
        "lahar.raise",
        "101 rules",
    ),
    "events": (
        vcjob(ONE, lahar={"customEvents": {f"E{n}": None for n in range(CUSTOM_EVENTS + 1)}}),
        "lahar.customEvents",
        "101 custom events",
    ),
    "schemas together": (
        vcjob(ONE, lahar={"customEvents": {f"E{n}": {"enum": list(range(SCHEMA_VALUES // 2))} for n in range(2)}}),
        "lahar.customEvents",
        "more than 500 values together",
    ),
    "characters of patterns together": (
        vcjob(ONE, lahar={"customEvents": {f"E{n}": {"pattern": "a" * (SCHEMA_PATTERN_CHARACTERS // 3)} for n in range(4)}}),
        "lahar.customEvents.E3",
        "may have 2,048 characters together",
    ),
    "patterns together": (
        vcjob(ONE, lahar={"customEvents": {f"E{n}": {"pattern": r"\pL{20}"} for n in range(3)}}),
        "lahar.customEvents.E2",
        "may have 50,000 instructions of RE2 together",
    ),
    "labels": (with_metadata(labels={f"k{n}": "v" for n in range(LABELS + 1)}), "metadata.labels", "1,001 labels"),
    "annotations": (with_metadata(annotations={f"k{n}": "v" for n in range(LABELS + 1)}), "metadata.annotations", "annotations"),
    "keys": (with_metadata(annotations={"k" * (NAME_CHARACTERS + 1): "v"}), "", "a key of more than 512"),
    "values": (with_metadata(finalizers=["x"] * MANIFEST_VALUES), "", "more than 50,000 values"),
    "nesting": (with_metadata(finalizers=nested(NESTING)), "", "nested more than 100 deep"),
    "nesting of the annotation": (annotated("main: " + "[" * 60_000), "metadata.annotations[lahar/spec]", "nested more than 100"),
    "indented annotation": (annotated("- " * 20_000), "metadata.annotations[lahar/spec]", "nested more than 100"),
    "braces in the annotation": (annotated('{"a":' * 12_000), "metadata.annotations[lahar/spec]", "nested more than 100"),
    "size of the annotation": (annotated("#" * (LAHAR_SPEC_BYTES + 1)), "metadata.annotations[lahar/spec]", "65,536 bytes"),
    "aliases in the annotation": (
        annotated(
            "a: &a [1,1,1,1,1,1,1,1,1]\n"
            + "".join(f"{chr(98 + n)}: &{chr(98 + n)} [{','.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(12))
        ),
        "metadata.annotations[lahar/spec]",
        "expand without bound",
    ),
}


@pytest.mark.parametrize("name", BEYOND)
def test_a_job_beyond_a_bound_is_rejected_with_the_bounds_name(name: str) -> None:
    manifest, path, message = BEYOND[name]
    found = read_manifest(manifest)
    assert [(fault.path, message in fault.message) for fault in found.faults] == [(path, True)], found.faults
    assert not found.spec.tasks


def test_a_job_at_the_bounds_is_taken() -> None:
    own: dict[str, Any] = {"customEvents": {f"E{n}": {} for n in range(CUSTOM_EVENTS)}}
    found = read_manifest(vcjob(*({"name": f"a{n}", "replicas": REPLICAS // TASKS} for n in range(TASKS)), lahar=own))
    assert found.faults == []
    assert found.spec.total_replicas == REPLICAS


def test_the_bound_of_replicas_is_what_the_deployment_says() -> None:
    assert read_manifest(vcjob({"name": "a", "replicas": 6}), most_replicas=5).faults
    assert read_manifest(vcjob({"name": "a", "replicas": REPLICAS + 1}), most_replicas=10**6).faults == []


def test_an_update_is_bounded_as_a_submission_is() -> None:
    old = read_manifest(vcjob(ONE)).spec
    spec, faults = update_spec(old, vcjob({"name": "a", "replicas": 2_000_000_000}))
    assert spec is old
    assert [fault.path for fault in faults] == ["spec.tasks"]
    assert update_spec(old, vcjob({"name": "a", "replicas": 6}), most_replicas=5)[1]


@pytest.mark.parametrize(
    "manifest",
    [
        vcjob(*({"name": "A" * 100, "replicas": 1, "policies": [{"event": "x" * 2000}]} for _ in range(TASKS))),
        vcjob(ONE, lahar={"tasks": {f"{n}{'x' * 500}": {} for n in range(TASKS)}}),
        {**vcjob(ONE), "spec": {"tasks": [1] * 40_000}},
        vcjob({"name": f"a{'x' * 40_000}", "replicas": 1}),
        batch(**{f"unknown{n}": 1 for n in range(5_000)}),
    ],
)
@pytest.mark.parametrize("strict", [True, False])
def test_faults_and_warnings_are_few_and_short(manifest: dict[str, Any], strict: bool) -> None:
    found = read_manifest(manifest, strict=strict)
    assert len(found.faults) <= FAULTS + 1
    assert len(found.warnings) <= FAULTS + 2
    assert all(len(fault.path) <= FAULT_CHARACTERS and len(fault.message) <= FAULT_CHARACTERS for fault in found.faults)
