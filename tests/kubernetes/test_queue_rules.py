"""Volcano's admission of queues among each other."""

from __future__ import annotations

from typing import Any

import pytest

from engine.events.bounds import QUEUE_DEPTH
from engine.kubernetes.manifests.queue_rules import annotation_faults, rooted, tree_faults


def faults(name: str, **queues: dict[str, Any]) -> list[tuple[str, str]]:
    return [(fault.path, fault.message) for fault in tree_faults(name, queues)]


def test_queues_that_fit() -> None:
    tree = {
        "root": {"capability": {"cpu": "100"}, "deserved": {"cpu": "50"}},
        "a": {"capability": {"cpu": "80"}, "deserved": {"cpu": "30"}, "guarantee": {"resource": {"cpu": "20"}}},
        "b": {"parent": "a", "capability": {"cpu": "80"}, "deserved": {"cpu": "20"}, "guarantee": {"resource": {"cpu": "20"}}},
        "c": {"parent": "a", "deserved": {"cpu": "10", "memory": "1Gi"}, "capability": {"memory": "2Gi"}},
    }
    assert [faults(name, **tree) for name in tree] == [[]] * 4


@pytest.mark.parametrize(
    ("queues", "path", "message"),
    [
        ({"q": {"parent": "x"}}, "spec.parent", "failed to get parent queue of queue q: there is no queue 'x'"),
        ({"q": {"parent": "q"}}, "spec.parent", "queue q cannot use itself as parent"),
        ({"q": {"parent": "a"}, "a": {"parent": "q"}}, "spec.parent", "queue q stands above itself: q → a → q"),
        (
            {"q": {"parent": "a", "capability": {"cpu": 5}}, "a": {"parent": "b"}, "b": {"capability": {"cpu": "4500m"}}},
            "spec.capability.cpu",
            "capability of cpu (5) exceeds that of queue b above it (4500m)",
        ),
        (
            {"q": {"capability": {"cpu": 5}}, "a": {"parent": "q"}, "b": {"parent": "a", "capability": {"cpu": 6}}},
            "",
            "",
        ),
        (
            {"q": {"capability": {"cpu": 5}}, "a": {"parent": "q", "capability": {"cpu": 6}}},
            "spec.capability",
            "queue a below it: capability of cpu (6) exceeds that of queue q above it (5)",
        ),
        (
            {
                "q": {"parent": "a", "deserved": {"cpu": 3}},
                "b": {"parent": "a", "deserved": {"cpu": 2}},
                "a": {"deserved": {"cpu": 4}},
            },
            "spec.deserved.cpu",
            "deserved of cpu of the queues below a (5) exceeds its own (4)",
        ),
        (
            {"q": {"guarantee": {"resource": {"x/y": 1}}}, "a": {"parent": "q", "guarantee": {"resource": {"x/y": 2}}}},
            "spec.guarantee[x/y]",
            "guarantee of x/y of the queues below q (2) exceeds its own (1)",
        ),
        (
            {"q": {"hierarchy": "root/sci"}, "a": {"hierarchy": "root/sci/dev"}},
            "metadata.annotations",
            "root/sci is not allowed to be in the sub path of root/sci/dev of queue a",
        ),
        (
            {"q": {"hierarchy": "root/sci/dev"}, "a": {"hierarchy": "root/sci"}},
            "metadata.annotations",
            "root/sci of queue a is not allowed to be in the sub path of root/sci/dev",
        ),
        ({"q": {"hierarchy": "root/sci"}, "a": {"hierarchy": "root/science"}}, "", ""),
    ],
)
def test_queues_that_do_not_fit(queues: dict[str, dict[str, Any]], path: str, message: str) -> None:
    assert faults("q", **queues) == ([(path, message)] if path else [])


def test_the_depth_of_queues_is_bounded() -> None:
    chain = {f"q{at}": {"parent": f"q{at - 1}"} if at else {} for at in range(QUEUE_DEPTH + 1)}
    assert faults(f"q{QUEUE_DEPTH - 1}", **chain) == []
    assert faults(f"q{QUEUE_DEPTH}", **chain) == [
        ("spec.parent", f"queue q{QUEUE_DEPTH} is more than {QUEUE_DEPTH} queues below the root")
    ]


@pytest.mark.parametrize(
    ("hierarchy", "weights", "message"),
    [
        ("", "", None),
        ("root/a", "1/2.5", None),
        ("root/a", "1", "volcano.sh/hierarchy must have the same length with volcano.sh/hierarchy-weights"),
        ("root/a", "1/x", "x in the 1/x is invalid number"),
        ("root/a", "1/inf", "inf in the 1/inf is invalid number"),
        ("root/a", "1/0", "0 in the 1/0 must be larger than 0"),
    ],
)
def test_annotations_of_hierarchy(hierarchy: str, weights: str, message: str | None) -> None:
    assert [fault.message for fault in annotation_faults(hierarchy, weights)] == ([] if message is None else [message])


def test_the_root_is_put_in_front() -> None:
    assert rooted("a/b", "2/3") == ("root/a/b", "1/2/3")
    assert rooted("root/b", "1/3") == ("root/b", "1/3")
    assert rooted("rooted/b", "1/3") == ("root/rooted/b", "1/1/3")
    assert rooted("", "") == ("", "")
