"""Names of timers: the breaker tells by them which one ended processes, so no two in one batch may have the same."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from bill_story import NOON, PRICES, Story
from billing_shard import opened
from job_programs import SECOND

from engine.billing import forgetting
from engine.billing.stage import BillingStage
from engine.events.inputs import NodeObserved
from engine.events.jobs import JobForgotten

HOUR = 3600
MANY = 150
"""Attempts of a job: three steps."""


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the timers that fire."""
    found: list[str] = []
    fire = BillingStage.fire

    def noted(stage: BillingStage, state: Any, *given: Any) -> Any:
        found.append(stage.timer(state))
        return fire(stage, state, *given)

    monkeypatch.setattr(BillingStage, "fire", noted)
    return found


def test_each_timer_has_a_name_of_its_own(names: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Hour marks, a price book, facts about a node, forgotten jobs: of two jobs with many attempts each."""
    monkeypatch.setattr(forgetting, "_UNPRICED", 0)
    story = Story()
    for job in ("a", "b"):
        for index in range(MANY):
            story.start(job, index, 0)
            story.run(job, index, 0)
    story.wait(HOUR + 1)
    story.say("cluster", NodeObserved("n1", type="small"), "n1", HOUR + 2)  # the first fact
    story.wait(HOUR + 100)
    story.say("cluster", NodeObserved("n1", type="large"), "n1", -1, recorded=HOUR + 101)
    story.wait(HOUR + 200)
    story.prices({"prices": PRICES, "from": NOON + 2 * HOUR * SECOND}, at=HOUR + 201)
    story.wait(HOUR + 300)
    for job in ("a", "b"):
        for index in range(MANY):
            story.end(job, index, HOUR + 400)
        story.say("job-events", JobForgotten(finished=NOON), job, HOUR + 500)
    story.wait(HOUR + 501)
    kinds = Counter(name.partition("/")[0] for name in names)
    assert kinds == {"hour": 5, "review": 12, "node": 6, "sweep": 2, "forget": 2}
    assert len(set(names)) == len(names)
    assert all(name.isascii() and len(name) <= 100 for name in names)


def test_the_next_process_gives_a_timer_the_same_name() -> None:
    story = Story()
    story.start("a", 0, 0)
    story.run("a", 0, 0)
    stage = BillingStage()
    name = stage.timer(story.shard.state)
    assert name.startswith("hour/")
    assert stage.timer(opened(story.log).state) == name
