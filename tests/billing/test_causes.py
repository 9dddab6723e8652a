"""A timer's correction names the fact that concerns what it corrects; an hour mark names the event that begins the use."""

from __future__ import annotations

import pytest
from bill_story import NOON, PRICES, Story
from billing_shard import opened
from job_programs import SECOND
from standing import written

from engine.billing.absorb import _FEW
from engine.events import Topic
from engine.events.attempts import AttemptChanged
from engine.events.billing import UsageRecorded, UsageReviewed, UsageWithdrawn
from engine.events.inputs import NodeObserved, ObjectApplied
from engine.events.jobs import JobRevised
from statemachines.spec import Requests

HOUR = 3600
BY_TYPE = {"gpu_seconds": {"*": "0.1", "large": "1"}}


def last(story: Story, topic: Topic) -> str:
    """Return the id of the last event of a topic."""
    return [record.message.id for record in story.log.scan([topic])][-1]


def causes(story: Story, since: int = 0) -> set[str]:
    """Return the causes of what a timer has written of uses, but for the first events."""
    uses = [event for event in written(story.log) if isinstance(event.data, UsageRecorded | UsageWithdrawn)]
    assert all(event.data.at_mark for event in uses[since:])
    return {event.causationid for event in uses[since:]}


def used(story: Story, attempts: int = 1) -> int:
    """Attempts of a job run for 100 s each; returns the number of what was written of them."""
    for index in range(attempts):
        story.start("j", index, 0)
        story.run("j", index, 0)
        story.end("j", index, 100)
    assert len(story.records()) == attempts
    return len(written(story.log))


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("attempts", [1, _FEW + 1])
@pytest.mark.parametrize("recovers", [False, True])
@pytest.mark.parametrize("node", [False, True])
def test_a_correction_for_a_price_book_names_the_book(closed: bool, attempts: int, recovers: bool, node: bool) -> None:
    """Though a first fact about the node asks for a review, too."""
    story = Story()
    before, at = used(story, attempts), 40 * 24 * HOUR
    if closed:
        story.close("2026-03", at)
    story.prices({"prices": PRICES}, at=at + 1)
    book = last(story, "cluster")
    if node:
        story.say("cluster", NodeObserved("n1"), "n1", at + 2)
    if recovers:
        story.shard = opened(story.log, every=1)
        story.say("cluster", NodeObserved("clock"), "clock", at + 2)
        story.shard = opened(story.log)
    story.wait(at + 300)
    assert story.amount() == 10 * attempts
    assert causes(story, before) == {book}


def test_a_correction_for_the_first_fact_about_a_node_names_the_fact() -> None:
    story = Story()
    story.prices({"prices": BY_TYPE})
    before = used(story)
    story.say("cluster", NodeObserved("n1", type="large"), "n1", 200)
    fact = last(story, "cluster")
    story.wait(300)
    assert (story.amount(), causes(story, before)) == (100, {fact})


def test_a_correction_for_a_later_fact_about_a_node_names_the_last_one() -> None:
    story = Story()
    story.prices({"prices": BY_TYPE})
    story.say("cluster", NodeObserved("n1", type="small"), "n1", -100)
    before = used(story)
    for place, kind in enumerate(("medium", "large")):
        story.say("cluster", NodeObserved("n1", type=kind), "n1", place - 50, recorded=200 + place)
    fact = last(story, "cluster")
    story.wait(300)
    assert (story.amount(), causes(story, before)) == (100, {fact})


def test_a_correction_of_many_attempts_for_a_revision_names_the_revision() -> None:
    story = Story()
    before = used(story, _FEW + 1)
    story.say("job-events", JobRevised(tenant="other", owner=True), "j", 200)
    revision = last(story, "job-events")
    story.wait(300)
    assert {record.run.tenant for record in story.records()} == {"other"}
    assert causes(story, before) == {revision}


def test_an_hour_mark_names_the_start_of_use_unless_a_review_would_correct() -> None:
    """Where it corrects what a review would correct, it names the cause of the review."""
    story = Story()
    story.start("j", 0, 0)
    story.run("j", 0, 0)
    begun = last(story, "job-events")
    story.wait(HOUR + 10)
    assert causes(story) == {begun}
    story.prices({"prices": PRICES}, at=2 * HOUR - 10)
    book = last(story, "cluster")
    story.say("cluster", NodeObserved("clock"), "clock", 2 * HOUR + 1)
    assert not any(isinstance(event.data, UsageReviewed) for event in written(story.log)), "the review is still to come"
    assert story.amount() == 720
    assert causes(story, 1) == {book}
    story.wait(3 * HOUR + 1)
    assert causes(story, 3) == {begun}


def reversed_by(story: Story) -> dict[str | None, tuple[str, str]]:
    """Return node → type and subject of the event that the reversal of what was used on it, and its replacement, name."""
    events = {record.message.id: record.message for record in story.log.scan(["cluster", "job-events"])}
    found: dict[str | None, set[tuple[str, str]]] = {}
    for event in written(story.log):
        if isinstance(event.data, UsageRecorded) and (event.data.reverses is not None or event.data.month is not None):
            cause = events[event.causationid]
            found.setdefault(event.data.node, set()).add((cause.type, cause.subject))
    return {node: only for node, (only,) in found.items()}


def on_two_nodes(story: Story) -> float:
    """Attempts of a job run on two nodes, and the month is closed; returns when."""
    for index, node in enumerate(("n1", "n2")):
        story.start("j", index, 0)
        story.run("j", index, 0, node=node)
        story.end("j", index, 100)
    at = 40 * 24 * HOUR
    story.close("2026-03", at)
    return at


@pytest.mark.parametrize("recovers", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_a_reversal_names_the_fact_about_its_own_node(known: bool, recovers: bool) -> None:
    story = Story()
    story.prices({"prices": BY_TYPE})
    if known:
        for node in ("n1", "n2"):
            story.say("cluster", NodeObserved(node, type="medium"), node, -1000)
    at = on_two_nodes(story)
    for place, (node, kind) in enumerate((("n1", "large"), ("n2", "small"))):
        story.say("cluster", NodeObserved(node, type=kind), node, -10 if known else at, recorded=at + place)
    if recovers:
        story.shard = opened(story.log, every=1)
        story.say("cluster", NodeObserved("clock"), "clock", at + 2)
        story.shard = opened(story.log)
    story.wait(at + 500)
    observed = NodeObserved.TYPE
    assert reversed_by(story) == {"n1": (observed, "n1"), "n2": (observed, "n2")}


@pytest.mark.parametrize("first", ["book", "fact"])
def test_a_reversal_for_a_price_book_names_no_fact_about_another_node(first: str) -> None:
    story = Story()
    at = on_two_nodes(story)
    for place in (0, 1):
        if (place == 0) == (first == "book"):
            story.prices({"prices": PRICES}, at=at + place)
        else:
            story.say("cluster", NodeObserved("n2", type="small"), "n2", at + place)
    story.wait(at + 500)
    assert reversed_by(story) == {"n1": (ObjectApplied.TYPE, "prices"), "n2": (NodeObserved.TYPE, "n2")}


def test_what_a_price_book_adds_names_the_book_and_no_fact_about_a_node() -> None:
    """Nothing was recorded of the time that the attempt waited: only the pending review tells the cause."""
    story = Story()
    story.start("j", 0, 0)
    story.run("j", 0, 50)
    story.end("j", 0, 100)
    before = len(written(story.log))
    story.prices({"prices": PRICES, "bill_queued": True}, at=200)
    book = last(story, "cluster")
    story.say("cluster", NodeObserved("n1"), "n1", 201)
    story.wait(600)
    assert causes(story, before) == {book}


def corrected(story: Story, since: int) -> dict[tuple[str, str], set[str]]:
    """Return kind and tenant → causes of what was recorded of uses, but for the first events."""
    found: dict[tuple[str, str], set[str]] = {}
    for event in written(story.log)[since:]:
        if isinstance(event.data, UsageRecorded):
            found.setdefault((event.data.kind, event.data.tenant), set()).add(event.causationid)
    return found


def test_use_added_by_a_book_before_a_corrected_use_names_the_book() -> None:
    story = Story()
    story.start("j", 0, 0)
    story.run("j", 0, 50)
    story.end("j", 0, 100)
    before = len(written(story.log))
    story.prices({"prices": PRICES, "bill_queued": True}, at=200)
    book = last(story, "cluster")
    story.say("cluster", NodeObserved("n1", type="small"), "n1", 201)
    fact = last(story, "cluster")
    story.wait(600)
    assert corrected(story, before) == {("queued", "team"): {book}, ("running", "team"): {fact}}


def test_use_of_other_terms_names_the_revision_and_earlier_use_the_book() -> None:
    """Both are corrected by one review of many attempts; a resize of the moment of the revision has parted them."""
    story = Story()
    for index in range(_FEW + 1):
        story.start("j", index, 0)
        story.run("j", index, 0)
        story.say("job-events", AttemptChanged("main", index, 1, requests=Requests(gpu=2)), "j", 50)
        story.end("j", index, 100)
    before = len(written(story.log))
    story.prices({"prices": PRICES}, at=200)
    book = last(story, "cluster")
    story.say("job-events", JobRevised(tenant="other"), "j", 50, recorded=201)
    revision = last(story, "job-events")
    story.wait(600)
    assert corrected(story, before) == {("running", "team"): {book}, ("running", "other"): {revision}}


def test_a_month_that_a_price_book_moves_names_the_book() -> None:
    """Its first version is not in force yet, so that the month of the use is all that differs."""
    story = Story()
    begin = 29 * 24 * HOUR + 11 * HOUR  # 31 March, 23:00: in Tokyo it is April
    story.start("j", 0, begin)
    story.run("j", 0, begin)
    story.end("j", 0, begin + 100)
    before = len(written(story.log))
    story.prices({"prices": PRICES, "from": NOON + 2 * begin * SECOND}, at=begin + 200, time_zone="Asia/Tokyo")
    book = last(story, "cluster")
    story.wait(begin + 600)
    assert {record.run.period for record in story.records()} == {"2026-04"}
    assert causes(story, before) == {book}
