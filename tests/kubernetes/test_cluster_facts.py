"""Facts of clusters arrive late, twice and in any order: the newest one about a thing stands."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.events import Event
from engine.events.inputs import NodeDeleted, NodeObserved, ObjectApplied, ObjectDeleted
from engine.kubernetes.observation import cluster_facts
from engine.kubernetes.observation.cluster_facts import KEPT, LIVES, ClusterFacts, Deletion

NODE_N = ("c", "Node", "n")


def fact(data, cluster="c", at=0):
    return Event("f", "test", data.TYPE, cluster, at, at, 0, "", "", cluster, data)


def told(*events):
    facts = ClusterFacts()
    changed = [facts.absorb(event) for event in events]
    return facts, changed


@st.composite
def lives(draw):
    """The facts of one thing as they became true; a deletion may have the version of the last change."""
    node = draw(st.booleans())
    events, version = [], 0
    for _ in range(draw(st.integers(1, 3))):
        for _ in range(draw(st.integers(1, 3))):
            version += 1
            name = str(version)
            events.append(NodeObserved("n", name, gpu=version) if node else ObjectApplied("Grant", "n", {"v": version}, name))
        if draw(st.booleans()):
            version += draw(st.integers(0, 1))
            events.append(NodeDeleted("n", str(version)) if node else ObjectDeleted("Grant", "n", str(version)))
    return [fact(data) for data in events]


@given(lives(), st.data())
def test_the_newest_fact_stands_in_whatever_order_they_arrive(events, data):
    shuffled = data.draw(st.permutations(events))
    twice = [*shuffled, *data.draw(st.lists(st.sampled_from(events)))]
    last = events[-1].data
    facts, _ = told(*twice)
    (thing,) = set(facts.things())
    assert facts.known(thing) == (last if isinstance(last, NodeObserved | ObjectApplied) else Deletion(last.version, 0))
    assert len(facts.nodes) + len(facts.objects) + len(facts.deleted) == 1


@given(lives(), lives())
def test_versions_are_compared_within_one_life(first, second):
    """A cluster that is restored, or made anew under its name, begins to count again."""
    facts, _ = told(*of_life("u1", first), *of_life("u2", second))
    last = second[-1].data
    known = facts.known(("c", "Node" if isinstance(last, NodeObserved | NodeDeleted) else "Grant", "n"))
    if isinstance(last, NodeObserved | ObjectApplied):
        assert known == replace(last, uid="u2")
    elif known is not None:
        assert isinstance(known, Deletion) or known.uid == "u1"


def of_life(uid, events):
    return [replace(event, data=replace(event.data, uid=uid)) for event in events]


@st.composite
def successive_lives(draw, restored):
    """The facts of each life of a node, observations before a deletion; versions count on, or begin anew."""
    told, version = [], 0
    for life in range(draw(st.integers(1, LIVES + 1))):
        version = draw(st.integers(0, 9)) if restored else version
        facts = [NodeObserved("n", str(version + step), uid=f"u{life}") for step in range(1, draw(st.integers(2, 4)))]
        version += len(facts) + 1
        if draw(st.booleans()):
            facts.append(NodeDeleted("n", str(version), f"u{life}"))
        told.append([fact(data) for data in facts])
    return told


@given(st.data(), st.booleans())
def test_of_several_lives_the_last_stands_whatever_is_heard_late(data, restored):
    """The model: lives follow in the order in which they are first heard of, and what is said of the last one alone holds.

    In a cluster that was restored, what is heard late was heard before: versions do not tell it from what is new.
    """
    heard: list[Event] = []
    late: list[Event] = []
    mine: list[Event] = []
    for life in data.draw(successive_lives(restored)):
        known = data.draw(st.lists(st.sampled_from(life)))
        again = data.draw(st.lists(st.sampled_from(late))) if late else []
        heard += [life[0], *data.draw(st.permutations([*known, *again]))]
        mine = [event for event in heard if event.data.uid == life[0].data.uid]
        late += mine if restored else life
    assert told(*heard)[0].known(NODE_N) == told(*mine)[0].known(NODE_N)


@given(successive_lives(restored=False), st.data())
def test_the_life_that_goes_on_to_be_observed_holds_over_earlier_ones(lives, data):
    """Also where a former one was first heard of behind it, as from a dump of yesterday."""
    *former, last = lives
    before = [event for life in [*former, [event for event in last if isinstance(event.data, NodeObserved)]] for event in life]
    newest = NodeObserved("n", "1000", uid=last[0].data.uid)
    facts, _ = told(*data.draw(st.permutations(before)), fact(newest), *data.draw(st.lists(st.sampled_from(before))))
    assert facts.known(NODE_N) == newest


def test_a_deletion_of_an_earlier_life_deletes_no_later_one():
    facts, changed = told(
        fact(NodeObserved("n", "9", uid="u2")), *(fact(NodeDeleted("n", *of)) for of in (("8", "u1"), ("9", "u1"), ("10", "u0")))
    )
    assert changed[1:] == [[NODE_N], [], [NODE_N]]  # that another life is over
    assert set(facts.nodes) == {("c", "n")}


def test_of_a_node_that_is_gone_stays_what_pods_are_judged_and_billed_by():
    facts, _ = told(
        fact(NodeObserved("n", "1", ready="Unknown", unreachable=True, type="p5", gpu_model="H100")), fact(NodeDeleted("n", "2"))
    )
    assert facts.node("c", "n") == Deletion("2", 0, None, "Unknown", True, "p5", "H100")
    facts.absorb(fact(NodeDeleted("n", "3")))
    assert facts.node("c", "n") == Deletion("3", 0, None, "Unknown", True, "p5", "H100")


def test_what_changes_nothing_is_told_apart():
    applied = ObjectApplied("Queue", "q", {"weight": 2}, "9")
    _, changed = told(
        fact(applied),
        fact(ObjectApplied("Queue", "q", {"weight": 1}, "8")),
        fact(ObjectDeleted("Queue", "q", "8")),
        fact(ObjectDeleted("Queue", "q", "9")),
        fact(ObjectDeleted("Queue", "q", "9")),
        fact(applied),
        fact(ObjectApplied("Queue", "q", {}, "10")),
    )
    assert [bool(one) for one in changed] == [True, False, False, True, False, False, True]


def test_kinds_and_clusters_have_names_of_their_own():
    facts, _ = told(
        fact(NodeObserved("n", "1")),
        fact(NodeObserved("n", "1"), cluster="d"),
        fact(ObjectApplied("Queue", "n", version="1")),
        fact(NodeDeleted("n", "2")),
    )
    assert set(facts.things()) == {NODE_N, ("d", "Node", "n"), ("c", "Queue", "n")}
    assert facts.deleted == {NODE_N: Deletion("2", 0)}


def test_a_deletion_without_a_version_has_that_of_what_was_known():
    facts, _ = told(
        fact(NodeObserved("n", "5")), fact(NodeDeleted("n")), fact(NodeObserved("n", "5")), fact(NodeObserved("n", "4"))
    )
    assert facts.deleted == {NODE_N: Deletion("5", 0)}
    assert facts.absorb(fact(NodeObserved("n", "6"))) == [NODE_N]
    assert facts.deleted == {}


@pytest.mark.parametrize("deleted", [NodeDeleted("n"), ObjectDeleted("Grant", "n")])
def test_without_any_version_the_order_of_arrival_decides(deleted):
    given = NodeObserved("n") if isinstance(deleted, NodeDeleted) else ObjectApplied("Grant", "n")
    facts, changed = told(fact(given), fact(deleted), fact(given))
    assert all(changed)
    assert len(list(facts.things())) == 1
    facts, _ = told(*(fact(replace(given, uid=uid)) for uid in ("u1", "u2")), fact(replace(deleted, uid="u2")))
    assert facts == ClusterFacts()


def test_of_what_is_gone_the_oldest_is_forgotten_first(monkeypatch):
    monkeypatch.setattr(cluster_facts, "DELETIONS", 3)
    facts, changed = told(*(fact(NodeDeleted(f"n{at}", "1"), at=at) for at in (5, 1, 3, 2, 4, 6)))
    assert sorted(name for _, _, name in facts.deleted) == ["n4", "n5", "n6"]
    assert [sorted(name for _, _, name in one) for one in changed[3:]] == [["n1", "n2"], ["n2", "n4"], ["n3", "n6"]]


def test_what_is_gone_is_forgotten_after_a_month():
    facts, changed = told(*(fact(NodeDeleted(f"n{at}", "1"), at=at) for at in (1, 2, KEPT + 1, KEPT + 2)))
    assert sorted(name for _, _, name in facts.deleted) == ["n2", f"n{KEPT + 1}", f"n{KEPT + 2}"]
    assert ("c", "Node", "n1") in changed[-1]


def test_former_lives_are_few_for_each_thing_and_in_all(monkeypatch):
    monkeypatch.setattr(cluster_facts, "DELETIONS", 3)
    facts = ClusterFacts()
    for name in "abcde":
        changed = [facts.absorb(fact(NodeObserved(name, "1", uid=f"u{life}"), at=ord(name))) for life in range(7)]
    assert [name for _, _, name in facts.former] == ["c", "d", "e"]
    assert list(facts.former["c", "Node", "e"].lives) == ["u2", "u3", "u4", "u5"]
    assert changed[1] == [("c", "Node", "e"), ("c", "Node", "b")]
    facts.absorb(fact(NodeDeleted("x", "1"), at=ord("d") + KEPT))
    assert [name for _, _, name in facts.former] == ["d", "e"]
    assert len(facts.nodes) == 5
    assert facts.known(("c", "Node", "d")).uid == "u6"


def test_of_what_is_forgotten_the_former_lives_are():
    facts, _ = told(fact(NodeDeleted("n", "5", "u2")), fact(NodeDeleted("n", "3", "u1"), at=9))
    assert set(facts.former) == {NODE_N}
    assert NODE_N in facts.absorb(fact(NodeDeleted("x", "1"), at=KEPT + 1))
    assert facts.former == {}


@pytest.mark.parametrize("gone", [False, True])
def test_a_life_of_which_only_the_end_is_heard_is_over(gone):
    """Its observations come later still."""
    facts, _ = told(fact(NodeObserved("n", "4", uid="u2")), *([fact(NodeDeleted("n", "5", "u2"))] if gone else []))
    known = facts.known(NODE_N)
    assert facts.absorb(fact(NodeDeleted("n", "3", "u1"))) == [NODE_N]
    assert facts.absorb(fact(NodeObserved("n", "2", uid="u1"))) == []
    assert facts.known(NODE_N) == known


def test_after_a_restore_a_first_late_observation_holds_until_the_next():
    """Versions do not tell it from a life that goes on."""
    facts, _ = told(*(fact(NodeObserved("n", version, uid=uid)) for uid, version in (("u1", "100"), ("u2", "50"), ("u1", "101"))))
    assert facts.nodes["c", "n"].uid == "u1"
    for uid, version in (("u2", "51"), ("u1", "101"), ("u2", "50")):
        facts.absorb(fact(NodeObserved("n", version, uid=uid)))
        assert facts.nodes["c", "n"] == NodeObserved("n", "51", uid="u2")


def test_a_deletion_of_a_former_life_is_not_that_of_the_last():
    """Also where its versions are the higher ones, as after a restore."""
    first, second = NodeDeleted("n", "101", "u1"), NodeDeleted("n", "51", "u2")
    facts, _ = told(fact(first), fact(NodeObserved("n", "50", uid="u2")), fact(second), fact(first))
    assert facts.deleted == {NODE_N: Deletion("51", 0, "u2")}


def test_the_newest_deletion_of_two_lives_stands():
    facts, _ = told(fact(NodeDeleted("n", "3", "u1")), fact(NodeDeleted("n", "5", "u2")))
    assert facts.deleted == {NODE_N: Deletion("5", 0, "u2")}
    for uid in ("u1", "u2"):
        assert facts.absorb(fact(NodeObserved("n", "4", uid=uid))) == []


def test_a_thing_that_comes_and_goes_takes_no_more_than_one():
    facts = ClusterFacts()
    for version in range(1_000):
        facts.absorb(fact(NodeObserved("n", str(2 * version)), at=version))
        facts.absorb(fact(NodeDeleted("n", str(2 * version + 1)), at=version))
    assert len(facts.deleted) == 1
    assert len(facts.oldest) < 100
