"""`lahar billing verify` finds no difference while billing has still to do something, or while attempts are open."""

from __future__ import annotations

from bill_story import NOON, ONE_GPU, PRICES, Story
from billing_shard import run
from hypothesis import given, settings
from hypothesis import strategies as st
from job_programs import SECOND, closed_programs, forgotten_programs, half_hour_programs, programs

from engine.events.attempts import AttemptBound, AttemptRunning, AttemptStarted
from engine.events.jobs import JobOpened, JobPhaseChanged
from engine.history.billing import Finding, Unfinished, check_billing, recorded_at
from engine.log.memory import MemoryLog
from statemachines.spec import JobSpec

HOUR = 3600


def finished(story):
    """A job runs for 100 s."""
    story.start("j", 0, 0)
    story.run("j", 0, 0)
    story.end("j", 0, 100)
    story.say("job-events", JobPhaseChanged("Completed", "Running"), "j", 100)


def test_what_a_pending_review_will_correct_is_no_difference():
    story = Story()
    finished(story)
    story.prices({"prices": PRICES}, at=200)
    assert story.amount() == 0
    (found,) = check_billing(story.log)
    assert found == Unfinished("billing/0", behind=False, review=NOON + 260 * SECOND)
    assert found.document() == {"shard": "billing/0", "behind": False, "review": "2026-03-02T12:04:20.000000Z"}
    story.wait(300)
    assert story.amount() == 10
    assert list(check_billing(story.log)) == []


def test_what_billing_has_not_read_is_no_difference():
    story = Story()
    finished(story)
    story.shard.step = lambda: 0
    story.late("j", 0, 200, rank="node", ended=NOON + 60 * SECOND)
    assert list(check_billing(story.log)) == [Unfinished("billing/0", behind=True, review=None)]


def test_what_a_shard_that_was_never_opened_should_bill_is_named():
    story = Story()
    story.log, story.shard.step = MemoryLog(clock=lambda: 1 << 60), lambda: 0
    assert list(check_billing(story.log)) == []
    finished(story)
    assert list(check_billing(story.log)) == [Unfinished("billing/0", behind=True, review=None)]


def test_what_is_recorded_and_is_to_be_priced_anew_waits_for_no_hour_mark():
    story = Story()
    story.start("j", 0, 0)
    story.run("j", 0, 0)
    story.wait(HOUR + 10)
    story.prices({"prices": PRICES}, at=HOUR + 20)
    assert recorded_at(story.log, NOON, NOON + HOUR * SECOND) is None
    assert recorded_at(story.log, NOON, NOON + HOUR * SECOND + 1) == NOON + 2 * HOUR * SECOND


def test_a_phase_after_the_last_mark_does_not_end_records_up_to_it():
    story = Story()
    story.prices({"prices": PRICES, "billable_from": "bound"})
    story.start("j", 0, 10)
    story.say("job-events", AttemptBound("main", 0, 1, node="n1"), "j", 10)
    story.wait(HOUR + 10)
    assert story.seconds() == HOUR - 10
    story.say("job-events", AttemptRunning("main", 0, 1), "j", HOUR + 20)
    assert list(check_billing(story.log)) == []


@settings(max_examples=40)
@given(st.one_of(programs(4, 14), closed_programs(8), forgotten_programs(8), half_hour_programs()))
def test_nothing_differs_at_any_time(program):
    """After each input, and when all is done."""

    def must_follow(processor):
        assert [found for found in check_billing(processor.log) if isinstance(found, Finding)] == []

    log, _ = run(program, after=must_follow)
    assert list(check_billing(log)) == []


def two_jobs_with_one_pod(*ends: int) -> Story:
    """Logs of earlier releases: a pod that another job adopted is an attempt of both."""
    story = Story()
    for job, end in zip(("old", "new"), ends, strict=True):
        story.say("job-events", JobOpened("Job", job, managed=False, spec=JobSpec(), tenant="team"), job, 0)
        story.say("job-events", AttemptStarted("main", 0, 1, uid="pod-1", requests=ONE_GPU), job, 0)
        story.run(job, 0, 0)
        story.end(job, 0, end)
    return story


def test_a_pod_that_two_jobs_bill_is_found():
    (found,) = check_billing(two_jobs_with_one_pod(100, 60).log)
    assert found == Finding("new", "main[0] attempt 1", "bills pod pod-1, which old main[0] attempt 1 has billed")


def test_a_pod_whose_second_bill_was_taken_back_is_billed_once():
    story = two_jobs_with_one_pod(100, 60)
    story.late("new", 0, 200, rank="node", ended=NOON, started=NOON)
    assert [found for found in check_billing(story.log) if isinstance(found, Finding)] == []


def test_a_second_job_that_never_ran_the_pod_bills_nothing_of_it():
    assert list(check_billing(two_jobs_with_one_pod(100, 0).log)) == []
