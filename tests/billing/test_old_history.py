"""History of months ago is billed as it was told, whatever the clock shows meanwhile: it is not recorded up to now first."""

from __future__ import annotations

from decimal import Decimal

from bill_story import NOON, PRICES, Story
from billing_shard import messages
from hypothesis import given
from hypothesis import strategies as st
from job_programs import SECOND

from engine.billing.stage import BillingStage
from engine.events.billing import UsageRecorded, UsageWithdrawn
from engine.processor.processor import Processor

HOUR = 3600
AGO = 60 * 24 * HOUR
LENGTH = 5000
MONTHS = 3


def told(*, since: int, now: int) -> Story:
    """An attempt that ran for a while, as told at one moment, behind a price book of that moment."""
    story = Story()
    story.prices({"prices": PRICES, "from": 0}, at=now)
    story.start("old", 0, since, recorded=now)
    story.run("old", 0, since, recorded=now)
    story.end("old", 0, since + LENGTH, recorded=now)
    return story


def types(story: Story) -> list[str]:
    return [message.type for message in messages(story.log)]


def test_use_that_ended_months_ago_is_recorded_once_and_never_withdrawn():
    story = told(since=0, now=AGO)
    assert types(story) == [UsageRecorded.TYPE]
    assert (story.seconds(), story.amount()) == (LENGTH, Decimal(LENGTH) / 10)
    assert {record.run.revision for record in story.records()} == {0}
    story.wait(AGO + 2 * HOUR)
    assert types(story) == [UsageRecorded.TYPE]


def test_what_began_months_ago_and_is_open_is_recorded_at_the_next_mark():
    story = Story()
    now = AGO + 600
    story.prices({"prices": PRICES, "from": 0}, at=now)
    story.start("old", 0, 0, recorded=now)
    story.run("old", 0, 0, recorded=now)
    story.shard.run_until_quiet()
    assert story.records() == []
    story.wait(AGO + HOUR + 1)
    assert story.seconds() == AGO + HOUR
    # Its end is heard after all: the same as if it had been heard at once.
    story.end("old", 0, LENGTH, recorded=AGO + HOUR + 2)
    assert (story.seconds(), story.amount()) == (LENGTH, Decimal(LENGTH) / 10)
    assert types(story).count(UsageWithdrawn.TYPE) == MONTHS


def test_use_read_minutes_late_is_recorded_at_the_marks_it_has_passed():
    story = Story()
    story.start("late", 0, 3000, recorded=HOUR + 300)
    story.run("late", 0, 3000, recorded=HOUR + 300)
    story.shard.run_until_quiet()
    assert story.seconds() == HOUR - 3000


def test_marks_that_were_missed_are_recorded_at_once():
    """Nothing came for two months, as in a log that nobody ran: what is open has an event for each month, not for each hour."""
    story = Story()
    story.start("one", 0, 0)
    story.run("one", 0, 0)
    story.wait(AGO + 600)
    assert types(story) == [UsageRecorded.TYPE] * MONTHS
    assert story.seconds() == AGO
    assert len(story.records()) == AGO // HOUR


class Live:
    """A shard that goes by a clock, and is told of an attempt of months ago by a stage that is still at work."""

    def __init__(self) -> None:
        self.story = Story()
        self.now = NOON + AGO * SECOND
        self.story.shard = Processor(self.story.log, BillingStage(), clock=lambda: self.now)
        self.story.shard.open()
        self.story.start("old", 0, 0)
        self.story.run("old", 0, 0)

    def rest(self, seconds: float) -> int:
        """Let it look as soon as it wants to, at most for some seconds; return how often it looked."""
        end, looks = self.now + round(seconds * SECOND), 0
        while self.now < end:
            self.now = min(end, self.now + round(self.story.shard.rest(seconds) * SECOND))
            self.story.shard.step()
            looks += 1
        return looks


def test_an_idle_shard_does_not_record_up_to_now_what_it_is_still_told_of():
    live = Live()
    assert live.rest(1.9) == 1
    assert types(live.story) == []
    live.story.end("old", 0, 3000)
    live.rest(10)
    assert types(live.story) == [UsageRecorded.TYPE]
    assert live.story.seconds() == 3000


def test_an_idle_shard_records_up_to_now_what_it_is_told_no_more_of():
    live = Live()
    live.rest(2)
    assert types(live.story) == [UsageRecorded.TYPE] * MONTHS
    assert live.story.seconds() == AGO
    live.rest(2 * HOUR)
    assert live.story.seconds() == AGO + 2 * HOUR


@given(late=st.integers(0, 3 * HOUR), length=st.integers(0, 5 * HOUR), more=st.integers(1, 3 * HOUR))
def test_how_late_it_is_heard_changes_nothing_once_a_mark_has_passed(late: int, length: int, more: int) -> None:
    """Of an open attempt stands what lies before the last hour mark, as of one that is heard at once."""
    story = Story()
    story.start("one", 0, 1000, recorded=1000 + late)
    story.run("one", 0, 1000, recorded=1000 + late)
    now = 1000 + late + HOUR + length
    story.wait(now)
    assert story.seconds() == max(now - now % HOUR - 1000, 0)
    story.end("one", 0, 1000 + more, recorded=now + more)
    assert story.seconds() == more
