"""Labels, nodes and taints as demanded."""

import pytest

from engine.events.pod_shape import LabelSelector, NodeTerm, Requirement, Toleration, pairs
from engine.scheduling.cluster.entities import Node, Taint
from engine.scheduling.cluster.nodes import NodeTable
from engine.scheduling.cluster.selectors import node_terms, requirement_holds, selects, tolerated


@pytest.mark.parametrize(
    ("operator", "values", "value", "holds"),
    [
        ("In", ("a", "b"), "a", True),
        ("In", ("a",), None, False),
        ("NotIn", ("a",), "a", False),
        ("NotIn", ("a",), None, True),
        ("Exists", (), "", True),
        ("Exists", (), None, False),
        ("DoesNotExist", (), None, True),
        ("Gt", ("5",), "6", True),
        ("Gt", ("5",), "5", False),
        ("Lt", ("5",), "4", True),
        ("Gt", ("5",), "many", False),
        ("Gt", ("5", "6"), "7", False),
        ("Lt", ("5",), None, False),
        ("Gt", ("5",), "9" * 400, False),
    ],
)
def test_requirements(operator, values, value, holds):
    assert requirement_holds(Requirement("key", operator, values), value) is holds


def test_a_selector_needs_all_of_its_conditions():
    selector = LabelSelector(pairs({"app": "db"}), (Requirement("tier", "Exists"),))
    assert selects(selector, {"app": "db", "tier": "1"})
    assert not selects(selector, {"app": "db"})
    assert selects(LabelSelector(), {})


def test_terms_are_alternatives_and_an_empty_one_matches_nothing():
    table = NodeTable()
    table.lay_out([Node("b", labels={"disk": "ssd"}), Node("a"), Node("c", labels={"disk": "hdd"})])
    ssd, name = NodeTerm((Requirement("disk", "In", ("ssd",)),)), NodeTerm(fields=(Requirement("metadata.name", "In", ("c",)),))
    assert [node.name for node in table.nodes] == ["a", "b", "c"]
    assert node_terms(table, [ssd, name]).tolist() == [False, True, True]
    assert node_terms(table, [NodeTerm()]).tolist() == [False, False, False]


@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        (Toleration("gpu", "Exists"), True),
        (Toleration("gpu", "Equal", "a"), True),
        (Toleration("gpu", "Equal", "b"), False),
        (Toleration("gpu", "Exists", effect="NoExecute"), False),
        (Toleration("", "Exists"), True),
        (Toleration("", "Equal", "a"), False),
        (Toleration("other", "Exists"), False),
    ],
)
def test_tolerations(toleration, tolerates):
    assert tolerated(Taint("gpu", "a"), [toleration]) is tolerates
