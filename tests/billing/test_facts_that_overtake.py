"""A fact of the cluster that overtakes job events, as after an outage, bills no use that they deny."""

from __future__ import annotations

import pytest
from bill_story import NOON, PRICES, Story
from standing import written

from engine.events import Data
from engine.events.billing import UsageRecorded, UsageWithdrawn
from engine.events.inputs import NodeObserved, ObjectApplied
from engine.history.billing import check_billing

HOUR = 3600
FACTS: list[tuple[Data, str]] = [
    (NodeObserved("elsewhere"), "elsewhere"),
    (NodeObserved("n1"), "n1"),
    (ObjectApplied("Tenant", "team", {"budget": {"2026-03": "1"}}), "team"),
]


@pytest.mark.parametrize(("fact", "name"), FACTS)
def test_an_ended_attempt_is_not_billed_up_to_a_later_fact(fact: Data, name: str) -> None:
    story = Story()
    story.prices({"prices": PRICES}, at=-10)
    story.start("j", 0, 0)
    story.run("j", 0, 0)
    story.outage = True
    story.end("j", 0, 1.5 * HOUR)
    story.say("cluster", fact, name, 10 * HOUR)
    story.outage = False
    story.shard.run_until_quiet()
    usage = [event.data for event in written(story.log) if isinstance(event.data, UsageRecorded | UsageWithdrawn)]
    assert not [data for data in usage if isinstance(data, UsageWithdrawn)]
    assert max(data.end for data in usage) == NOON + 1.5 * HOUR * 1_000_000
    assert list(check_billing(story.log)) == []


def test_once_nothing_waits_hour_marks_up_to_the_fact_are_recorded() -> None:
    story = Story()
    story.prices({"prices": PRICES}, at=-10)
    story.start("j", 0, 0)
    story.run("j", 0, 0)
    story.outage = True
    story.start("k", 0, HOUR)
    story.say("cluster", NodeObserved("elsewhere"), "elsewhere", 10 * HOUR)
    story.outage = False
    story.shard.run_until_quiet()
    assert story.seconds("j") == 10 * HOUR
