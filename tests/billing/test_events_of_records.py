"""The events that a record names are those that begin and end its use, at the moments of its beginning and its end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from bill_story import NOON, PRICES, Story
from job_programs import SECOND
from standing import written

from engine.billing import usage_segments
from engine.billing.usage_segments import Segment, segments
from engine.events.attempts import AttemptBound, AttemptRunning, AttemptTerminating
from engine.events.billing import UsageRecorded
from engine.events.jobs import JobPhaseChanged
from engine.history.billing import check_billing

DAY = 86_400


@pytest.fixture
def story() -> Story:
    """An attempt runs from noon on."""
    told = Story()
    told.prices({"prices": PRICES})
    told.start("j", 0, 0)
    told.run("j", 0, 0)
    return told


def last(story: Story) -> str:
    """Return the id of the last job event."""
    return [record.message.id for record in story.log.scan(["job-events"])][-1]


def test_a_late_end_before_the_deletion_request_is_what_ended_the_use(story: Story) -> None:
    begun = last(story)
    story.say("job-events", AttemptTerminating("main", 0, 1), "j", 100)
    requested = last(story)
    story.end("j", 0, 110, rank="watcher")
    first, second = story.records()
    assert (first.run.kind, first.events) == ("running", (begun, requested))
    assert (second.run.kind, second.events) == ("terminating", (requested, last(story)))
    story.late("j", 0, 50, recorded=200, rank="node", ended=NOON + 50 * SECOND)
    (record,) = story.records()
    assert (record.quantity, record.events) == (50, (begun, last(story)))
    assert list(check_billing(story.log)) == []


@pytest.mark.parametrize("closed", [False, True])
def test_a_source_of_higher_rank_that_says_the_same_end_corrects_nothing(story: Story, closed: bool) -> None:
    """So it is, too, with records of earlier builds, which named the request of the deletion as the end above."""
    story.end("j", 0, 100, rank="watcher")
    if closed:
        story.close("2026-03", 40 * DAY)
    story.late("j", 0, 100, recorded=41 * DAY, rank="node", ended=NOON + 100 * SECOND)
    story.wait(42 * DAY)
    assert [type(event.data) for event in written(story.log)] == [UsageRecorded]
    assert list(check_billing(story.log)) == []


def test_an_inferred_end_before_the_deletion_request_is_shown_as_inferred(story: Story) -> None:
    story.say("job-events", AttemptTerminating("main", 0, 1), "j", 100)
    story.end("j", 0, 50, recorded=110, rank="inferred", inferred=True)
    (record,) = story.records()
    assert (record.quantity, record.inferred) == (50, True)
    story.late("j", 0, 50, recorded=200, rank="node", ended=NOON + 50 * SECOND)
    (record,) = story.records()
    assert (record.quantity, record.inferred, record.events[1]) == (50, False, last(story))
    assert list(check_billing(story.log)) == []


@pytest.mark.parametrize("named", ["the request of the deletion", "the end"])
@pytest.mark.parametrize("closed", [False, True])
def test_earlier_records_without_the_inferred_mark_stay_valid(
    story: Story, closed: bool, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First they named the request of the deletion, with its own certainty, then the end, but with the certainty of the request."""
    story.say("job-events", AttemptTerminating("main", 0, 1), "j", 100)
    requested = last(story)

    def earlier(*given: Any) -> Iterator[Segment]:
        for segment in segments(*given):
            ended = requested if named.startswith("the request") and segment.kind == "running" else segment.ended
            yield segment._replace(ended=ended, inferred_end=False)

    with monkeypatch.context() as build:
        build.setattr(usage_segments, "segments", earlier)
        story.end("j", 0, 50, recorded=110, rank="inferred", inferred=True)
    if closed:
        story.close("2026-03", 40 * DAY)
    story.prices({"prices": PRICES}, {"prices": PRICES, "from": NOON + 99 * DAY * SECOND}, at=41 * DAY)
    story.wait(42 * DAY)
    (record,) = story.records()
    assert (record.quantity, record.inferred) == (50, False)
    assert list(check_billing(story.log)) == []


@pytest.mark.parametrize("kind", ["queued", "reserved"])
def test_waiting_has_no_node_and_earlier_records_with_one_stay_valid(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story()
    story.prices({"prices": PRICES, f"bill_{kind}": True})
    for job in ("earlier", "now"):
        with monkeypatch.context() as build:
            if job == "earlier":
                build.setattr(usage_segments, "WAITING", ())
            story.start(job, 0, 0)
            if kind == "reserved":
                story.say("job-events", JobPhaseChanged("Pending", "Privileged", reserved=NOON + DAY * SECOND), job, 0)
            story.run(job, 0, 50)
            story.end(job, 0, 60)
    story.late("earlier", 0, 60, started=NOON + 50 * SECOND)
    nodes = {"earlier": "n1", "now": None}
    for job, node in nodes.items():
        waited, ran = story.records(job)
        assert (waited.run.kind, waited.run.node, waited.run.revision) == (kind, node, 0)
        assert (ran.run.kind, ran.run.node, ran.run.revision) == ("running", "n1", 0)
    assert list(check_billing(story.log)) == []


def test_an_end_before_an_inferred_start_of_the_next_phase_is_inferred() -> None:
    """docs/billing.md: it is known, but records of earlier builds stay valid."""
    story = Story()
    story.prices({"prices": PRICES, "billable_from": "bound"})
    story.start("j", 0, 0)
    story.say("job-events", AttemptBound("main", 0, 1, node="n1"), "j", 0)
    story.say("job-events", AttemptRunning("main", 0, 1, inferred=True), "j", 100)
    story.end("j", 0, 110, rank="watcher")
    story.late("j", 0, 50, recorded=200, rank="node", ended=NOON + 50 * SECOND)
    (record,) = story.records()
    assert (record.quantity, record.inferred, record.events[1]) == (50, True, last(story))
    assert list(check_billing(story.log)) == []
