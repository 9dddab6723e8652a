"""Times of observed jobs: what the object says, else when that very observation arrived, whatever the shard took before it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lifecycle_driver import SECOND, START, Driver, pod

from engine.events import Data, Event
from engine.events.actions import TimerSet
from engine.events.attempts import AttemptEnded, AttemptObjectChanged
from engine.events.inputs import JobDeleted, JobObserved, NodeObserved, PodDeleted
from engine.events.jobs import JobObjectDeleted, JobPhaseChanged

LATE = 7200


@pytest.fixture
def driver() -> Driver:
    """A shard that has taken a late fact about a node first, as it takes all facts of the cluster."""
    driver = Driver()
    driver.take(driver.event(NodeObserved("elsewhere"), "elsewhere", at=LATE))
    return driver


def seen(phase: str | None, version: int, **times: int) -> JobObserved:
    return JobObserved(
        "train",
        "Job",
        version=str(version),
        phase=phase,
        created=START,
        tasks={"main": 1},
        **{name: START + time * SECOND for name, time in times.items()},
    )


def of_pod(version: int, phase: str, **fields: Any) -> Any:
    return pod("p", "j1", version, phase, kind="Job", owner="train", node="n", bound=1, running=2, **fields)


def times(driver: Driver, kind: type[Data]) -> list[float]:
    return [(event.time - START) / SECOND for event in driver.events if isinstance(event.data, kind)]


def test_a_phase_without_a_time_begins_at_the_arrival_of_its_observation(driver):
    driver.owner(seen("Pending", 1), at=1)
    driver.owner(seen("Running", 2), at=5)
    driver.owner(seen("Completed", 3), at=9)
    assert times(driver, JobPhaseChanged) == [5, 9]


def test_the_objects_last_write_is_nearer_than_the_arrival(driver):
    driver.owner(seen("Pending", 1, written=0), at=60)
    driver.owner(seen("Running", 2, written=5), at=60)
    driver.owner(seen("Failed", 3, written=9), at=60)
    assert times(driver, JobPhaseChanged) == [5, 9]


def test_a_stated_end_is_not_raised_to_the_moment_of_reading(driver):
    driver.owner(seen("Pending", 1), at=1)
    driver.owner(seen("Running", 2, written=5), at=3600)
    driver.owner(seen("Completed", 3, ended=9, written=9), at=3600)
    assert times(driver, JobPhaseChanged) == [5, 9]


def test_a_phase_that_attempts_show_began_with_them(driver):
    driver.see(of_pod(1, "Running"), at=3)
    driver.owner(seen("Restarting", 2, since=2), at=6)
    driver.owner(seen("Pending", 3), at=7)
    assert driver.path() == ["Running", "Restarting", "Running"]
    assert times(driver, JobPhaseChanged) == [2, 2, 2]


@pytest.mark.parametrize(("stated", "expected"), [({}, 8), ({"deleted": START + 7 * SECOND}, 7)])
def test_a_deleted_job_is_terminated_at_its_objects_time_or_its_arrival(driver, stated, expected):
    driver.owner(seen("Running", 1, since=2), at=3)
    driver.take(driver.event(JobDeleted("2", **stated), "j1", at=8))
    assert times(driver, JobObjectDeleted) == [expected]
    assert times(driver, JobPhaseChanged)[-1] == expected


def test_a_pod_that_vanished_lived_until_its_own_last_observation(driver):
    driver.see(of_pod(1, "Running"), at=30)
    driver.gone(of_pod(2, "Failed", reason="DeletedByApi", rank="watcher"), at=50)
    assert times(driver, AttemptEnded) == [30]


def test_a_pod_that_waited_for_its_job_lived_until_it_was_seen():
    driver, claims = Driver(), {"managed": True, "kind": "VCJob", "owner": "train", "node": "n", "running": 2}
    driver.see(pod("p", "j1", 1, "Running", **claims), at=3)
    driver.wait(120)
    driver.gone(pod("p", "j1", 2, "Failed", reason="DeletedByApi", **claims), at=121)
    assert times(driver, AttemptEnded) == [3]


@pytest.mark.parametrize("deleting", [True, False])
def test_a_pod_that_ended_and_whose_deletion_was_read_is_gone(driver, deleting):
    driver.see(of_pod(1, "Running"), at=3)
    driver.see(of_pod(2, "Succeeded", ended=9, deleting=deleting), at=10)
    assert driver.job().by_uid["p"].object == ("deleting" if deleting else "exists")
    driver.gone(of_pod(3, "Succeeded", ended=9, deleting=deleting), at=12)
    assert driver.job().by_uid["p"].object == "gone"
    assert times(driver, AttemptObjectChanged) == [12]
    driver.gone(of_pod(3, "Succeeded", ended=9, deleting=deleting), at=13)
    assert driver.outcome == "duplicate"


def test_a_deletion_with_the_version_of_the_end_is_read_too(driver):
    driver.see(of_pod(2, "Failed", ended=9, reason="AppFailed"), at=10)
    driver.gone(of_pod(2, "Failed", ended=9, reason="AppFailed"), at=12)
    assert driver.job().by_uid["p"].object == "gone"
    assert (driver.outcome, driver.job().counts.failed) == ("applied", 1)


def test_a_job_that_only_counts_pods_runs_since_the_first_one_seen(driver):
    """Its pod was seen after its end only, so that it did not begin the phase."""
    driver.owner(seen("Pending", 1), at=1)
    driver.see(of_pod(2, "Succeeded", ended=9), at=10)
    assert driver.phase() == "Pending"
    driver.owner(seen("Running", 3, written=20), at=30)
    assert times(driver, JobPhaseChanged) == [2]


def test_pods_of_before_a_suspension_do_not_begin_what_follows_it(driver):
    driver.owner(seen("Running", 1, since=2), at=3)
    driver.see(of_pod(2, "Succeeded", ended=9), at=10)
    driver.owner(replace(seen("Pending", 3, since=15), owner_decides=True), at=16)
    driver.owner(seen("Running", 4), at=30)
    assert times(driver, JobPhaseChanged) == [2, 15, 30]


# --- the law ------------------------------------------------------------------------------------------------------------------

_FACTS: list[Data] = [
    seen(None, 1),
    seen("Running", 2),
    seen("Pending", 3),
    seen("Running", 4, since=5),
    seen("Failed", 5),
    seen("Completed", 6, ended=9),
    JobDeleted("7"),
    of_pod(1, "Bound"),
    of_pod(2, "Running"),
    of_pod(3, "Terminating", terminating=5),
    of_pod(4, "Failed", ended=9, reason="AppFailed"),
    PodDeleted(of_pod(5, "Failed", reason="DeletedByApi", rank="watcher")),
]


@given(
    st.lists(st.tuples(st.integers(0, 60), st.sampled_from(_FACTS)), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(60, LATE), st.sampled_from(["True", "Unknown"])), max_size=3),
)
def test_later_facts_about_others_change_no_time_of_a_job(facts: list[tuple[int, Data]], others: list[tuple[int, Any]]) -> None:
    """A shard takes the facts of the cluster first, so those that arrived later come before all others that wait."""
    alone, among = Driver(), Driver()
    for at, ready in others:
        among.take(among.event(NodeObserved("elsewhere", ready=ready), "elsewhere", at=at))
    dated = []
    for driver in (alone, among):
        before = len(driver.events)
        for number, (at, data) in enumerate(sorted(facts, key=lambda fact: fact[0])):
            driver.take(driver.event(data, "j1", f"fact-{number}", at=at))
        dated.append([_dated(event) for event in driver.events[before:] if not isinstance(event.data, TimerSet)])
    assert dated[0] == dated[1]


def _dated(event: Event[Any]) -> tuple[Any, ...]:
    return event.type, event.time, getattr(event.data, "ran", None), getattr(event.data, "started", None)
