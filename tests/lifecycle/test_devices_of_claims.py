"""Devices of claims become known when the claims are read, and stay known where later inputs were made without them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from lifecycle_driver import SECOND, START, Driver, pod, vcjob

from engine.events import Event
from engine.events.attempts import AttemptChanged, AttemptEnded
from engine.events.inputs import PodObserved
from statemachines.spec import Requests

UNREAD = Requests(1000, unmetered={"resourceclaims": 2000})
KNOWN = Requests(1000, gpu=2, unmetered={"nic.example.com": 1000})
PARTLY = Requests(1000, gpu=2, unmetered={"resourceclaims": 1000})


@pytest.fixture
def driver() -> Driver:
    return Driver()


def running(version: int, requests: Requests, **fields: Any) -> PodObserved:
    return pod("u", "j", version, "Running", node="n", bound=1, running=2, requests=requests, **fields)


def changes(events: list[Event[Any]]) -> list[tuple[Requests, float]]:
    """Return the changes of requests, with their times in seconds."""
    changed = [event for event in events if isinstance(event.data, AttemptChanged) and event.data.requests is not None]
    return [(event.data.requests, (event.time - START) / SECOND) for event in changed]


def test_devices_count_from_the_start_of_the_phase_that_was_known(driver: Driver) -> None:
    driver.see(running(1, UNREAD))
    assert changes(driver.see(running(2, KNOWN, proof=50, written=60))) == [(KNOWN, 2)]
    assert driver.job("j").by_uid["u"].requests == KNOWN


def test_a_resize_that_is_seen_with_the_devices_has_a_time_of_its_own(driver: Driver) -> None:
    driver.see(running(1, UNREAD))
    resized = replace(KNOWN, cpu_milli=3000)
    assert changes(driver.see(running(2, resized, proof=50, written=60))) == [(KNOWN, 2), (resized, 60)]


def test_the_same_pod_version_shows_its_devices_once_claims_are_read(driver: Driver) -> None:
    driver.see(running(1, UNREAD))
    assert changes(driver.see(running(1, PARTLY), key="with one")) == [(PARTLY, 2)]
    assert changes(driver.see(running(1, KNOWN), key="with both")) == [(KNOWN, 2)]
    driver.see(running(1, KNOWN), key="again")
    assert driver.outcome == "duplicate"
    driver.see(running(1, UNREAD), key="without")
    assert driver.outcome == "duplicate"


def test_a_pod_that_ends_shows_its_devices_before_its_end(driver: Driver) -> None:
    driver.see(running(1, UNREAD))
    ended = pod("u", "j", 2, "Succeeded", node="n", running=2, ended=9, requests=KNOWN)
    assert changes(driver.see(ended)) == [(KNOWN, 2)]
    assert [event.requests for event in driver.of(AttemptEnded)] == [KNOWN]


def test_a_pod_that_has_ended_has_the_devices_that_were_known(driver: Driver) -> None:
    driver.see(pod("u", "j", 1, "Succeeded", node="n", running=2, ended=9, requests=UNREAD))
    assert changes(driver.see(pod("u", "j", 1, "Succeeded", node="n", running=2, ended=9, requests=KNOWN), key="known")) == []
    assert driver.outcome == "duplicate"


def test_an_input_made_without_the_claims_takes_no_devices_away(driver: Driver) -> None:
    driver.see(running(1, KNOWN))
    assert changes(driver.see(running(2, UNREAD))) == []
    assert changes(driver.see(running(3, PARTLY))) == []
    resized = replace(UNREAD, cpu_milli=3000)
    assert changes(driver.see(running(4, resized, written=60))) == [(replace(KNOWN, cpu_milli=3000), 60)]
    driver.see(pod("u", "j", 5, "Succeeded", node="n", running=2, ended=90, requests=UNREAD))
    assert [event.requests for event in driver.of(AttemptEnded)] == [replace(KNOWN, cpu_milli=3000)]


def test_claims_that_admission_adds_to_the_pod_of_a_managed_job_are_shown(driver: Driver) -> None:
    driver.submit(vcjob({"name": "a"}))
    made = driver.replica("a", phase="Running", node="n", running=2)
    assert [requests for requests, _ in changes(driver.see(replace(made, requests=UNREAD)))] == [UNREAD]
