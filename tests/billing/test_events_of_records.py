"""The events that a record names are those that begin and end its use, at the moments of its beginning and its end."""

from __future__ import annotations

import pytest
from bill_story import NOON, PRICES, Story
from job_programs import SECOND
from standing import written

from engine.events.attempts import AttemptTerminating
from engine.events.billing import UsageRecorded
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


def test_a_late_end_before_the_request_of_the_deletion_is_what_ended_the_use(story: Story) -> None:
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
