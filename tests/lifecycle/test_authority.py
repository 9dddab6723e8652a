"""Grants: who may speak for which namespace or tenant of a cluster, and that nobody needs one where there is none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from lifecycle_driver import CLUSTER, ELSEWHERE, Driver, pod, records, vcjob
from msgspec.structs import force_setattr

from engine.events.bounds import FAULT_CHARACTERS
from engine.events.ids import observation_id
from engine.events.inputs import (
    CommandIssued,
    CustomEventRaised,
    EffectReported,
    JobDeleted,
    JobObserved,
    JobSubmitted,
    JobUpdated,
    ObjectApplied,
    ObjectDeleted,
    RowUnreadable,
)
from engine.events.outcomes import CommandRefused, JobRejected
from engine.kubernetes.manifests.linear_patterns import compiled
from engine.lifecycle import indexes
from engine.lifecycle.authority import objection
from engine.lifecycle.claims import Claim

LAHAR = {"customEvents": {"Checkpointed": None}}


def grant(driver: Driver, name: str = "g", cluster: str = "c1", **spec: Any) -> None:
    driver.take(driver.event(ObjectApplied("Grant", name, spec), cluster, cluster=cluster))


def manifest(namespace: str = "research", tenant: str | None = None) -> dict[str, Any]:
    made = vcjob({"name": "w"}, lahar=LAHAR)
    made["metadata"]["namespace"] = namespace
    if tenant is not None:
        made["metadata"]["labels"] = {"lahar/tenant": tenant}
    return made


def submitted(driver: Driver, principal: str, **fields: Any) -> str:
    driver.take(driver.event(JobSubmitted(manifest(**fields), principal=principal), "j1"))
    return driver.outcome


@pytest.fixture
def driver() -> Driver:
    """A job of research, for which ann may speak."""
    driver = Driver()
    grant(driver, principals=["ann"], namespaces=["research"])
    assert submitted(driver, "ann") == "applied"
    return driver


def grown() -> dict[str, Any]:
    made = manifest()
    made["spec"]["tasks"][0]["replicas"] = 2
    return made


SAID = [
    CommandIssued("AbortJob"),
    CommandIssued("Unpark"),
    CustomEventRaised("Checkpointed"),
    EffectReported("effect", "failed"),
    JobUpdated(grown()),
    JobDeleted("9", "research"),
]


@pytest.mark.parametrize("data", SAID, ids=lambda data: data.TYPE)
@pytest.mark.parametrize("principal", ["mallory", "", "*"])
def test_who_has_no_grant_is_refused(driver: Driver, data: Any, principal: str) -> None:
    before = driver.job().version, driver.phase(), driver.job().tasks["w"].spec.replicas
    force_setattr(data, "principal", principal)
    (refused,) = driver.of(CommandRefused, driver.take(driver.event(data, "j1")))
    who = repr(principal) if principal else "a producer without a principal"
    assert refused.reason == f"{who} may not speak for namespace research: no Grant of cluster c1 says so"
    assert (driver.job().version, driver.phase(), driver.job().tasks["w"].spec.replicas) == before


@pytest.mark.parametrize("data", SAID[2:], ids=lambda data: data.TYPE)
def test_who_has_one_is_heard(driver: Driver, data: Any) -> None:
    force_setattr(data, "principal", "ann")
    driver.take(driver.event(data, "j1"))
    assert driver.outcome == "applied"


def test_a_submission_without_a_grant_is_rejected() -> None:
    driver = Driver()
    grant(driver, principals=["ann"], namespaces=["research"])
    assert submitted(driver, "mallory") == "rejected"
    ((fault,),) = (one.faults for one in driver.of(JobRejected))
    assert (fault.path, fault.message.split(":")[0]) == ("metadata.namespace", "'mallory' may not speak for namespace research")


def test_the_manifest_of_who_may_not_speak_is_not_judged() -> None:
    """It may take a second: RE2 compiles patterns, jsonschema judges schemas."""
    driver = Driver()
    grant(driver, principals=["ann"], namespaces=["research"])
    patterns = [f"[ab]{{{n}}}" for n in range(9)]
    dear = manifest() | {"lahar": {"customEvents": {"E": {"patternProperties": dict.fromkeys(patterns, True)}}}}
    compiled.cache_clear()
    driver.take(driver.event(JobSubmitted(dear, principal="mallory"), "j1"))
    assert (driver.outcome, compiled.cache_info().misses) == ("rejected", 0)
    driver.take(driver.event(JobSubmitted(dear, principal="ann"), "j1"))
    assert (driver.outcome, compiled.cache_info().misses) == ("applied", 9)


def test_a_refusal_is_short_whatever_namespace_the_manifest_names() -> None:
    driver = Driver()
    grant(driver, principals=["ann"], namespaces=["research"])
    assert submitted(driver, "mallory", namespace="n" * 100_000) == "rejected"
    assert len(driver.of(JobRejected)[-1].faults[0].message) == FAULT_CHARACTERS


def test_an_unauthorized_caller_learns_nothing_of_a_manifests_faults() -> None:
    driver = Driver()
    grant(driver, principals=["ann"], namespaces=["research"])
    wrong = manifest()
    wrong["spec"]["tasks"] = wrong["metadata"]["annotations"] = 5
    for principal, path in (("mallory", "metadata.namespace"), ("ann", "metadata.annotations")):
        driver.take(driver.event(JobSubmitted(wrong, principal=principal), "j1"))
        assert (driver.outcome, driver.of(JobRejected)[-1].faults[0].path) == ("rejected", path)


@pytest.mark.parametrize(
    ("spec", "fields", "outcome"),
    [
        ({"namespaces": ["research"]}, {}, "applied"),
        ({"namespaces": ["other"]}, {}, "rejected"),
        ({"namespaces": ["*"]}, {}, "applied"),
        # A label would bill another tenant.
        ({"namespaces": ["research"]}, {"tenant": "other"}, "rejected"),
        ({"namespaces": ["*"]}, {"tenant": "other"}, "rejected"),
        ({"namespaces": ["research"], "tenants": ["other"]}, {"tenant": "other"}, "applied"),
        ({"namespaces": ["research"], "tenants": ["other"]}, {}, "rejected"),
        ({"tenants": ["other"]}, {"tenant": "other"}, "applied"),
        ({"tenants": ["*"]}, {"namespace": "any"}, "applied"),
        ({}, {}, "rejected"),
    ],
)
def test_what_a_grant_covers(spec: dict[str, Any], fields: dict[str, str], outcome: str) -> None:
    driver = Driver()
    grant(driver, principals=["ann", "bob"], **spec)
    assert submitted(driver, "bob", **fields) == outcome


def test_grants_add_up_and_end_with_their_object(driver: Driver) -> None:
    grant(driver, "second", principals=["*"], tenants=["research"])
    driver.take(driver.event(CustomEventRaised("Checkpointed"), "j1"))
    assert driver.outcome == "applied"
    driver.crash()
    driver.take(driver.event(ObjectDeleted("Grant", "second"), "c1"))
    driver.take(driver.event(CustomEventRaised("Checkpointed"), "j1"))
    assert driver.outcome == "refused"


def test_without_a_grant_all_may_and_grants_of_other_clusters_do_not_count() -> None:
    driver = Driver()
    grant(driver, cluster=ELSEWHERE, principals=["ann"], namespaces=["research"])
    assert submitted(driver, "mallory") == "applied"
    driver.command("AbortJob")
    assert driver.outcome == "applied"


def test_a_command_to_a_parked_job_is_held_and_judged_when_it_is_released(driver: Driver) -> None:
    parked = driver.stage.park(
        driver.state, driver.event(CommandIssued("AbortJob", principal="mallory"), "j1"), driver.now, "broken"
    )
    driver.drain(parked)
    before = records(driver.state)["job/j1"]
    driver.take(driver.event(CommandIssued("Unpark", principal="mallory"), "j1"))
    assert driver.outcome == "refused"
    assert driver.job().parked
    assert before != records(driver.state)["job/j1"]
    driver.take(driver.event(CommandIssued("Unpark", principal="ann"), "j1"))
    assert not driver.job().parked
    assert driver.of(CommandRefused)[-1].command == "AbortJob"
    assert driver.phase() == "Pending"


@pytest.mark.parametrize("principal", ["mallory", "ann"])
def test_who_names_no_cluster_gets_round_no_grant(principal: str) -> None:
    driver = Driver()
    submission = driver.event(JobSubmitted(manifest(), principal=principal), "j1", cluster="")
    grant(driver, principals=["ann"], namespaces=["research"])
    driver.take(submission)
    assert driver.outcome == "rejected"
    grant(driver, "own", cluster="", principals=["ann"], namespaces=["research"])
    driver.take(driver.event(JobSubmitted(manifest(), principal=principal), "j2", cluster=""))
    assert driver.outcome == ("applied" if principal == "ann" else "rejected")


def test_a_revoked_grant_is_not_restored_by_an_older_observation(driver: Driver) -> None:
    grant(driver, principals=["root"], namespaces=["*"])
    driver.take(driver.event(ObjectApplied("Grant", "b", {"principals": ["bob"], "namespaces": ["research"]}, "5"), "c1"))
    driver.take(driver.event(ObjectDeleted("Grant", "b", "7"), "c1"))
    driver.crash()
    driver.take(driver.event(ObjectApplied("Grant", "b", {"principals": ["bob"], "namespaces": ["research"]}, "6"), "c1"))
    driver.take(driver.event(CommandIssued("AbortJob", principal="bob"), "j1"))
    assert driver.outcome == "refused"


def test_what_is_asked_of_an_observed_job_needs_a_grant_too(driver: Driver) -> None:
    """But that its object is gone is no request."""
    driver.see(pod("u", "seen", 1, "Running", node="n", running=1, namespace="elsewhere"))
    driver.take(driver.event(EffectReported("effect", "failed", principal="mallory"), "seen"))
    assert "'mallory' may not speak for namespace elsewhere" in driver.of(CommandRefused)[-1].reason
    driver.take(driver.event(JobDeleted("9", "elsewhere", principal="mallory"), "seen"))
    assert driver.outcome == "applied"


@pytest.mark.parametrize("principals", ["annabel", 5, [""], None])
def test_a_grant_that_names_nobody_covers_nobody(principals: Any) -> None:
    driver = Driver()
    grant(driver, principals=principals, namespaces=["research"])
    assert [submitted(driver, principal) for principal in ("ann", "")] == ["rejected", "rejected"]


# --- ids of inputs, which producers choose ------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", SAID, ids=lambda data: data.TYPE)
def test_what_is_refused_takes_no_id_from_those_who_may_speak(driver: Driver, data: Any) -> None:
    """Else whoever guesses the ids of what comes makes it a duplicate: the end of a pod, the deletion of the job."""
    driver.run("w", namespace="research")
    end = driver.replica("w", phase="Succeeded", node="n0", running=0, ended=5, namespace="research")
    force_setattr(data, "principal", "mallory")
    for ident in ("next", observation_id(end.uid, end.version, deleted=False)):
        driver.take(driver.event(data, "j1", ident))
        assert driver.outcome == "refused"
        driver.crash()
        driver.take(driver.event(data, "j1", ident))
        assert driver.outcome == "duplicate", "of his own"
    driver.take(driver.event(CustomEventRaised("Checkpointed", principal="ann"), "j1", "next"))
    assert driver.outcome == "applied"
    driver.see(end)
    assert driver.phase() == "Completed"


@pytest.mark.parametrize("data", [*SAID, JobSubmitted(manifest("other")), JobSubmitted(manifest())], ids=lambda data: data.TYPE)
def test_what_is_said_of_what_is_no_job_takes_no_id_from_the_job_to_come(data: Any) -> None:
    driver = Driver()
    grant(driver, principals=["ann"], namespaces=["research"])
    force_setattr(data, "principal", "mallory")
    for outcome in (("refused", "rejected", "applied"), ("duplicate",)):
        driver.take(driver.event(data, "j1", "first"))
        assert driver.outcome in outcome
        driver.crash()
    driver.take(driver.event(JobSubmitted(manifest(), principal="ann"), "j1", "first"))
    assert driver.outcome == "applied"
    driver.take(driver.event(JobSubmitted(manifest(), principal="ann"), "j1", "first"))
    assert driver.outcome == "duplicate"


OBSERVED = [
    JobObserved("n", "Job", "evil", version="1", tasks={"a": 2_000_000_000}),
    pod("u", "j1", 1, "Pending", index=20_000, namespace="evil"),
    RowUnreadable("philly-status", 3, "no time"),
    EffectReported("e", "failed", principal="mallory"),
]


@pytest.mark.parametrize("data", OBSERVED, ids=lambda data: data.TYPE)
@pytest.mark.parametrize("principal", ["", "ann"])
def test_what_is_seen_of_what_is_no_job_takes_no_id_from_the_job_to_come(data: Any, principal: str) -> None:
    driver = Driver()
    for outcome in (("rejected", "anomalous", "applied"), ("duplicate",)):
        driver.take(driver.event(data, "j1", "first"))
        assert driver.outcome in outcome
        driver.crash()
    driver.take(driver.event(JobSubmitted(manifest(), principal=principal), "j1", "first"))
    assert driver.outcome == "applied"


@pytest.mark.parametrize("data", [JobSubmitted(manifest(), principal="mallory"), RowUnreadable("philly-status", 3, "no time")])
def test_a_parked_job_holds_nothing_that_could_not_change_it(driver: Driver, data: Any) -> None:
    """It would take the room, and the ids, of the job's own."""
    driver.drain(driver.stage.park(driver.state, driver.event(CommandIssued("AbortJob"), "j1"), driver.now, "broken"))
    for outcome in (("refused", "rejected"), ("duplicate",)):
        driver.take(driver.event(data, "j1", "next"))
        assert driver.outcome in outcome
    assert len(driver.job().held) == 1
    driver.take(driver.event(CommandIssued("AbortJob", principal="ann"), "j1", "next"))
    assert (driver.outcome, len(driver.job().held)) == ("parked", 2)


def test_a_parked_submission_says_who_may_speak_for_its_job() -> None:
    driver = Driver()
    grant(driver, principals=["ann"], namespaces=["research"])
    submission = driver.event(JobSubmitted(manifest(), principal="ann"), "j1", "first")
    driver.clusters.add("c1")
    driver.drain(driver.stage.park(driver.state, submission, driver.now, "broken"))
    for ident, action in (("next", "AbortJob"), ("unpark", "Unpark")):
        driver.take(driver.event(CommandIssued(action, principal="mallory"), "j1", ident))
        assert (driver.outcome, driver.job().parked, len(driver.job().held)) == ("refused", True, 1)
    driver.take(driver.event(CommandIssued("AbortJob", principal="ann"), "j1", "next"))
    driver.take(driver.event(CommandIssued("Unpark", principal="ann"), "j1", "unpark"))
    assert (driver.outcome, driver.phase()) == ("applied", "Aborting")
    for ident in ("first", "next", "unpark"):
        driver.take(driver.event(CommandIssued("ResumeJob", principal="ann"), "j1", ident))
        assert driver.outcome == "duplicate"


def test_a_submission_that_is_rejected_when_it_is_released_takes_no_id() -> None:
    driver = Driver()
    wrong = manifest()
    wrong["spec"]["minAvailable"] = 9
    driver.clusters.add("c1")
    driver.drain(driver.stage.park(driver.state, driver.event(JobSubmitted(wrong), "j1", "first"), driver.now, "broken"))
    driver.command("Unpark")
    driver.take(driver.event(JobSubmitted(wrong), "j1", "first"))
    assert driver.outcome == "duplicate"
    driver.take(driver.event(CommandIssued("AbortJob"), "j1", "first"))
    assert driver.outcome == "refused"
    driver.take(driver.event(JobSubmitted(manifest()), "j1", "first"))
    assert driver.outcome == "duplicate"
    driver.take(driver.event(JobSubmitted(manifest()), "j1", "second"))
    assert driver.outcome == "applied"


def test_a_submission_of_an_id_that_is_taken_takes_none(driver: Driver) -> None:
    driver.take(driver.event(JobSubmitted(manifest(), principal="mallory"), "j1", "next"))
    assert driver.outcome == "refused"
    driver.take(driver.event(CommandIssued("AbortJob", principal="ann"), "j1", "next"))
    assert driver.outcome == "applied"


@pytest.mark.parametrize(
    ("job", "data"), [("j1", CommandIssued("AbortJob", principal="ann")), ("j2", JobSubmitted(manifest(), principal="ann"))]
)
def test_an_unreadable_row_takes_no_id_from_a_job(driver: Driver, job: str, data: Any) -> None:
    for outcome in ("rejected", "duplicate"):
        driver.take(driver.event(RowUnreadable("philly-status", 3, "no time"), job, "next"))
        assert driver.outcome == outcome
    driver.take(driver.event(data, job, "next"))
    assert driver.outcome == "applied"


def test_pods_of_others_that_wait_for_a_job_take_no_id_from_it() -> None:
    driver = Driver()
    driver.see(pod("u", "j1", 1, "Running", namespace="other", managed=True, node="n", running=1), key="first")
    assert driver.outcome == "waiting"
    driver.take(driver.event(JobSubmitted(manifest()), "j1", "first"))
    assert driver.outcome == "applied"


def test_however_much_is_refused_a_job_knows_its_own_inputs(monkeypatch: pytest.MonkeyPatch, driver: Driver) -> None:
    monkeypatch.setattr(indexes, "SEEN", 300)
    driver.take(driver.event(CustomEventRaised("Checkpointed", principal="ann"), "j1", "own"))
    for number in range(1_000):
        driver.take(driver.event(CommandIssued("AbortJob", principal="mallory"), "j1", f"his-{number}"))
    assert len(driver.job().seen) == 150
    driver.take(driver.event(CustomEventRaised("Checkpointed", principal="ann"), "j1", "own"))
    assert driver.outcome == "duplicate"
    for number in range(100):
        driver.take(driver.event(CustomEventRaised("Checkpointed", principal="ann"), "j1", f"own-{number}"))
    driver.take(driver.event(CustomEventRaised("Checkpointed", principal="ann"), "j1", "own"))
    assert driver.outcome == "duplicate"


def test_who_may_not_speak_for_a_parked_job_is_refused_at_once(driver: Driver) -> None:
    """What is held is bounded: he would fill it."""
    driver.drain(driver.stage.park(driver.state, driver.event(CommandIssued("AbortJob"), "j1"), driver.now, "broken"))
    driver.take(driver.event(CommandIssued("AbortJob", principal="mallory"), "j1"))
    assert (driver.outcome, len(driver.job().held)) == ("refused", 1)
    driver.take(driver.event(CommandIssued("AbortJob", principal="ann"), "j1"))
    assert (driver.outcome, len(driver.job().held)) == ("parked", 2)


class Looked(list[str]):
    """Names in a grant, which may be gone through once for each who asks."""

    times = 0

    def __iter__(self) -> Iterator[str]:
        self.times += 1
        return super().__iter__()

    def __contains__(self, name: object) -> bool:
        self.times += 1
        return super().__contains__(name)


def test_the_names_of_a_grant_are_gone_through_once_however_much_is_held() -> None:
    driver = Driver()
    names = Looked(["research"])
    grant(driver, principals=["ann"], namespaces=names)
    (applied,) = driver.state.facts.objects.values()
    applied.spec["namespaces"] = names  # type: ignore[attr-defined]  # it is a Grant
    job = driver.job()
    job.claims = {Claim(CLUSTER, f"n{number}", "w", f"n{number}"): 1 for number in range(50)}
    asks = driver.event(CommandIssued("AbortJob", principal="ann"), "j1")
    assert "may not speak" in (objection(driver.state, job, asks) or "")
    assert names.times == 1
