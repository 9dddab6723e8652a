"""The bill of a job that the lifecycle stage has forgotten: a late price book prices it, nothing else changes it."""

from __future__ import annotations

import pytest
from bill_story import NOON, PRICES, Story
from billing_shard import opened
from job_programs import SECOND
from standing import written

from engine.billing import forgetting
from engine.billing.state import State
from engine.events.billing import UsageReviewed
from engine.events.inputs import NodeDeleted, NodeObserved
from engine.events.jobs import JobForgotten, JobPhaseChanged, JobRevised
from engine.history.billing import check_billing

DAY = 86_400


def finished(story, job, at=0.0, node="n1"):
    """A job runs for 100 s."""
    story.start(job, 0, at)
    story.run(job, 0, at, node=node)
    story.end(job, 0, at + 100)
    story.say("job-events", JobPhaseChanged("Completed", "Running"), job, at + 100)


def forgotten(story, job, at=30 * DAY):
    story.say("job-events", JobForgotten(finished=NOON + 100 * SECOND), job, at)


def test_a_late_book_prices_jobs_that_were_forgotten_before_it():
    story = Story()
    finished(story, "j")
    forgotten(story, "j")
    story.prices({"prices": PRICES}, at=40 * DAY)
    story.wait(41 * DAY)
    assert story.amount() == 10
    assert list(check_billing(story.log)) == []
    assert list(story.shard.state.ids()) == [], "its bill is final"


@pytest.mark.parametrize("recovers", [False, True])
def test_a_part_that_has_no_price_keeps_its_job_for_the_next_book(recovers):
    story = Story()
    finished(story, "j")
    forgotten(story, "j")
    middle = {"version": "v1", "from": NOON + 60 * SECOND, "prices": PRICES}
    for at, versions in ((40, [middle]), (50, [middle, {"version": "v0", "from": NOON - DAY * SECOND, "prices": PRICES}])):
        if recovers:
            story.shard = opened(story.log, every=1)
        story.prices(*versions, at=at * DAY)
        story.wait((at + 1) * DAY)
        assert list(check_billing(story.log)) == []
        assert story.amount() == (4 if at == 40 else 10)


def test_forgotten_jobs_without_a_price_are_bounded_and_the_oldest_go(monkeypatch):
    monkeypatch.setattr(forgetting, "_UNPRICED", 2)
    story = Story()
    for place, job in enumerate("dacb"):
        finished(story, job, place)
        forgotten(story, job, 30 * DAY + place)
    story.wait(31 * DAY)
    assert [event.subject for event in written(story.log) if isinstance(event.data, UsageReviewed)] == ["d", "a"]
    assert sorted(story.shard.state.ids()) == ["b", "c"]
    story.shard = opened(story.log)
    assert [job for _, job in story.shard.state.unsettled] == ["c", "b"]
    story.prices({"prices": PRICES}, at=40 * DAY)
    story.wait(41 * DAY)
    assert {job: story.amount(job) for job in "abcd"} == {"a": 0, "b": 10, "c": 10, "d": 0}
    assert list(check_billing(story.log)) == []


def test_nothing_is_kept_of_forgotten_jobs_that_a_book_has_priced():
    story = Story()
    for job in ("first", "second"):
        finished(story, job)
        forgotten(story, job)
    assert [job for _, job in story.shard.state.unsettled] == ["first", "second"]
    story.prices({"prices": PRICES}, at=40 * DAY)
    story.wait(41 * DAY)
    left = {name for name in State.__slots__ if "first" in repr(getattr(story.shard.state, name))}
    assert left <= {"recent"}


def test_a_node_first_heard_of_when_its_job_is_forgotten_changes_no_bill():
    story = Story()
    story.prices({"prices": {"gpu_seconds": {"*": "0.1", "large": "1"}}})
    finished(story, "j")
    forgotten(story, "j")
    story.say("cluster", NodeObserved("n1", type="large"), "n1", 31 * DAY)
    story.wait(32 * DAY)
    assert story.amount() == 10
    assert list(check_billing(story.log)) == []


def test_a_job_forgotten_before_a_node_review_keeps_its_bill():
    story = Story()
    story.prices({"prices": {"gpu_seconds": {"*": "0.1", "large": "1"}}})
    story.say("cluster", NodeObserved("n1", type="small"), "n1", 0)
    finished(story, "j", 10)
    story.say("cluster", NodeObserved("n1", type="large"), "n1", 5, 30 * DAY - 1)
    forgotten(story, "j")
    story.wait(31 * DAY)
    assert story.amount() == 10
    assert list(check_billing(story.log)) == []


def test_a_node_that_is_gone_for_long_still_prices_the_jobs_of_the_state():
    story = Story()
    story.prices({"prices": {"gpu_seconds": {"*": "0.1", "large": "1"}}})
    story.say("cluster", NodeObserved("n1", type="large"), "n1", 0)
    finished(story, "j")
    for node, day in (("n1", 1), ("n2", 402)):
        story.say("cluster", NodeObserved(node), node, day * DAY)
        story.say("cluster", NodeDeleted(node), node, day * DAY)
    story.say("job-events", JobRevised(tenant="other"), "j", 403 * DAY)
    story.wait(404 * DAY)
    assert story.amount() == 100
    assert list(check_billing(story.log)) == []
    forgotten(story, "j", 405 * DAY)
    story.say("cluster", NodeDeleted("clock"), "clock", 406 * DAY)
    assert [name for _, name in story.shard.state.nodes] == ["n2", "clock"]
    assert list(check_billing(story.log)) == []
