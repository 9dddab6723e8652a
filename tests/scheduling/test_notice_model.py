"""Model check of preemption with notice: the interleavings of a small world keep every invariant, and planted bugs are found."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from random import Random
from time import monotonic

import pytest
from notice_actions import ALONE, COMPETING, actions, first, take
from notice_search import search
from notice_steps import Live
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


def test_every_state_with_one_thing_happening_outside_keeps_the_invariants():
    found = search(happen=1, late=0)
    assert (found.fault, found.way, found.complete) == ("", [], True)
    assert min(found.ends[end] for end in ("open", "executed", "withdrawn")) > 100


def test_every_state_with_messages_under_way_keeps_the_invariants():
    found = search(happen=0, late=2, notices=2)
    assert (found.fault, found.way, found.complete) == ("", [], True)


def test_every_state_of_two_competing_privileged_jobs_keeps_the_invariants():
    found = search(happen=0, late=1, privileged=COMPETING, notices=2)
    assert (found.fault, found.way, found.complete) == ("", [], True)
    assert found.ends["executed"] > 1_000


@pytest.mark.parametrize("privileged", [ALONE, COMPETING], ids=["alone", "competing"])
def test_processes_that_are_never_restarted_decide_the_same(privileged):
    for seed in range(10):
        dice, world = Random(seed), first(privileged)  # noqa: S311 - a walk, not a secret
        live = Live.of(world)
        while choices := actions(world, 3, 2):
            action = dice.choice(choices)
            after, faults = take(world, action)
            again, more = take(world, action, live)
            assert (faults, more) == ([], [])
            assert again == after
            world = after


@pytest.mark.slow
def test_five_minutes_of_states_keep_the_invariants(capsys):
    end = monotonic() + 300
    # From small to large: each is searched as far as time allows.
    for happen, late, jobs in (
        (1, 0, COMPETING),
        (1, 1, ALONE),
        (2, 0, ALONE),
        (1, 1, COMPETING),
        (2, 1, ALONE),
        (3, 2, COMPETING),
    ):
        found = search(happen=happen, late=late, privileged=jobs, notices=2, seconds=(end - monotonic()) / 2)
        with capsys.disabled():
            how = "all of them" if found.complete else f"to depth {found.depth}"
            print(f"\n{len(jobs)} privileged, {happen} outside, {late} late: {found.states:,} states ({how}), ", end="")
            print(f"{found.steps:,} steps, {found.ends}", end="")
        assert (found.fault, found.way) == ("", [])


def test_it_finds_victims_stopped_though_the_preemptor_has_its_places(monkeypatch):
    def review(session, placement, notice, plan):
        whole(session, placement, notice, plan)
        if not session.job_starving(session.cluster.jobs[notice.preemptor]):
            session.outcome.reviews[notice.id] = NoticeReview()

    whole = give_notice._review
    monkeypatch.setattr(give_notice, "_review", review)
    monkeypatch.setattr(_Part, "_has_place", lambda _: False)
    found = search(happen=1, late=0)
    assert "has its places elsewhere" in found.fault
    assert "gain n3" in found.way or "finish" in " ".join(found.way)


def test_it_finds_a_restart_that_forgets(monkeypatch):
    def read(content):
        head = whole(content)
        head.told_deadline = head.preemption_backoff = 0
        return head

    whole = snapshot_codec._read_head
    monkeypatch.setattr(snapshot_codec, "_read_head", read)
    assert search(happen=0, late=0).fault == "a restart of scheduling changes its state"


def test_it_finds_a_reserved_place_that_another_takes(monkeypatch):
    monkeypatch.setattr(import_module("engine.scheduling.actions.allocate"), "_keep_place", lambda *_: None)
    assert "takes the place that is reserved for urgent" in search(happen=1, late=0).fault


def test_it_finds_a_reservation_that_ends_before_nodes_have_taken_the_pods(monkeypatch):
    monkeypatch.setattr(Job, "with_status", lambda job, status: {} if status == "Binding" else job.by_status.get(status, {}))
    assert "ends as bound" in search(happen=0, late=1).fault


def test_it_finds_a_notice_that_does_not_follow_its_jobs(monkeypatch):
    monkeypatch.setattr(JobRecord, "left_notice", property(lambda _: False))
    assert search(happen=1, late=0).fault


def test_it_finds_a_job_in_two_notices(monkeypatch):
    two_notices(monkeypatch.setattr)
    found = search(happen=0, late=0, privileged={"urgent": 1, "rush": 1}, notices=2)
    assert found.fault == "a job is in two open notices"


def test_it_finds_a_refusal_that_is_not_heard(monkeypatch):
    monkeypatch.setitem(absorb._JOB, DecisionRefused, lambda *_: None)
    found = search(happen=1, late=0)
    assert "no round will look at it" in found.fault
    assert "refuse a decision" in found.way


def test_it_finds_victims_stopped_without_having_been_told(monkeypatch):
    def unasked(change, facts):
        return next_state(change, replace(facts, unconfirmed=0))

    monkeypatch.setattr(notice_controller, "next_state", unasked)
    assert "without having been told" in search(happen=0, late=2).fault


def test_it_finds_a_gang_that_is_half_stopped(monkeypatch):
    def take_end(turn, job, data):
        if data.outcome == "executed" and job.phase == "WillEvicted":
            yield from evict(turn, job, [attempt for attempt in job.attempts if attempt.live][:1])

    monkeypatch.setattr("engine.lifecycle.decisions.take_end", take_end)
    monkeypatch.setattr("engine.lifecycle.pods.EVICTED", "PreemptedByNotice")
    assert "half stopped" in search(happen=0, late=0).fault
