"""What an hour mark must not overlook: changes of the past of an attempt whose last use goes on as it was."""

from __future__ import annotations

from typing import Any

import pytest
from bill_story import NOON, ONE_GPU, PRICES, Story
from job_programs import SECOND
from standing import standing, written

from engine.billing import event_factory
from engine.billing.absorb import _FEW
from engine.events.attempts import AttemptChanged
from engine.events.billing import UsageFailed, UsageReviewed
from engine.events.inputs import NodeObserved
from engine.events.jobs import JobPhaseChanged
from statemachines.spec import Requests

HOUR = 3600


def test_what_could_not_be_charged_when_it_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A resize is told late, of a time before the last one; the stage fails on it, and the next mark makes up for it."""

    def fails(*_: Any) -> None:
        raise ZeroDivisionError

    story = Story()
    story.start("j", 0, 0)
    story.run("j", 0, 0)
    story.say("job-events", AttemptChanged("main", 0, 1, requests=ONE_GPU), "j", 1200)
    story.wait(HOUR + 10)
    with monkeypatch.context() as failing:
        failing.setattr(event_factory, "runs_of", fails)
        story.say("job-events", AttemptChanged("main", 0, 1, requests=Requests(gpu=2)), "j", 600, recorded=HOUR + 20)
    assert isinstance(written(story.log)[-1].data, UsageFailed)
    story.wait(2 * HOUR + 1)
    records = standing(event for event in written(story.log) if not isinstance(event.data, UsageFailed))
    assert sum(record.quantity for record in records) == 2 * HOUR + 600


def test_what_a_review_that_has_not_begun_will_correct() -> None:
    """So nothing is recorded at the mark that the review replaces a minute later."""
    story = Story()
    story.prices({"prices": PRICES, "bill_queued": True, "bill_reserved": True})
    for index in range(_FEW + 1):
        story.start("j", index, 0)
        story.run("j", index, 600)
    story.wait(HOUR + 10)
    assert {record.run.kind for record in story.records()} == {"queued", "running"}
    kept = JobPhaseChanged("Pending", "Privileged", reserved=NOON + 900 * SECOND)
    story.say("job-events", kept, "j", 60, recorded=2 * HOUR - 10)
    before = len(written(story.log))
    story.say("cluster", NodeObserved("clock"), "clock", 2 * HOUR + 1)
    since = written(story.log)[before:]
    assert not any(isinstance(event.data, UsageReviewed) for event in since), "the review is still to come"
    reserved = [record for record in story.records() if record.run.kind == "reserved"]
    assert len(reserved) == _FEW + 1
    assert {(record.start, record.end) for record in reserved} == {(NOON + 60 * SECOND, NOON + 600 * SECOND)}
