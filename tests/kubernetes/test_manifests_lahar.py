"""Lahar's own fields: where they stand, what they say, what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from manifest_builders import paths, task, vcjob

from engine.kubernetes.manifests.event_schemas import data_fault
from engine.kubernetes.manifests.manifest import ReadJob, read_manifest
from statemachines.spec import RaiseRule

TASKS = (task(name="combiner"), task(name="learner", replicas=4))


def read(lahar: Any, **spec: Any) -> ReadJob:
    return read_manifest(vcjob(*TASKS, lahar=lahar, **spec))


def faults(lahar: Any, **spec: Any) -> list[str]:
    found = read(lahar, **spec)
    return paths(found.faults)


def annotated(text: str, **spec: Any) -> ReadJob:
    return read_manifest(vcjob(*TASKS, metadata={"annotations": {"lahar/spec": text}}, **spec))


FIELDS = {
    "preempt": True,
    "onPreempted": "Abort",
    "raise": [{"raise": "Halfway", "when": {"task": "learner", "phase": "Succeeded", "count": 2}}],
    "customEvents": {"CheckpointDone": {"type": "object"}, "Ping": None},
    "permanentExitCodes": [3, 255],
    "minRunSeconds": 60,
    "activeDeadlineSeconds": 3600,
    "tasks": {"combiner": {"main": True}, "learner": {"minSucceeded": 2, "maxFailed": 0}},
}


@pytest.mark.parametrize("way", ["top", "json", "yaml"])
def test_they_stand_at_the_top_or_in_the_annotation(way: str) -> None:
    text = json.dumps(FIELDS)
    found = read(FIELDS) if way == "top" else annotated(text if way == "json" else text.replace("{", "{ "))
    assert (found.faults, found.warnings) == ([], [])
    spec = found.spec
    assert (spec.preempt, spec.on_preempted, spec.min_run_seconds, spec.active_deadline_seconds) == (True, "Abort", 60, 3600)
    assert spec.custom_events == {"CheckpointDone": {"type": "object"}, "Ping": None}
    assert spec.permanent_exit_codes == (3, 255)
    assert spec.raise_rules == (RaiseRule("Halfway", "replica", "learner", "Succeeded", count=2),)
    assert [(one.main, one.min_succeeded, one.max_failed) for one in spec.tasks] == [(True, None, None), (False, 2, 0)]


def test_an_annotation_is_yaml_as_people_write_it() -> None:
    text = "raise:\n- raise: MainTaskEvent\n  when: {task: combiner, phase: Completed}\n"
    assert annotated(text).spec.raise_rules == (RaiseRule("MainTaskEvent", "task", "combiner", "Completed"),)


@pytest.mark.parametrize(
    "lahar",
    [
        {"raise": "Done", "when": {"task": "combiner", "phase": "Completed"}},
        {"raise": {"raise": "Done", "when": {"task": "combiner", "phase": "Completed"}}},
        {"raise": [{"raise": "Done", "when": {"task": "combiner", "phase": "Completed"}}]},
    ],
)
def test_one_rule_needs_no_list(lahar: Any) -> None:
    assert read(lahar).spec.raise_rules == (RaiseRule("Done", "task", "combiner", "Completed"),)


@pytest.mark.parametrize("empty", [None, {}, {"tasks": None}, {"tasks": {"combiner": None}}])
def test_nothing_is_nothing(empty: Any) -> None:
    found = read(empty)
    assert found.faults == []
    assert (found.spec.preempt, found.spec.on_preempted, found.spec.raise_rules) == (False, "Requeue", ())


def test_a_key_that_stands_twice_in_an_annotation_has_its_last_value() -> None:
    """Logs hold such annotations, and what they mean must not change."""
    assert annotated("preempt: false\npreempt: true").spec == annotated("preempt: true").spec


def test_an_empty_annotation_is_nothing() -> None:
    assert annotated("").faults == []


@pytest.mark.parametrize("text", ["[1", "- a", "a: *b", "1", "a: 1\n---\nb: 2", "x: &a [*a]", "preempt: maybe"])
def test_a_bad_annotation_is_a_fault_there(text: str) -> None:
    found = paths(annotated(text).faults)
    assert found
    assert all(path.startswith("metadata.annotations[lahar/spec]") for path in found)


def test_two_places_are_one_too_many() -> None:
    manifest = vcjob(*TASKS, metadata={"annotations": {"lahar/spec": "preempt: true"}}, lahar={"preempt": False})
    assert paths(read_manifest(manifest).faults) == ["lahar"]


def test_unknown_fields_are_warnings() -> None:
    found = read(
        {"preemt": True, "tasks": {"learner": {"mian": True}}, "raise": [{"raise": "E", "when": {"phase": "Running", "x": 1}}]}
    )
    assert found.warnings == [
        "lahar.preemt: unknown field; did you mean preempt?",
        "lahar.raise[0].when.x: unknown field",
        "lahar.tasks.learner.mian: unknown field; did you mean main?",
    ]


@pytest.mark.parametrize(
    ("when", "level"),
    [
        ({"phase": "Completed"}, "task"),
        ({"phase": "Running"}, "task"),
        ({"phase": "Succeeded"}, "replica"),
        ({"phase": "Lost"}, "replica"),
        ({"phase": "Terminated"}, "job"),
        ({"exitCode": 3}, "replica"),
        ({"reason": "OomKilled"}, "task"),
        ({"level": "job", "phase": "Completed"}, "job"),
        ({"level": "replica", "phase": "Running"}, "replica"),
    ],
)
def test_the_level_follows_from_the_condition(when: dict[str, Any], level: str) -> None:
    found = read({"raise": [{"raise": "E", "when": when}]})
    assert found.faults == []
    assert found.spec.raise_rules[0].level == level


@pytest.mark.parametrize(
    ("lahar", "path"),
    [
        ({"preempt": "yes"}, "preempt"),
        ({"onPreempted": "Cry"}, "onPreempted"),
        ({"minRunSeconds": -1}, "minRunSeconds"),
        ({"activeDeadlineSeconds": 0}, "activeDeadlineSeconds"),
        ({"permanentExitCodes": [1, 0]}, "permanentExitCodes[1]"),
        ({"permanentExitCodes": [256]}, "permanentExitCodes[0]"),
        ({"customEvents": ["E"]}, "customEvents"),
        ({"customEvents": {"PodFailed": None}}, "customEvents.PodFailed"),
        ({"customEvents": {"*": None}}, "customEvents[*]"),
        ({"customEvents": {"a b": None}}, "customEvents[a b]"),
        ({"customEvents": {"E": {"type": "objekt"}}}, "customEvents.E"),
        ({"customEvents": {"E": {"pattern": "("}}}, "customEvents.E"),
        ({"customEvents": {"E": {"$ref": "https://example.com/schema"}}}, "customEvents.E"),
        ({"customEvents": {"E": {"$ref": "#/$defs/none"}}}, "customEvents.E"),
        ({"tasks": {"nobody": {}}}, "tasks.nobody"),
        ({"tasks": {"learner": {"minSucceeded": 5}}}, "tasks.learner.minSucceeded"),
        ({"tasks": {"learner": {"minSucceeded": 0}}}, "tasks.learner.minSucceeded"),
        ({"tasks": {"learner": {"maxFailed": -1}}}, "tasks.learner.maxFailed"),
        ({"raise": [{"when": {"phase": "Running"}}]}, "raise[0].raise"),
        ({"raise": [{"raise": "TaskFailed", "when": {"phase": "Running"}}]}, "raise[0].raise"),
        ({"raise": [{"raise": "E"}]}, "raise[0].when"),
        ({"raise": [{"raise": "E", "when": {"task": "learner"}}]}, "raise[0].when"),
        ({"raise": [{"raise": "E", "when": {"level": "pod", "phase": "Running"}}]}, "raise[0].when.level"),
        ({"raise": [{"raise": "E", "when": {"level": "task", "phase": "Succeeded"}}]}, "raise[0].when.phase"),
        ({"raise": [{"raise": "E", "when": {"phase": "Exploded"}}]}, "raise[0].when.phase"),
        ({"raise": [{"raise": "E", "when": {"task": "nobody", "phase": "Running"}}]}, "raise[0].when.task"),
        ({"raise": [{"raise": "E", "when": {"level": "job", "task": "learner", "phase": "Running"}}]}, "raise[0].when.task"),
        ({"raise": [{"raise": "E", "when": {"level": "task", "exitCode": 1}}]}, "raise[0].when.exitCode"),
        ({"raise": [{"raise": "E", "when": {"phase": "Running", "count": 0}}]}, "raise[0].when.count"),
        ({"raise": [{"raise": "E", "when": {"level": "job", "phase": "Running", "count": 2}}]}, "raise[0].when.count"),
        ({"raise": {"raise": "E", "when": {"phase": "Failed", "reason": "OomKiled"}}}, "raise[0].when.reason"),
        ("preempt", ""),
    ],
)
def test_what_is_refused(lahar: Any, path: str) -> None:
    assert faults(lahar) == [f"lahar.{path}" if path else "lahar"]


def test_a_misspelt_reason_is_refused_with_the_nearest_unless_foreign() -> None:
    """A reason that resembles none of ours is a controller's and passes."""
    (fault,) = read({"raise": [{"raise": "E", "when": {"phase": "Failed", "reason": "OomKiled"}}]}).faults
    assert fault.message == "there is no reason 'OomKiled'; did you mean OomKilled?"
    assert faults({"raise": [{"raise": "E", "when": {"phase": "Failed", "reason": "OurOwnReason"}}]}) == []


def test_a_schema_may_not_be_nested_too_deeply_to_be_judged() -> None:
    schema: dict[str, Any] = {}
    for _ in range(31):
        schema = {"not": schema}
    assert faults({"customEvents": {"E": schema}}) == []
    assert faults({"customEvents": {"E": {"not": schema}}}) == ["lahar.customEvents.E"]


def test_references_within_a_schema_are_followed_everywhere() -> None:
    schema = {"allOf": [{"$ref": "#/$defs/n"}], "$defs": {"n": {"type": "object"}}}
    assert faults({"customEvents": {"E": schema}}) == []
    for nowhere in ("#/$defs/x", "#/allOf/x", "#/allOf/9", "#/type/0/0", "#/minLength/a", "#name", "//["):
        broken = {**schema, "type": "object", "minLength": 1, "$ref": nowhere}
        assert faults({"customEvents": {"E": broken}}) == ["lahar.customEvents.E"]


class TestPoliciesOnOwnEvents:
    @pytest.mark.parametrize(
        "lahar",
        [
            {"customEvents": {"Signal": None}},
            {"raise": [{"raise": "Signal", "when": {"phase": "Running"}}]},
        ],
    )
    def test_declared_and_raised_events_can_be_answered(self, lahar: Any) -> None:
        policies = [{"event": "Signal", "action": "CompleteJob"}]
        assert faults(lahar, policies=policies) == []
        assert faults(None, policies=policies) == ["spec.policies[0].event"]

    def test_a_main_task_brings_its_two_events(self) -> None:
        policies = [{"events": ["MainTaskEvent", "MainTaskFailedEvent"], "action": "CompleteJob"}]
        assert faults({"tasks": {"combiner": {"main": True}}}, policies=policies) == []
        assert faults({"tasks": {"combiner": {"main": False}}}, policies=policies) == ["spec.policies[0].events[0]"]

    def test_policies_of_tasks_can_answer_them_too(self) -> None:
        policies = [{"event": "Signal", "action": "RestartTask"}]
        manifest = vcjob(task(policies=policies), lahar={"customEvents": {"Signal": None}})
        assert read_manifest(manifest).faults == []


class TestEventData:
    def test_data_satisfy_the_schema_or_it_is_said_why(self) -> None:
        schema = {"type": "object", "properties": {"step": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "integer"}}}
        assert data_fault(None, {"anything": 1}) is None
        assert data_fault(schema, {"step": 3}) is None
        assert (data_fault(schema, {"step": "x"}) or "").startswith("data.step:")

    def test_a_schema_that_cannot_be_applied_is_said_so(self) -> None:
        assert "cannot be applied" in (data_fault({"$ref": "#"}, {}) or "")
        assert "cannot be applied" in (data_fault({"$ref": "https://example.com/schema"}, {}) or "")
