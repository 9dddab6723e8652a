"""A pod is one attempt of one job: the one that had it first, whoever owns the pod afterwards."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lifecycle_driver import CLUSTER, ELSEWHERE, START, Driver, pod, vcjob

from engine.events.attempts import AttemptChanged, AttemptEnded, AttemptStarted
from engine.events.inputs import OTHER, JobObserved, PodObserved
from engine.events.jobs import JobOpened
from engine.lifecycle.evolve import evolve
from engine.lifecycle.lost_pods import LOSS_WAIT
from engine.lifecycle.stage import LifecycleStage

SECOND = 1_000_000


def of_job(job: str, version: int, phase: str = "Running", uid: str = "p", **fields: Any) -> PodObserved:
    """A pod that job `job` controls."""
    return pod(uid, job, version, phase, kind="Job", owner=job, node="n", running=2, **fields)


def orphan(version: int, phase: str = "Running", uid: str = "p", **fields: Any) -> PodObserved:
    """The same pod without owner."""
    return pod(uid, uid, version, phase, node="n", running=2, **fields)


def seen_by(driver: Driver) -> set[str]:
    """Jobs that have an attempt of a pod."""
    return {event.subject for event in driver.events if isinstance(event.data, AttemptStarted)}


def owners(driver: Driver) -> list[str]:
    return [data.owner for data in driver.of(AttemptChanged) if data.owner is not None]


@pytest.mark.parametrize("crashed", [False, True])
def test_an_orphaned_and_adopted_pod_stays_with_its_first_job(crashed: bool) -> None:
    """Its new owners are noted."""
    driver = Driver()
    for seen in (of_job("old", 1), orphan(2), orphan(3, ready=True), of_job("new", 4), of_job("new", 5, "Succeeded", ended=9)):
        driver.see(seen)
        if crashed:
            driver.crash()
    assert seen_by(driver) == {"old"}
    assert owners(driver) == ["", "Job/new"]
    assert driver.phase("old") == "Completed"


def test_a_pod_that_comes_back_to_its_first_owner_is_noted_once() -> None:
    driver = Driver()
    for seen in (of_job("old", 1), of_job("new", 2), of_job("old", 3), of_job("old", 4)):
        driver.see(seen)
    assert owners(driver) == ["Job/new", "Job/old"]


def test_an_adopted_pod_without_owner_stays_a_job_of_its_own() -> None:
    driver = Driver()
    driver.see(orphan(1))
    driver.see(pod("p", "rs", 2, "Running", kind=OTHER, owner="web-5d", node="n", running=2))
    assert seen_by(driver) == {"p"}
    assert owners(driver) == ["Other/web-5d"]


def test_a_managed_replica_that_loses_its_annotation_stays_a_replica() -> None:
    driver = Driver()
    driver.submit(vcjob({"name": "w"}))
    driver.run("w")
    uid = driver.job().attempts[0].uid
    assert uid is not None
    driver.see(pod(uid, "thief", 900, "Running", kind="Job", owner="thief", node="n0", running=0, name="train-w-0"))
    assert seen_by(driver) == {"j1"}
    driver.see(pod(uid, uid, 901, "Succeeded", node="n0", running=0, ended=5, name="train-w-0"))
    assert driver.phase() == "Completed"


def of_cluster(version: int, phase: str = "Running", *, chain: bool, controller: str = "c", **fields: Any) -> PodObserved:
    """A pod of a RayCluster of a RayJob; `chain`: the RayCluster was read with it."""
    whose = pod("p", controller, version, phase, kind="RayCluster", owner=controller, node="n", running=2, **fields)
    above = replace(whose, job="rj", kind="RayJob", owner="rj", through=controller, controller=controller, chained=True)
    return above if chain else whose


@pytest.mark.parametrize("crashed", [False, True])
@pytest.mark.parametrize("chains", list(product([False, True], repeat=3)))
def test_how_much_of_a_chain_was_read_is_no_change_of_owner(chains: tuple[bool, bool, bool], crashed: bool) -> None:
    driver = Driver()
    for version, chain in enumerate(chains, 1):
        driver.see(of_cluster(version, chain=chain))
        if crashed:
            driver.crash()
    assert owners(driver) == []
    last = "rj" if any(chains) else "c"
    assert seen_by(driver) == {last if chains[0] else "c", last}
    driver.owner(JobObserved("rj", "RayJob", phase="Completed", version="9", ended=START + 60 * SECOND), last)
    driver.until(driver.now + 2 * LOSS_WAIT)
    (end,) = driver.of(AttemptEnded)
    assert (end.phase, end.reason) == ("Lost", "EndUnknown")


@pytest.mark.parametrize("chains", list(product([False, True], repeat=2)))
def test_a_controller_that_changes_below_the_same_job_is_noted_once(chains: tuple[bool, bool]) -> None:
    driver = Driver()
    driver.see(of_cluster(1, chain=True))
    for version, chain in enumerate(chains, 2):
        driver.see(of_cluster(version, chain=chain, controller="d"))
    assert owners(driver) == ["RayJob/rj" if chains[0] else "RayCluster/d"]


def test_an_owner_of_the_same_name_is_another_one() -> None:
    driver = Driver()
    driver.see(of_job("old", 1))
    for version in (2, 3):
        driver.see(pod("p", "old again", version, "Running", kind="Job", owner="old", node="n", running=2))
    assert owners(driver) == ["Job/old"]


def test_a_log_of_an_earlier_release_has_no_controllers() -> None:
    driver = Driver()
    driver.see(replace(of_cluster(1, chain=True), controller=None))
    driver.see(of_cluster(2, chain=True))
    assert owners(driver) == []


@pytest.mark.parametrize("crashed", [False, True])
def test_a_pod_that_is_orphaned_after_its_end_opens_no_job(crashed: bool) -> None:
    driver = Driver()
    driver.see(of_job("old", 1, "Succeeded", ended=9))
    assert driver.phase("old") == "Completed"
    if crashed:
        driver.crash()
    driver.see(orphan(2, "Succeeded", ended=9))
    driver.gone(orphan(3, "Succeeded", ended=9))
    assert [one.name for one in driver.of(JobOpened)] == ["old"]


def test_a_pod_that_outlives_its_deleted_job_is_followed_to_its_end() -> None:
    driver = Driver()
    driver.owner(JobObserved("old", "Job", phase="Running", version="1"), "old")
    driver.see(of_job("old", 2))
    driver.see(orphan(3))
    driver.delete("old", "4")
    driver.until(driver.now + 2 * LOSS_WAIT)
    driver.see(orphan(5, "Succeeded", ended=3000))
    (end,) = driver.of(AttemptEnded)
    assert (end.phase, end.ran) == ("Succeeded", 2998 * SECOND)
    assert driver.phase("old") == "Terminated"


def test_a_pod_that_is_gone_with_its_job_is_given_up_as_before() -> None:
    driver = Driver()
    driver.owner(JobObserved("old", "Job", phase="Running", version="1"), "old")
    driver.see(of_job("old", 2))
    driver.delete("old", "3")
    driver.until(driver.now + 2 * LOSS_WAIT)
    (end,) = driver.of(AttemptEnded)
    assert (end.phase, end.reason) == ("Lost", "EndUnknown")


def test_a_pod_adopted_within_a_list_changes_the_phase_of_its_first_job() -> None:
    driver = Driver()
    driver.see(of_job("old", 1))
    driver.see(of_job("new", 2, "Succeeded", ended=9, listed="more"))
    driver.see(of_job("new", 3, uid="q", listed="last"))
    assert (driver.phase("old"), driver.phase("new")) == ("Completed", "Running")


def test_a_uid_of_another_cluster_or_namespace_is_another_pod() -> None:
    driver = Driver()
    driver.see(of_job("a", 1))
    driver.see(of_job("b", 2), cluster=ELSEWHERE)
    driver.see(of_job("c", 3, namespace="other"))
    assert seen_by(driver) == {"a", "b", "c"}


def test_what_a_forgotten_job_had_is_forgotten_with_it() -> None:
    driver = Driver(LifecycleStage(forget_after=10 * SECOND))
    driver.see(of_job("old", 1, "Succeeded", ended=9))
    driver.crash()
    driver.wait(20)
    assert driver.state.pod_jobs == {}


@pytest.mark.parametrize("crashed", [None, "before", "after"])
@pytest.mark.parametrize("jobs", list(permutations("abc")))
def test_a_pod_of_several_jobs_is_that_of_the_next_when_one_is_forgotten(jobs: tuple[str, ...], crashed: str | None) -> None:
    """In logs of earlier releases."""
    driver = Driver(LifecycleStage(forget_after=10 * SECOND))
    for job in jobs:
        earlier = Driver()
        earlier.see(of_job(job, 1, *(("Succeeded",) if job == "a" else ()), **({"ended": 9} if job == "a" else {})))
        for event in earlier.events:
            evolve(driver.state, event)
            evolve(driver.shadow, event)
        driver.sequences |= earlier.sequences
        driver.clusters |= earlier.clusters
        driver.attempts |= earlier.attempts
        driver.phases |= earlier.phases
        driver.events += earlier.events
    for time in ("before", "after"):
        if crashed == time:
            driver.crash()
        if time == "before":
            assert driver.state.pod_jobs == {(CLUSTER, "default"): {"p": "a"}}
            driver.wait(20)
    assert driver.state.pod_jobs == {(CLUSTER, "default"): {"p": "b"}}
    driver.see(of_job("new", 2, "Succeeded", ended=9))
    assert (seen_by(driver), driver.phase("b")) == (set("abc"), "Completed")


@given(
    st.lists(st.tuples(st.sampled_from("pqr"), st.sampled_from(["a", "b", ""]), st.booleans(), st.booleans()), max_size=12),
    st.integers(0, 12),
)
def test_whatever_happens_to_its_owner_a_pod_has_one_attempt(steps: list[tuple[str, str, bool, bool]], crash: int) -> None:
    driver = Driver()
    ended: set[str] = set()
    for version, (uid, job, ends, listed) in enumerate(steps, 1):
        if version == crash:
            driver.crash()
        ended |= {uid} if ends else set()
        phase, fields = ("Succeeded", {"ended": 9}) if uid in ended else ("Running", {})
        place: Any = "more" if listed else None
        driver.see(of_job(job, version, phase, uid, **fields, listed=place) if job else orphan(version, phase, uid, **fields))
    started = [data.uid for data in driver.of(AttemptStarted)]
    assert sorted(started) == sorted({uid for uid, *_ in steps})
    first = {uid: next(job or uid for one, job, *_ in steps if one == uid) for uid in started}
    assert seen_by(driver) == set(first.values())


@pytest.mark.parametrize("first", ["pod", "object"])
def test_a_kind_configured_as_a_service_is_none_of_the_listed_jobs(first: str) -> None:
    driver = Driver(LifecycleStage(services=["Notebook", "RayCluster"]))
    if first == "object":
        driver.owner(JobObserved("jupyter", "RayCluster", phase="Running", version="1"), "j")
    driver.see(pod("p", "j", 2, "Running", kind="Notebook", owner="jupyter", node="n", running=2))
    driver.owner(JobObserved("jupyter", "RayCluster", phase="Running", version="3"), "j")
    driver.see(of_job("train", 4, uid="q"))
    assert (driver.job("j").kind, driver.job("train").kind) == (OTHER, "Job")
