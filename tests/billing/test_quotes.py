"""A quote is what the next records add to the invoices, no more and no less."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from bill_story import NOON, PRICES, Story
from billing_shard import append, run, tick
from hypothesis import given, settings
from hypothesis import strategies as st
from job_programs import HOUR, SECOND, Program, half_hour_programs, programs
from standing import net, standing, written

from engine.billing.invoice import quotes
from engine.billing.records import Record, records_of
from engine.events import Event
from engine.events.jobs import JobForgotten
from engine.history.billing import Finding, quote


def recorded(events: Iterable[Event[Any]]) -> Iterator[Record]:
    for event in events:
        yield from records_of(event)


@settings(max_examples=40)
@given(st.one_of(programs(4, 20), half_hour_programs()))
def test_what_is_quoted_up_to_an_hour_mark_is_what_is_recorded_there(program: Program) -> None:
    log, processor = run(program)
    before, mark = net(standing(written(log))), (processor.position.now // HOUR + 1) * HOUR
    quoted = net(recorded(quote(log, mark)[0]))
    append(log, [tick(mark)])
    processor.run_until_quiet()
    after = net(standing(written(log)))
    assert {line: value for line, value in after.items() if before.get(line) != value} == quoted


def test_what_a_pending_review_corrects_is_quoted_no_second_time() -> None:
    """The hour that was recorded without a price is priced by the review; what was used since is quoted by the new book."""
    story = Story()
    story.start("j", 0, 0)
    story.run("j", 0, 0)
    story.wait(3610)
    story.prices({"prices": PRICES}, at=3620)
    quoted = [bill.document() for bill in quotes(quote(story.log, NOON + 4200 * SECOND)[0], {})]
    assert [bill["sum"] for bill in quoted] == [{"gpu_seconds": "600", "amount": "60"}]
    story.wait(3700)
    assert (story.seconds(), story.amount()) == (3600, 360)
    assert [bill.document() for bill in quotes(quote(story.log, NOON + 4200 * SECOND)[0], {})] == quoted


def test_a_job_that_was_forgotten_with_an_open_attempt_is_quoted_no_more() -> None:
    """Nothing of it will be on an invoice."""
    story = Story()
    story.start("j", 0, 0)
    story.run("j", 0, 0)
    assert len(quote(story.log, NOON + 100 * SECOND)[0]) == 1
    story.say("job-events", JobForgotten(finished=NOON), "j", 200)
    assert quote(story.log, NOON + 300 * SECOND) == ([], [])
    story.wait(3610)
    assert story.records() == []


def test_uncharged_use_is_named_before_and_after_billing_finds_it() -> None:
    story, late = Story(), 11 * 366 * 24 * 3600
    story.start("j", 0, 0)
    story.run("j", 0, 0)
    before = quote(story.log, NOON + late * SECOND)
    story.wait(late)
    assert quote(story.log, NOON + (late + 60) * SECOND) == before
    told = "cannot be charged: it began at 2026-03-02T12:00:00.000000Z and has not ended yet; more than ten years are not charged"
    assert before == ([], [Finding("j", "main[0] attempt 1", told)])
    assert quote(story.log, NOON + late * SECOND, tenant="other") == ([], [])
