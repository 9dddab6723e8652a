"""Pods that a pod controls belong to the job of that pod, whichever is observed first."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest
from lifecycle_driver import SECOND, START, Driver, pod, vcjob

from engine.events.attempts import AttemptStarted
from engine.events.inputs import POD, JobObserved, PodObserved
from engine.events.jobs import JobOpened
from engine.events.outcomes import Anomaly
from engine.lifecycle.stage import LifecycleStage
from engine.lifecycle.steps import RELEASED

OWNED: dict[str, Any] = {"kind": "SparkApplication", "owner": "agg"}


def leader(version: int = 1, phase: str = "Running", job: str = "app", **fields: Any) -> PodObserved:
    return pod("driver", job, version, phase, node="n", running=2, **{**OWNED, **fields})


def follower(uid: str, version: int = 1, phase: str = "Running", **fields: Any) -> PodObserved:
    """A pod that the driver's pod controls."""
    return pod(uid, "driver", version, phase, kind=POD, owner="agg-driver", node="n", running=3, **fields)


def jobs_of_pods(driver: Driver) -> dict[str, str]:
    return {event.data.uid: event.subject for event in driver.events if isinstance(event.data, AttemptStarted)}


@pytest.mark.parametrize("crashed", [False, True])
@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_the_pods_of_a_driver_are_of_its_job_in_any_order(order: tuple[int, ...], crashed: bool) -> None:
    driver = Driver()
    seen = [leader(), follower("x"), follower("y")]
    for place in order:
        driver.see(seen[place])
        if crashed:
            driver.crash()
    driver.see(follower("x", 2, "Succeeded", ended=9))
    assert jobs_of_pods(driver) == {"driver": "app", "x": "app", "y": "app"}
    assert driver.of(Anomaly) == []
    assert [one.name for one in driver.of(JobOpened)] == ["agg"]


def test_the_pods_of_a_driver_without_owner_are_of_its_own_job() -> None:
    driver = Driver()
    driver.see(follower("x"))
    driver.see(leader(job="driver", kind=POD, owner=None))
    assert jobs_of_pods(driver) == {"driver": "driver", "x": "driver"}


def test_a_pod_of_a_pod_of_a_pod_is_of_the_first_ones_job() -> None:
    driver = Driver()
    driver.see(leader())
    driver.see(follower("x"))
    driver.see(pod("z", "x", 1, "Running", kind=POD, owner="agg-exec-1"))
    assert jobs_of_pods(driver)["z"] == "app"


def test_more_pods_than_one_step_releases_wait_for_their_driver() -> None:
    driver = Driver()
    for number in range(2 * RELEASED + 1):
        driver.see(follower(f"x{number}"))
    driver.see(leader())
    assert set(jobs_of_pods(driver).values()) == {"app"}
    assert len(jobs_of_pods(driver)) == 2 * RELEASED + 2


def test_pods_whose_driver_never_comes_are_one_job_after_the_wait() -> None:
    driver = Driver()
    driver.see(follower("x"))
    assert driver.outcome == "waiting"
    driver.see(follower("y"))
    driver.wait(61)
    assert jobs_of_pods(driver) == {"x": "driver", "y": "driver"}
    (opened,) = driver.of(JobOpened)
    assert (opened.kind, opened.name) == (POD, "agg-driver")
    driver.see(leader())
    driver.see(follower("x", 2, "Succeeded", ended=9))
    assert jobs_of_pods(driver) == {"x": "app", "y": "driver", "driver": "app"}


def test_a_pod_that_a_replica_of_a_managed_job_controls_is_no_replica() -> None:
    driver = Driver()
    driver.submit(vcjob({"name": "w"}))
    driver.run("w")
    replica = driver.job().attempts[0].uid
    assert replica is not None
    driver.see(pod("x", replica, 1, "Running", kind=POD, owner="train-w-0", node="n", running=3))
    assert jobs_of_pods(driver)["x"] == replica
    assert list(driver.job().by_uid) == [replica]


def worker(uid: str, version: int, *, chain: bool, **fields: Any) -> PodObserved:
    """A pod of a RayCluster of a RayJob; `chain`: the RayCluster was read with it."""
    whose = pod(uid, "c", version, "Running", kind="RayCluster", owner="rj-c", node="n", running=2, **fields)
    return replace(whose, job="rj", kind="RayJob", owner="rj", through="rj-c", controller="c", chained=True) if chain else whose


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("crashed", [False, True])
def test_a_controllers_pods_are_one_job_if_a_later_command_reads_less(crashed: bool, closed: bool) -> None:
    driver = Driver()
    driver.see(worker("x", 1, chain=True))
    if closed:
        driver.see(replace(worker("x", 2, chain=True), phase="Succeeded", ended=START + 9 * SECOND))
        assert driver.phase("rj") == "Completed"
    if crashed:
        driver.crash()
    driver.see(worker("y", 3, chain=False))
    assert jobs_of_pods(driver) == {"x": "rj", "y": "rj"}
    assert driver.of(Anomaly) == []
    assert [one.name for one in driver.of(JobOpened)] == ["rj"]


def test_a_job_that_a_pod_names_and_that_is_known_has_it() -> None:
    driver = Driver()
    driver.see(worker("x", 1, chain=False))
    driver.owner(JobObserved("rj", "RayJob", phase="Running", version="2"), "rj")
    for version, (uid, chain) in enumerate((("y", True), ("z", False)), 3):
        driver.see(worker(uid, version, chain=chain))
    assert jobs_of_pods(driver) == {"x": "c", "y": "rj", "z": "c"}
    assert driver.of(Anomaly) == []


@pytest.mark.parametrize("crashed", [False, True])
def test_the_pods_of_an_adopter_are_its_own(crashed: bool) -> None:
    driver = Driver()
    driver.see(worker("x", 1, chain=True))
    driver.see(pod("x", "d", 2, "Running", kind="Job", owner="adopter", node="n", running=2))
    if crashed:
        driver.crash()
    driver.see(pod("y", "d", 3, "Running", kind="Job", owner="adopter", node="n", running=2))
    assert jobs_of_pods(driver) == {"x": "rj", "y": "d"}


def test_an_annotation_joins_no_job_by_what_controls_its_pods() -> None:
    driver = Driver()
    driver.see(worker("x", 1, chain=True))
    driver.see(pod("y", "c", 2, "Running", kind=POD, managed=True, node="n", running=2))
    driver.wait(61)
    assert jobs_of_pods(driver)["y"] not in {"rj", "c"}


def test_what_controlled_the_pods_of_a_forgotten_job_is_forgotten() -> None:
    driver = Driver(LifecycleStage(forget_after=10 * SECOND))
    driver.see(replace(worker("x", 1, chain=True), phase="Succeeded", ended=START + 9 * SECOND))
    driver.wait(20)
    assert driver.state.pod_jobs == {}
