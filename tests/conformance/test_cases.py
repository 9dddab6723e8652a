"""Running cases: every kind of case, how outcomes are compared."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.conformance.comparison import compare
from engine.conformance.kinds import KINDS
from engine.conformance.run import run_cases

CASES = Path(__file__).parent / "cases"


def lines_of(name):
    return (CASES / name).read_bytes().splitlines()


OWN = [*lines_of("passing.jsonl"), *lines_of("scheduling.jsonl")]


@pytest.mark.parametrize("line", OWN, ids=lambda line: json.loads(line)["name"])
def test_own_cases_pass(line):
    (result,) = run_cases([line], "own")
    assert result.failures == []


def test_own_cases_cover_every_kind():
    kinds = Counter(json.loads(line)["kind"] for line in OWN)
    assert set(kinds) == set(KINDS)


def test_lines_are_counted_with_blank_ones():
    results = list(run_cases([b"\n", b"{}\n", b"", b'{"kind": "policy", "expected": {}}'], "f"))
    assert [(result.name, result.line, result.ok) for result in results] == [("f:2", 2, False), ("f:4", 4, False)]


def test_bytes_that_are_no_text_fail_with_their_line():
    (result,) = run_cases([b"\xff\xfe{}"], "f")
    assert (result.name, result.ok, result.failures[0].field) == ("f:1", False, "line")


@pytest.mark.parametrize(
    ("expected", "actual", "equal"),
    [
        ({"killed": ["b", "a"]}, {"killed": ["a", "b"], "phase": "Running"}, True),
        ({"killed": ["a"]}, {"killed": ["a", "b"]}, False),
        ({"order": ["b", "a"]}, {"order": ["a", "b"]}, False),
        ({"delay": "1m30s"}, {"delay": "90s"}, True),
        ({"delay": None}, {"delay": "0s"}, True),
        ({"delay": None}, {"delay": "1s"}, False),
        ({"min_resources": {"cpu": "1000m"}}, {"min_resources": {"cpu": "1"}}, True),
        ({"min_resources": {"cpu": "1"}}, {"min_resources": {"cpu": "1", "pods": "1"}}, False),
        ({"min_resources": None}, {"min_resources": {}}, True),
        ({"min_task_member": {"a": 1}}, {"min_task_member": {"a": 1, "b": 1}}, False),
        ({"sub_group_policy": [{"name": "a"}]}, {"sub_group_policy": [{"name": "a", "size": 2}]}, True),
        ({"sub_group_policy": [{"name": "a"}]}, {"sub_group_policy": []}, False),
        ({"accepted": True, "reason_contains": "x"}, {"accepted": True, "reason": ""}, True),
        ({"share": 0.5}, {"share": 0.5000001}, False),
        ({"absent": None}, {}, False),
    ],
)
def test_comparison(expected, actual, equal):
    assert (compare(expected, actual) == []) == equal


def test_epsilon_is_a_tolerance_for_numbers():
    assert compare({"share": 0.5, "epsilon": 1e-3}, {"share": 0.5001}, 1e-3) == []
    assert compare({"share": 0.5}, {"share": 0.6}, 1e-3) != []
    assert compare({"scores": [1.0, 2.0]}, {"scores": [1.0, 2.0001]}, 1e-3) == []


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = sorted({key for line in OWN for key in json.loads(line)} - {"kind", "name"})


@given(
    st.sampled_from(sorted(KINDS)),
    st.dictionaries(st.sampled_from(FIELDS), json_values),
    st.sampled_from(OWN),
)
def test_no_content_of_a_case_ends_the_run(kind, fields, line):
    """A case is anybody's JSON: whatever it holds, it passes or fails."""
    case = {**json.loads(line), **fields, "kind": kind}
    (result,) = run_cases([json.dumps(case).encode()], "f")
    assert result.kind == kind


SHARED = os.environ.get("LAHAR_SHARED")


@pytest.mark.skipif(not SHARED, reason="LAHAR_SHARED does not say where the samples are")
@pytest.mark.parametrize("name", ["lifecycle.jsonl", "policy.jsonl", "scheduling.jsonl", "validation.jsonl"])
def test_samples_pass(name):
    with (Path(SHARED or "") / "conformance" / name).open("rb") as lines:
        results = list(run_cases(lines, name))
    assert results
    assert [(result.name, result.failures) for result in results if not result.ok] == []
