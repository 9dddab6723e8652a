"""Shapes of pods: equal content is one class of replicas, also after a way through the log."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.events.pod_shape import PREEMPTABLE, REVOCABLE_ZONE, TASK_SPEC, PodShape, pairs, parse_bool
from engine.events.vocabulary import adapter


@given(st.from_type(PodShape))
def test_a_shape_comes_back_from_json_as_the_same_class(shape):
    shapes = adapter(PodShape)
    again = shapes.validate_json(shapes.dump_json(shape), strict=True)
    assert again == shape
    assert hash(again) == hash(shape)


def test_the_order_of_a_mapping_does_not_matter():
    one = PodShape(requests=pairs({"cpu": 1000, "memory": 1}), labels=pairs({"a": "1", "b": "2"}))
    other = PodShape(requests=pairs({"memory": 1, "cpu": 1000}), labels=pairs({"b": "2", "a": "1"}))
    assert {one: "class"}[other] == "class"


@pytest.mark.parametrize(
    ("annotations", "labels", "preemptable"),
    [
        ({}, {}, True),
        ({}, {PREEMPTABLE: "false"}, False),
        ({PREEMPTABLE: "true"}, {PREEMPTABLE: "false"}, True),
        ({PREEMPTABLE: "perhaps"}, {}, False),
    ],
)
def test_pods_are_preemptable_unless_they_say_otherwise(annotations, labels, preemptable):
    assert PodShape(annotations=pairs(annotations), labels=pairs(labels)).preemptable is preemptable


@pytest.mark.parametrize(
    ("annotations", "zone"),
    [
        ({}, ""),
        ({REVOCABLE_ZONE: "*"}, "*"),
        ({REVOCABLE_ZONE: "rz1"}, ""),
        ({PREEMPTABLE: "true"}, "*"),
        ({PREEMPTABLE: "false"}, ""),
        ({REVOCABLE_ZONE: "", PREEMPTABLE: "true"}, ""),
    ],
)
def test_revocable_nodes_are_for_pods_that_say_so(annotations, zone):
    assert PodShape(annotations=pairs(annotations)).revocable_zone == zone


def test_a_task_is_named_by_annotation_before_label():
    assert PodShape(labels=pairs({TASK_SPEC: "worker"})).role == "worker"
    assert PodShape(labels=pairs({TASK_SPEC: "worker"}), annotations=pairs({TASK_SPEC: "ps"})).role == "ps"


def test_truth_values_are_gos():
    assert [parse_bool(text) for text in ("1", "T", "true", "yes", "0", "")] == [True, True, True, False, False, False]
