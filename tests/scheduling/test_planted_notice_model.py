"""The model check of notices finds bugs that are planted in the stages."""

from __future__ import annotations

from dataclasses import replace

from notice_search import search
from test_planted_notice_bugs import two_notices

from engine.events.decisions import DecisionRefused
from engine.lifecycle.pods import evict
from engine.scheduling import absorb, snapshot_codec
from engine.scheduling.cluster.entities import Job
from engine.scheduling.cluster.job_records import JobRecord
from engine.scheduling.outcome import NoticeReview
from engine.scheduling.preemption import give_notice, notice_controller
from engine.scheduling.preemption.notice_controller import _Part
from statemachines.notice import next_state


def test_it_finds_victims_stopped_though_the_preemptor_has_its_places(plant):
    def review(session, placement, notice, plan):
        whole(session, placement, notice, plan)
        if not session.job_starving(session.cluster.jobs[notice.preemptor]):
            session.outcome.reviews[notice.id] = NoticeReview()

    whole = give_notice.review_notice
    plant(give_notice, "review_notice", review)
    plant(_Part, "_has_place", lambda _: False)
    found = search(happen=1, late=0)
    assert "has its places elsewhere" in found.fault
    assert "gain n3" in found.way or "finish" in " ".join(found.way)


def test_it_finds_a_restart_that_forgets(plant):
    def read(content):
        head = whole(content)
        head.told_deadline = head.preemption_backoff = 0
        return head

    whole = snapshot_codec._read_head
    plant(snapshot_codec, "_read_head", read)
    assert search(happen=0, late=0).fault == "a restart of scheduling changes its state"


def test_it_finds_a_reserved_place_that_another_takes(plant):
    plant("engine.scheduling.actions.allocate", "_keep_place", lambda *_: None)
    assert "takes the place that is reserved for urgent" in search(happen=1, late=0).fault


def test_it_finds_a_reservation_that_ends_before_nodes_have_taken_the_pods(plant):
    plant(Job, "with_status", lambda job, status: {} if status == "Binding" else job.by_status.get(status, {}))
    assert "ends as bound" in search(happen=0, late=1).fault


def test_it_finds_a_notice_that_does_not_follow_its_jobs(plant):
    plant(JobRecord, "left_notice", property(lambda _: False))
    assert search(happen=1, late=0).fault


def test_it_finds_a_job_in_two_notices(plant):
    two_notices(plant)
    found = search(happen=0, late=0, privileged={"urgent": 1, "rush": 1}, notices=2)
    assert found.fault == "a job is in two open notices"


def test_it_finds_a_refusal_that_is_not_heard(plant):
    plant(absorb._JOB, DecisionRefused, lambda *_: None)
    found = search(happen=1, late=0)
    assert "no round will look at it" in found.fault
    assert "refuse a decision" in found.way


def test_it_finds_victims_stopped_without_having_been_told(plant):
    def unasked(change, facts):
        return next_state(change, replace(facts, unconfirmed=0))

    plant(notice_controller, "next_state", unasked)
    assert "without having been told" in search(happen=0, late=2).fault


def test_it_finds_a_gang_that_is_half_stopped(plant):
    def take_end(turn, job, data):
        if data.outcome == "executed" and job.phase == "WillEvicted":
            yield from evict(turn, job, [attempt for attempt in job.attempts if attempt.live][:1])

    plant("engine.lifecycle.decisions", "take_end", take_end)
    plant("engine.lifecycle.pods", "EVICTED", "PreemptedByNotice")
    assert "half stopped" in search(happen=0, late=0).fault
