"""Messages go into the events with the attempt that they are about; one that only counts on makes no event of its own."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lifecycle_driver import START, Driver, pod

from engine.events import encode
from engine.events.attempts import (
    AttemptBound,
    AttemptChanged,
    AttemptEnded,
    AttemptEvent,
    AttemptLateFact,
    AttemptRunning,
    AttemptStarted,
    AttemptTerminating,
)
from engine.events.excerpts import LONGEST
from engine.events.inputs import JobObserved
from engine.events.jobs import JobPhaseChanged, JobRevised

CPU = "0/{} nodes are available: {} Insufficient cpu."


@pytest.fixture
def driver():
    return Driver()


def pending(version, message="", reason="Unschedulable"):
    return pod("a", "j1", version, "Pending", reason=reason, message=message)


def test_each_state_has_its_own_message(driver):
    driver.see(pending(1, "no node"))
    driver.see(pod("a", "j1", 2, "Bound", reason="ErrImagePull", node="n", bound=1, message="no image"))
    driver.see(pod("a", "j1", 3, "Running", node="n", bound=1, running=2))
    driver.see(pod("a", "j1", 4, "Terminating", node="n", bound=1, running=2, terminating=3, message="evicted"))
    driver.see(
        pod("a", "j1", 5, "Failed", reason="EvictedByApi", node="n", bound=1, running=2, terminating=3, ended=4, message="said bye")
    )
    told = [event.data.message for event in driver.events if isinstance(event.data, AttemptEvent)]
    assert told == ["no node", "no image", "", "evicted", "said bye"]


def test_a_skipped_phase_has_no_message_and_is_marked(driver):
    driver.see(pod("a", "j1", 1, "Running", node="n", bound=1, running=2, message="its last run ended with exit 1"))
    (started,), (bound,), (running,) = (driver.of(kind) for kind in (AttemptStarted, AttemptBound, AttemptRunning))
    assert [one.message for one in (started, bound, running)] == ["", "", "its last run ended with exit 1"]
    assert [one.skipped for one in (started, bound, running)] == [True, True, False]
    driver.see(pod("a", "j1", 2, "Failed", reason="AppFailed", node="n", bound=1, running=2, terminating=3, ended=5, message="x"))
    assert [(one.message, one.skipped) for one in driver.of(AttemptTerminating)] == [("", True)]
    assert [one.message for one in driver.of(AttemptEnded)] == ["x"]


def test_a_message_alone_is_an_event_if_it_says_something_else(driver):
    driver.see(pending(1, CPU.format(12, 12)))
    driver.see(pending(2, CPU.format(13, 13)))
    assert driver.of(AttemptChanged) == []
    driver.see(pending(3, "0/13 nodes are available: 13 node(s) had untolerated taint."))
    (changed,) = driver.of(AttemptChanged)
    assert (changed.message, changed.reason, changed.reason_changed, changed.version) == (
        "0/13 nodes are available: 13 node(s) had untolerated taint.",
        None,
        False,
        "3",
    )
    driver.see(pending(4))
    assert len(driver.of(AttemptChanged)) == 1, "silence is no news"


def test_a_message_that_counted_on_comes_with_the_next_event(driver):
    looping = {"node": "n", "bound": 1, "running": 2, "reason": "CrashLooping"}
    driver.see(pod("a", "j1", 1, "Running", message="back-off 10s", restarts=1, **looping))
    driver.see(pod("a", "j1", 2, "Running", message="back-off 20s", restarts=1, **looping))
    driver.see(pod("a", "j1", 3, "Running", message="back-off 40s", restarts=2, **looping))
    assert [(one.restarts, one.message) for one in driver.of(AttemptChanged)] == [(1, "back-off 10s"), (2, "back-off 40s")]


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=30))
def test_a_chatty_scheduler_floods_no_history(counts):
    driver = Driver()
    for version, (nodes, lacking) in enumerate([(3, 3), *counts], 1):
        driver.see(pending(version, CPU.format(nodes, lacking)))
    assert driver.of(AttemptChanged) == []


def test_a_new_reason_ends_what_was_said_of_the_old_one(driver):
    driver.see(pending(1, "no node"))
    driver.see(pending(2, "", reason="Gated"))
    driver.see(pending(3, "no node", reason="Gated"))
    assert [(one.reason, one.message) for one in driver.of(AttemptChanged)] == [("Gated", ""), (None, "no node")]


def test_however_long_an_input_says_it_an_event_is_short(driver):
    driver.see(pending(1, "é" * 4_000))
    (started,) = driver.of(AttemptStarted)
    assert len(started.message.encode()) <= LONGEST
    driver.see(pending(2, "é" * 4_000))
    assert driver.of(AttemptChanged) == []


def test_a_late_fact_keeps_its_message(driver):
    ran = {"node": "n", "bound": 1, "running": 2}
    driver.see(pod("a", "j1", 1, "Running", **ran))
    driver.gone(pod("a", "j1", 2, "Lost", reason="EndUnknown", **ran))
    driver.see(pod("a", "j1", 3, "Failed", reason="AppFailed", exit_code=3, ended=5, message="disk full", **ran))
    assert [one.message for one in driver.of(AttemptLateFact)] == ["disk full"]


def test_events_without_a_message_are_as_they_were(driver):
    driver.see(pending(1))
    (started,) = [event for event in driver.events if isinstance(event.data, AttemptStarted)]
    assert not {"message", "skipped"} & json.loads(encode(started).data).keys()


def owner(version, phase, **fields):
    return JobObserved("train", "Job", version=str(version), phase=phase, created=START, **fields)


def test_why_an_owner_holds_its_job_is_known(driver):
    driver.owner(owner(1, "Pending", reason="JobSuspended", message="Job suspended"), "j1")
    assert driver.of(JobPhaseChanged) == []
    assert [(one.reason, one.message) for one in driver.of(JobRevised)] == [("JobSuspended", "Job suspended")]
    assert driver.job("j1").reason == "JobSuspended"
    driver.owner(owner(2, "Pending", reason="JobSuspended", message="Job suspended"), "j1")
    assert len(driver.of(JobRevised)) == 1
    driver.owner(owner(3, "Pending"), "j1")
    assert driver.of(JobRevised)[-1].reason == ""
    assert driver.job("j1").reason is None


def test_the_owners_words_on_an_end_are_kept(driver):
    driver.owner(owner(1, "Failed", reason="BackoffLimitExceeded", message="Job has reached the limit"), "j1")
    assert [one.message for one in driver.of(JobPhaseChanged)] == ["Job has reached the limit"]
