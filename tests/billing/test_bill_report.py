"""The bill as a page of HTML: what a reader must not be led to believe."""

from __future__ import annotations

import re

import pytest
from bill_story import NOON, PRICES, Story
from job_programs import SECOND
from standing import written

from engine.billing.report import report
from engine.events.billing import UsageRecorded
from engine.events.inputs import NodeObserved
from statemachines.spec import Requests

DAY = 86_400


def page(story):
    runs = [event for event in written(story.log) if isinstance(event.data, UsageRecorded)]
    return report(runs, "Bill", story.shard.state.book.names)


def used_on(model, **version):
    """A book, and ten seconds of one GPU."""
    story = Story()
    story.prices(version)
    story.say("cluster", NodeObserved("n1", gpu_model=model), "n1", 0)
    story.start("j", 0, 0)
    story.run("j", 0, 0)
    story.end("j", 0, 10)
    return story


def test_use_without_a_price_is_named():
    prices = {"gpu_seconds": {"A100": "1"}}
    assert "Without a price, and in no amount here: 10 GPU-Seconds on a&lt;b." in page(used_on("a<b", prices=prices))
    assert "Without a price" not in page(used_on("A100", prices=prices))


def test_use_without_a_price_is_added_up_before_it_is_named():
    """The node's GPU model is learnt after March was closed: April takes back and charges the same CPU time, and has no more."""
    story = Story()
    story.prices({"prices": {"gpu_seconds": {"*": "0.1"}, "cpu_seconds": {"other": "1"}}})
    story.say("cluster", NodeObserved("n1", type="g5"), "n1", 0)
    story.start("j", 0, 0, requests=Requests(1_000, 0, 1))
    story.run("j", 0, 0)
    story.end("j", 0, 10)
    story.close("2026-03", 31 * DAY)
    story.say("cluster", NodeObserved("n1", type="g5", gpu_model="A10G"), "n1", 0, 31 * DAY + 1)
    story.wait(31 * DAY + 10)
    runs = [event for event in written(story.log) if isinstance(event.data, UsageRecorded)]
    march, april = ([event for event in runs if event.data.period == month] for month in ("2026-03", "2026-04"))
    assert [event.data.length for event in april] == [-10 * SECOND, 10 * SECOND]
    versions = story.shard.state.book.names
    assert "Without a price, and in no amount here: 10 vCPU-Seconds on g5." in report(march, "Bill", versions)
    assert "Without a price" not in report(april, "Bill", versions)


def test_days_before_those_in_the_chart_are_named():
    story = used_on("A100", prices=PRICES)
    assert "of earlier days" not in page(story)
    story.start("late", 0, 400 * DAY)
    story.run("late", 0, 400 * DAY)
    story.end("late", 0, 400 * DAY + 20)
    shown = page(story)
    assert "<p>The last 400 days; 1.00 EUR of earlier days are in the sums.</p>" in shown
    assert "<p>3.00 EUR in all, 0.00 EUR of it wasted;" in shown


@pytest.mark.parametrize(("currency", "shown"), [("JPY", "1 JPY"), ("EUR", "1.23 EUR"), ("BHD", "1.235 BHD")])
def test_amounts_have_the_decimals_of_their_currency(currency, shown):
    story = Story()
    story.prices({"prices": {"gpu_seconds": {"*": "0.12346"}}}, currency=currency)
    story.start("j", 0, 0)
    story.run("j", 0, 0)
    story.end("j", 0, 10)
    assert f"<p>{shown} in all" in page(story)
    assert f"<p class=axis>{shown}</p>" in page(story)


def test_a_narrow_window_shows_names_and_labels_in_full_size():
    """The chart is stretched to the window, so its labels are outside it."""
    story = used_on("A100", prices=PRICES)
    assert "<p class=axis><span>2026-03-02</span></p>" in page(story)
    story.start("late", 0, DAY)
    story.run("late", 0, DAY)
    story.end("late", 0, DAY + 20)
    shown = page(story)
    chart = shown[shown.index("<svg") : shown.index("</svg>")]
    assert "<title>2026-03-02: 1.00 EUR, 0.00 EUR wasted</title>" in chart
    assert "<text" not in chart
    assert "preserveAspectRatio=none" in chart
    assert "<p class=axis>2.00 EUR</p>" in shown
    assert "<p class=axis><span>2026-03-02</span><span>2026-03-03</span></p>" in shown
    assert '<meta name=viewport content="width=device-width">' in shown


def test_what_is_taken_back_has_no_bar_and_no_bar_leaves_the_chart():
    """On one day 5 EUR are taken back from a job that ended earlier than was known, and another wastes 1 EUR."""
    story = Story()
    story.prices({"prices": PRICES})
    story.start("j", 0, 0)
    story.run("j", 0, 0)
    story.start("k", 0, 0)
    story.run("k", 0, 0)
    story.end("k", 0, 10, phase="Failed", reason="AppFailed")
    story.end("j", 0, 100, rank="watcher")
    story.close("2026-03", 31 * DAY)
    story.late("j", 0, 31 * DAY + 1, rank="node", ended=NOON + 50 * SECOND)
    runs = [event for event in written(story.log) if isinstance(event.data, UsageRecorded)]
    shown = report((event for event in runs if event.subject == "k" or event.data.period == "2026-04"), "Bill", {})
    assert "<p>-4.00 EUR in all, 1.00 EUR of it wasted;" in shown
    assert not re.search(r"[=:]-", shown.partition("</style>")[2])
    heights = [float(height) for height in re.findall(r" height=([0-9.]+)", shown)]
    assert heights == [0, 135]


def test_days_are_said_to_be_those_of_utc_where_months_are_not():
    """In Tokyo April begins at 15:00 on the last day of March, which is the first bar of its page."""
    story = Story()
    story.prices({"prices": PRICES}, time_zone="Asia/Tokyo")
    began = 29 * DAY + 4 * 3_600
    story.start("j", 0, began)
    story.run("j", 0, began)
    story.end("j", 0, began + 10)
    (run,) = (event.data for event in written(story.log) if isinstance(event.data, UsageRecorded))
    assert run.period == "2026-04"
    shown = page(story)
    assert "<title>2026-03-31: 1.00 EUR" in shown
    assert "<h2>Cost per day (UTC)</h2>" in shown
