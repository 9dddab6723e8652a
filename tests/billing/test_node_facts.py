"""What a node is since when, from observations in any order and as often as they come."""

from __future__ import annotations

import pytest
from bill_story import Story
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.billing import nodes
from engine.billing.persist import account_of, node_record
from engine.billing.stage import BillingStage
from engine.billing.state import State
from engine.billing.usage_segments import node_at
from engine.events import Event
from engine.events.inputs import NodeObserved
from engine.history.reading import cluster_facts

STAGE = BillingStage()
PLACE = ("c1", "n")
KINDS = ("small", "large", "huge")

Heard = list[tuple[int, str]]
"""Of which moment, and what the node is then said to be."""
heard = st.lists(st.tuples(st.integers(1, 12), st.sampled_from(KINDS)), max_size=24)


def hear(state: State, said: Heard, first: int = 0) -> None:
    for number, (since, kind) in enumerate(said, first):
        data = NodeObserved("n", type=kind)
        STAGE.absorb(state, Event(f"fact-{number}", "test", data.TYPE, "n", since, 100, 0, "", "", "c1", data), number)


def held(state: State) -> bytes | None:
    return STAGE.dump(state, node_record(PLACE))


@given(heard)
def test_the_last_fact_news_of_its_moment_holds_until_the_next_moment(said: Heard) -> None:
    state = STAGE.initial()
    hear(state, said)
    plain: dict[int, list[str]] = {}
    for since, kind in said:
        if kind not in plain.setdefault(since, []):
            plain[since].append(kind)
    for moment in range(min(plain, default=1), 14):
        fact = node_at(state.nodes[PLACE].facts if plain else (), moment)
        right = plain[max(since for since in plain if since <= moment)][-1] if plain else None
        assert (None if fact is None else fact.node_type) == right


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "_FACTS", 3)
    monkeypatch.setattr(nodes, "_REPEATS", 2)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(said=heard, first=st.integers(0, 23))
def test_what_its_record_holds_is_not_applied_to_a_node_again(few: None, said: Heard, first: int) -> None:
    """A recovery hears the end of it again, on top of a record that holds all of it."""
    state = STAGE.initial()
    hear(state, said)
    before = held(state)
    hear(state, said[first:], first)
    assert held(state) == before


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(heard)
def test_a_node_that_has_changed_often_is_only_what_it_was_said_to_be(few: None, said: Heard) -> None:
    state = STAGE.initial()
    hear(state, said)
    facts = state.nodes[PLACE].facts if said else []
    assert {(fact.since, fact.node_type) for fact in facts} <= set(said)
    assert [fact.since for fact in facts] == sorted(fact.since for fact in facts)
    assert len(facts) <= 3


def test_a_late_fact_counts_however_often_the_older_one_was_repeated(few: None) -> None:
    state = STAGE.initial()
    hear(state, [(1, "small"), *((moment, "small") for moment in range(4, 12)), (3, "large")])
    assert [(fact.since, fact.node_type) for fact in state.nodes[PLACE].facts] == [(1, "small"), (3, "large"), (10, "small")]


def test_what_was_said_again_holds_on_behind_what_is_heard_late() -> None:
    """A node was small before and after: that it was large in between is heard last."""
    state = STAGE.initial()
    hear(state, [(1, "small"), (5, "small"), (9, "small"), (3, "large")])
    assert [(fact.since, fact.node_type) for fact in state.nodes[PLACE].facts] == [(1, "small"), (3, "large"), (5, "small")]
    assert state.nodes[PLACE].repeats == [9]


def test_a_job_beyond_the_bound_of_unknown_nodes_is_reviewed_for_new_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for a repeat, and not for what a recovery reads again."""
    monkeypatch.setattr(nodes, "_UNKNOWN", 1)
    story = Story()
    for index in range(2):
        story.start("j", index, 0)
        story.run("j", index, 0, node=f"m{index}")
        story.end("j", index, 10)
    for second, reviews in ((20, True), (200, False), (400, False)):
        story.say("cluster", NodeObserved("n", type="small"), "n", second)
        state = story.shard.state
        assert (account_of(state, "j").job.review >= 0) is reviews
        story.wait(second + 100)
    fact = next(event for event in cluster_facts(story.log) if event.subject == "n")
    STAGE.absorb(story.shard.state, fact, 0)
    assert account_of(story.shard.state, "j").job.review < 0
