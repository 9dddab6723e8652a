"""The bill as a page of HTML: what a reader must not be led to believe."""

from __future__ import annotations

from bill_story import Story
from standing import written

from engine.billing.report import report
from engine.events.billing import UsageRecorded
from engine.events.inputs import NodeObserved


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
