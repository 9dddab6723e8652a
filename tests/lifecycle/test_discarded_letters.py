"""Dead letters are discarded by whoever may speak for everything, and leave nothing that grows."""

from __future__ import annotations

from typing import Any

import pytest
from lifecycle_driver import Driver, pod, vcjob

from engine.events.inputs import CommandIssued, ObjectApplied
from engine.events.outcomes import CommandRefused, LetterDiscarded

LETTER = "e61f8a05"


def discard(driver: Driver, principal: str = "ann", cluster: str = "c1", key: str = "d1") -> list[Any]:
    command = CommandIssued("Discard", "Ann", "a probe", principal=principal)
    return driver.take(driver.event(command, LETTER, key, cluster=cluster))


def grant(driver: Driver, cluster: str, **spec: Any) -> None:
    driver.take(driver.event(ObjectApplied("Grant", "g", {"principals": ["ann"], **spec}), cluster, cluster=cluster))


def test_a_letter_is_discarded_once() -> None:
    driver = Driver()
    (told,) = discard(driver)
    assert (told.subject, told.sequence, told.data) == (LETTER, 1, LetterDiscarded("Ann", "a probe", "ann"))
    assert driver.outcome == "applied"
    assert discard(driver) == []
    assert driver.outcome == "duplicate"
    driver.crash()
    assert discard(driver) == []


def test_it_is_forgotten_like_all_that_is_no_job() -> None:
    driver = Driver()
    discard(driver)
    driver.wait(driver.stage.forget_after // 1_000_000 + 1)
    assert (driver.state.jobs, driver.state.closed) == ({}, {})


@pytest.mark.parametrize(
    ("grants", "principal", "allowed"),
    [
        ({"c1": {"namespaces": ["*"]}}, "ann", True),
        ({"c1": {"namespaces": ["*"]}}, "mallory", False),
        ({"c1": {"namespaces": ["*"]}}, "", False),
        ({"c1": {"namespaces": ["research"]}}, "ann", False),
        ({"c1": {"tenants": ["*"]}}, "ann", True),
        ({"c2": {"namespaces": ["*"]}}, "ann", True),
        ({"c1": {"namespaces": ["*"]}, "c2": {"namespaces": ["*"]}}, "ann", True),
        ({"c1": {"namespaces": ["*"]}, "c2": {"namespaces": ["research"]}}, "ann", False),
    ],
)
@pytest.mark.parametrize("named", ["c1", "c2", "made up", ""])
def test_it_takes_a_grant_of_all_that_a_letter_may_be_of(grants: dict[str, Any], principal: str, allowed: bool, named: str) -> None:
    """Whichever cluster the command names: that is only said."""
    driver = Driver()
    for cluster, spec in grants.items():
        grant(driver, cluster, **spec)
    (told,) = discard(driver, principal, named)
    assert isinstance(told.data, LetterDiscarded if allowed else CommandRefused)


def test_what_is_refused_can_be_asked_again_once_it_is_granted() -> None:
    driver = Driver()
    grant(driver, "c1", namespaces=["research"])
    discard(driver)
    assert driver.outcome == "refused"
    grant(driver, "c1", namespaces=["*"])
    discard(driver, key="d2")
    assert driver.outcome == "applied"


def test_a_job_is_not_discarded() -> None:
    driver = Driver()
    driver.submit(vcjob({"name": "w"}), LETTER)
    (told,) = discard(driver)
    assert told.data.reason == "this is a job; only dead letters are discarded"


def test_pods_that_claim_its_id_hold_nothing_up() -> None:
    """A tenant may name any job; a discard does not wait for it."""
    driver = Driver()
    driver.see(pod("p1", LETTER, 1, "Running", managed=True))
    assert driver.outcome == "waiting"
    discard(driver)
    assert driver.outcome == "applied"
