"""The ids of an attempt's records contain one uid for good: reversals find what they take back, however late the pod is seen."""

from __future__ import annotations

import pytest
from bill_story import NOON, ONE_GPU, PRICES, Story
from billing_shard import opened
from job_programs import SECOND
from standing import must_reverse_what_it_names, written

from engine.billing.event_factory import EventFactory
from engine.billing.stage import BillingStage
from engine.events import decode
from engine.events.attempts import AttemptBound, AttemptChanged, AttemptEnded, AttemptLateFact, AttemptStarted
from engine.events.jobs import JobOpened
from engine.history.billing import check_billing
from statemachines.spec import JobSpec

MONTH_END = 29 * 86_400 + 12 * 3600
"""1 April, 00:00, in seconds behind the noon of the stories."""
OWN = "j/main/0/1"


def waiting_over_the_month_end() -> Story:
    """A pod that nobody has seen is charged for its waiting, and the month is closed."""
    story = Story()
    story.prices({"prices": PRICES, "bill_queued": True})
    story.say("job-events", JobOpened("Job", "j", managed=True, spec=JobSpec(), tenant="team"), "j", MONTH_END - 5400)
    story.say("job-events", AttemptStarted("main", 0, 1, uid=None, requests=ONE_GPU), "j", MONTH_END - 5400)
    story.wait(MONTH_END + 5)
    story.close("2026-03", MONTH_END + 10)
    return story


def must_be_consistent(story: Story) -> None:
    records = story.records()
    must_reverse_what_it_names(records)
    assert any(record.reverses is not None for record in records)
    assert {record.run.uid for record in records} == {OWN}
    assert list(check_billing(story.log)) == []


@pytest.mark.parametrize("restarts", ["never", "before the pod is seen", "before it is bound"])
def test_a_pod_that_is_seen_after_its_month_was_closed_changes_no_id(restarts: str) -> None:
    story = waiting_over_the_month_end()
    if restarts == "before the pod is seen":
        story.shard = opened(story.log)
    story.say("job-events", AttemptChanged("main", 0, 1, uid="pod"), "j", MONTH_END + 20)
    if restarts == "before it is bound":
        story.shard = opened(story.log)
    story.say("job-events", AttemptBound("main", 0, 1, node="n1"), "j", MONTH_END - 60, recorded=MONTH_END + 20)
    must_be_consistent(story)


def test_neither_does_one_whose_facts_are_read_again_before_the_records() -> None:
    """As a shard does that has lost its snapshot."""
    story = waiting_over_the_month_end()
    story.say("job-events", AttemptChanged("main", 0, 1, uid="pod"), "j", MONTH_END + 20)
    stage = BillingStage()
    state = stage.initial()
    for topics, apply in ((("cluster", "job-events"), stage.absorb), (("billing",), stage.evolve)):
        for record in story.log.scan(topics):
            apply(state, decode(record.message))
    assert [attempt.uid for attempt in state.jobs["j"].attempts] == [OWN]


def test_neither_does_a_pod_that_is_seen_after_its_end() -> None:
    story = waiting_over_the_month_end()
    story.say("job-events", AttemptEnded("main", 0, 1), "j", MONTH_END + 20)
    late = AttemptLateFact("main", 0, 1, uid="pod", rank="node", ended=NOON + (MONTH_END - 60) * SECOND)
    story.say("job-events", late, "j", MONTH_END + 30)
    must_be_consistent(story)


def test_a_pod_that_is_seen_before_its_first_record_gives_it_its_uid() -> None:
    story = Story()
    story.say("job-events", JobOpened("Job", "j", managed=True, spec=JobSpec(), tenant="team"), "j", 0)
    story.say("job-events", AttemptStarted("main", 0, 1, uid=None, requests=ONE_GPU), "j", 0)
    story.say("job-events", AttemptChanged("main", 0, 1, uid="pod"), "j", 5)
    story.run("j", 0, 10)
    story.end("j", 0, 20)
    assert {record.run.uid for record in story.records()} == {"pod"}


def test_verify_names_a_reversal_of_what_is_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """As earlier builds wrote it."""
    story = waiting_over_the_month_end()
    with monkeypatch.context() as earlier:
        earlier.setattr(EventFactory, "_key", lambda self, attempt: ("main", 0, 1, "pod"))
        story.say("job-events", AttemptBound("main", 0, 1, node="n1"), "j", MONTH_END - 60, recorded=MONTH_END + 20)
    reversals = [record for record in story.records() if record.reverses is not None]
    reversal, replacement = (f"j main[0] attempt 1: {event.id}" for event in written(story.log)[-2:])
    assert [found.sentence() for found in check_billing(story.log)] == [
        f"{reversal} has uid 'pod'; expected 'j/main/0/1'",
        f"{replacement} has uid 'pod'; expected 'j/main/0/1'",
        f"{reversal} takes back {reversals[0].reverses} of the invoice of 2026-03, which is no record",
    ]
