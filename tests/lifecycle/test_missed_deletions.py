"""Deletions of which nobody hears: what waits for them has a timer, and no name is asked for while it may be taken."""

from __future__ import annotations

import pytest
from lifecycle_driver import SECOND, START, Driver, vcjob

from engine.events.actions import EffectRequested, EventRaised
from engine.events.attempts import AttemptEnded, AttemptObjectChanged


@pytest.fixture
def driver():
    driver = Driver()
    driver.submit(vcjob({"name": "w", "policies": [{"event": "PodFailed", "action": "RestartTask"}]}, maxRetry=10))
    return driver


def done(driver):
    """Report that the deletion of the pod was done."""
    driver.report(driver.job().attempts[0].effect, "done")


def unknown(driver):
    """Let the API server say twice that there is no such pod."""
    made = []
    for _ in range(2):
        made += driver.report(driver.job().attempts[0].effect, "failed", reason="NotFound")
        made += driver.wait(1)
    return made


@pytest.mark.parametrize("ended", [False, True])
def test_a_job_with_a_deleted_object_ends_though_its_pod_is_not_seen_again(driver, ended):
    driver.run("w")
    if ended:
        driver.end("w", code=1)
    driver.delete()
    assert driver.phase() in {"Terminating", "Restarting"}
    driver.wait(599)
    driver.crash()
    assert driver.phase() in {"Terminating", "Restarting"}
    made = driver.wait(1)
    assert driver.phase() == "Terminated"
    if ended:
        assert driver.of(AttemptObjectChanged, made)[0].why == "its job is gone"
    else:
        assert driver.of(AttemptEnded, made)[0].reason == "StoppedByUser"
    assert driver.job().rest is not None


@pytest.mark.parametrize(
    ("command", "phase"),
    [("TerminateJob", "Terminated"), ("RestartPod", "Pending"), ("RestartTask", "Pending")],
)
def test_a_deletion_that_was_done_and_is_not_seen_is_asked_for_again(driver, command, phase):
    driver.run("w")
    driver.command(command, task="w", index=0)
    done(driver)
    assert driver.asked("delete_pod", driver.wait(599)) == []
    driver.crash()
    assert driver.asked("delete_pod", driver.wait(1)) == [("w", 0, 1)]
    done(driver)
    assert driver.asked("delete_pod", driver.wait(599)) == []
    assert driver.asked("delete_pod", driver.wait(1)) == [("w", 0, 1)]
    done(driver)
    assert driver.asked("delete_pod", driver.wait(1199)) == []
    assert driver.asked("delete_pod", driver.wait(1)) == [("w", 0, 1)]
    unknown(driver)
    assert driver.phase() == phase


def test_the_object_of_an_ended_pod_is_asked_after_again(driver):
    driver.run("w")
    driver.end("w", code=1)
    done(driver)
    assert driver.asked("delete_pod", driver.wait(600)) == [("w", 0, 1)]
    assert driver.asked("create_pod", unknown(driver)) == [("w", 0, 2)]


def test_on_a_silent_node_nothing_is_asked_for_again(driver):
    driver.run("w")
    driver.node("n0", ready="Unknown", version="1")
    driver.command("RestartTask", task="w")
    done(driver)
    assert driver.asked("delete_pod", driver.wait(6000)) == []
    driver.node("n0", version="2")
    assert driver.asked("delete_pod", driver.wait(6000)) == [("w", 0, 1)]


@pytest.mark.parametrize(("silent", "asked"), [(False, 16), (True, 0)])
def test_an_engine_that_was_away_for_a_year_catches_up_in_a_few_steps(driver, silent, asked):
    """It fires every timer of that time."""
    if silent:
        driver.node("n0", ready="Unknown", version="1")
    driver.run("w")
    driver.command("RestartTask", task="w")
    done(driver)
    made = driver.wait(365 * 86_400)
    assert len(driver.asked("delete_pod", made)) == asked
    assert len(made) < 60


@pytest.mark.parametrize("reported", ["made", "deleted"])
def test_the_name_of_a_created_pod_is_not_requested_before_it_is_gone(driver, reported):
    if reported == "made":
        done(driver)
    driver.command("RestartTask", task="w")
    if reported == "deleted":
        done(driver)
    made = driver.wait(599)
    assert driver.of(AttemptEnded, made) == []
    assert driver.asked("create_pod", made) == []
    assert driver.asked("delete_pod", driver.wait(1)) == [("w", 0, 1)]
    made = unknown(driver)
    assert [end.reason for end in driver.of(AttemptEnded, made)] == ["NeverStarted"]
    assert driver.asked("create_pod", made) == [("w", 0, 2)]


def user_deletes(driver):
    driver.run("w")
    made = driver.see(
        driver.replica("w", phase="Terminating", node="n0", running=0, terminating=0, deadline=START + 30 * SECOND, deleting=True)
    )
    assert driver.asked("delete_pod", made) == []


def test_a_pod_deleted_by_others_and_not_seen_again_is_looked_up(driver):
    user_deletes(driver)
    driver.crash()
    assert driver.of(EffectRequested, driver.wait(629)) == []
    made = driver.wait(31)
    assert [(one.effect, one.cause) for one in driver.of(EffectRequested, made)] == [("delete_pod", None)]
    made = unknown(driver)
    assert [(end.phase, end.reason) for end in driver.of(AttemptEnded, made)] == [("Lost", "EndUnknown")]
    assert [one.event for one in driver.of(EventRaised, made)] == ["PodEvicted"]
    assert driver.asked("create_pod", made) == [("w", 0, 2)]


def test_a_deletion_that_was_asked_for_again_is_still_somebody_elses(driver):
    user_deletes(driver)
    driver.wait(630)
    done(driver)
    driver.crash()
    made = driver.gone(
        driver.replica("w", phase="Failed", reason="DeletedByApi", node="n0", running=0, terminating=0, ended=9, deleting=True)
    )
    assert [(end.phase, end.reason) for end in driver.of(AttemptEnded, made)] == [("Failed", "DeletedByApi")]
    assert [one.event for one in driver.of(EventRaised, made)] == ["PodEvicted"]
    assert driver.asked("create_pod", made) == [("w", 0, 2)]
    assert driver.asked("delete_pod", driver.wait(6000)) == []
