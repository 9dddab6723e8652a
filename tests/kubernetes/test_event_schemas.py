"""Schemas of custom events: a user's program that runs while everybody else waits. Its cost is bounded, whatever it says."""

from __future__ import annotations

import json
from time import process_time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from engine.events.bounds import EVENT_DATA_BYTES, SCHEMA_PATTERNS, SCHEMA_VALUES
from engine.kubernetes.manifests.event_schemas import data_fault, schema_fault
from engine.kubernetes.manifests.linear_patterns import PatternBudget, compiled

LEVELS = 40


def doubled(keyword: str, leaf: Any, times: int = 2) -> dict[str, Any]:
    """A schema of some lines that takes `times` ** 40 steps to apply."""
    steps: dict[str, Any] = {f"a{n}": {keyword: [{"$ref": f"#/$defs/a{n + 1}"}] * times} for n in range(LEVELS)}
    return {"$defs": steps | {f"a{LEVELS}": leaf}, "$ref": "#/$defs/a0"}


def nested(levels: int) -> Any:
    return json.loads('{"c":' * levels + "{}" + "}" * levels)


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        (doubled("anyOf", False), {}),
        (doubled("allOf", True), {}),
        (doubled("oneOf", {"type": "object"}, times=3), {}),
        (doubled("anyOf", False), {"x": "y" * 60_000}),
        ({"properties": {"a": {"anyOf": [{"items": {"enum": ["x" * 1000]}}] * 50}}}, {"a": [1] * 20_000}),
        ({"properties": {"a": {"unevaluatedItems": False, "contains": True}}}, {"a": list(range(10_000))}),
        ({"patternProperties": {f"a{n}": True for n in range(SCHEMA_PATTERNS)}}, {str(n): 1 for n in range(5_000)}),
        ({"properties": {"a": {"pattern": "[ab]*a[ab]{900}b"}}}, {"a": "ab" * 30_000}),
    ],
    ids=["anyOf", "allOf", "oneOf", "long messages", "many items", "unevaluated", "patterns x properties", "large automaton"],
)
def test_data_that_take_too_many_steps_are_refused(schema: dict[str, Any], data: dict[str, Any]) -> None:
    assert schema_fault(schema) is None
    began = process_time()
    fault = data_fault(schema, data)
    assert fault is not None
    assert "takes more than 50,000 steps" in fault
    assert process_time() - began < 10  # 0.3 s on the machine this was written on; without the bound: for ever


def test_a_schema_that_refers_to_itself_without_end_is_refused_as_such() -> None:
    """Whatever the depth of the caller's stack: no RecursionError decides."""
    fault = data_fault({"$ref": "#"}, {})
    assert fault is not None
    assert "within each other more than 100 deep" in fault


def test_a_recursive_schema_judges_nested_data() -> None:
    tree = {"$defs": {"n": {"properties": {"c": {"$ref": "#/$defs/n"}}, "additionalProperties": False}}, "$ref": "#/$defs/n"}
    assert data_fault(tree, nested(30)) is None
    assert data_fault(tree, nested(40)) == "data: nested more than 32 deep"


def test_patterns_match_in_linear_time() -> None:
    schema = {"properties": {"code": {"pattern": "^(a+)+$"}}, "patternProperties": {"^(b+)+$": {"type": "integer"}}}
    assert schema_fault(schema) is None
    assert data_fault(schema, {"code": "a" * 40}) is None
    began = process_time()
    fault = data_fault(schema, {"code": "a" * 40 + "!", "b" * 40 + "!": "x"})
    assert fault is not None
    assert fault.startswith("data.code: ")
    assert process_time() - began < 5


@pytest.mark.parametrize("pattern", ["(?=a)b", r"(a)\1", "(?<!a)b", "((a{100}){100})", "[", "(" * 5_000])
def test_a_pattern_that_needs_backtracking_is_refused_with_its_schema(pattern: str) -> None:
    for schema in ({"pattern": pattern}, {"patternProperties": {pattern: True}}, {"properties": {"a": {"pattern": pattern}}}):
        fault = schema_fault(schema)
        assert fault is not None
        assert "has the pattern " in fault
        assert len(fault) < 500


@pytest.mark.parametrize("first", [r"\pL{999}", r"[^\pN]{999}"])
def test_behind_a_pattern_that_is_too_large_none_is_compiled(first: str) -> None:
    """To find that out costs as much as the largest one."""
    budget = PatternBudget()
    assert "too large" in (budget.fault(first) or "")
    compiled.cache_clear()
    assert "instructions of RE2 together" in (budget.fault("a") or "")
    assert compiled.cache_info().misses == 0


def test_ordinary_patterns_fit_into_a_job() -> None:
    budget = PatternBudget()
    uuid, path, time = (
        "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
        "^s3://[a-z0-9.-]{3,63}/.*$",
        r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$",
    )
    assert [fault for _ in range(17) for one in (uuid, path, time) if (fault := budget.fault(one))] == []


def test_what_only_looks_like_a_pattern_is_data() -> None:
    assert (
        schema_fault({"enum": [{"pattern": "("}], "properties": {"pattern": True}, "default": {"patternProperties": {"(": 1}}})
        is None
    )


def test_javascript_escapes_of_patterns_are_read() -> None:
    schema = {"properties": {"a": {"pattern": r"^\u0041\\u$"}}}
    assert schema_fault(schema) is None
    assert data_fault(schema, {"a": "A\\u"}) is None
    assert data_fault(schema, {"a": "B\\u"}) is not None


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        (nested(33), "nested more than 32 deep"),
        ({"properties": {f"p{n}": True for n in range(SCHEMA_VALUES)}}, f"more than {SCHEMA_VALUES} values"),
        ({"unevaluatedProperties": False, "patternProperties": {"a": True}}, "use additionalProperties"),
        ({"patternProperties": {f"a{n}": True for n in range(SCHEMA_PATTERNS + 1)}}, f"more than {SCHEMA_PATTERNS} patterns"),
    ],
)
def test_a_schema_beyond_a_bound_is_refused_with_the_bounds_name(schema: dict[str, Any], fault: str) -> None:
    found = schema_fault(schema)
    assert found is not None
    assert fault in found


def test_data_beyond_their_bound_are_refused_with_and_without_a_schema() -> None:
    large = {"a": "x" * EVENT_DATA_BYTES}
    assert data_fault(None, large) == data_fault({}, large) == "data: more than 65,536 bytes as JSON"
    assert data_fault(None, {"a": "x" * (EVENT_DATA_BYTES - 8)}) is None


def test_faults_quote_no_more_than_a_line_of_the_data() -> None:
    fault = data_fault({"properties": {"a": {"type": "integer"}}}, {"a": "x" * 60_000})
    assert fault is not None
    assert len(fault) < 600


def test_large_arrays_of_plain_values_are_within_the_bounds() -> None:
    assert (
        data_fault({"properties": {"a": {"items": {"type": "integer"}, "uniqueItems": True}}}, {"a": list(range(10_000))}) is None
    )


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.0, 1.0, 1.5]) | st.sampled_from(["", "a", "aa", "b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "ab"]), inner, max_size=3),
    max_leaves=8,
)
SCHEMAS = st.recursive(
    st.sampled_from(
        [
            {},
            {"type": "integer"},
            {"type": "object", "required": ["a"]},
            {"pattern": "^a+$"},
            {"uniqueItems": True},
            {"minLength": 2},
            {"enum": [1, "a", [0, False]]},
        ]
    ),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
            "patternProperties": st.dictionaries(st.sampled_from(["a", "^b$"]), inner, max_size=2),
            "additionalProperties": inner | st.booleans(),
            "items": inner,
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
        },
    ),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(SCHEMAS, st.dictionaries(st.sampled_from(["a", "b", "ab"]), VALUES, max_size=3))
def test_within_the_bounds_it_judges_as_the_reference_does(schema: dict[str, Any], data: dict[str, Any]) -> None:
    """The keywords that are our own (patterns, additionalProperties, uniqueItems) mean what jsonschema's mean."""
    assert (data_fault(schema, data) is None) == Draft202012Validator(schema).is_valid(data)
