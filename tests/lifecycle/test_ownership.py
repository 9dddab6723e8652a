"""Annotations, owners and ids are claims: what one namespace or cluster says never changes a job of another."""

from __future__ import annotations

from typing import Any

import pytest
from lifecycle_driver import ELSEWHERE, START, Driver, pod, records, vcjob

from engine.events.attempts import AttemptStarted
from engine.events.ids import routing_key
from engine.events.inputs import CommandIssued, CustomEventRaised, EffectReported, JobDeleted, JobObserved, JobSubmitted, JobUpdated
from engine.events.jobs import JobForgotten, JobOpened
from engine.events.outcomes import Anomaly, CommandRefused
from engine.lifecycle.stage import LifecycleStage

SECOND = 1_000_000
RESTARTS = {"policies": [{"event": "PodFailed", "action": "RestartJob"}]}


@pytest.fixture
def driver() -> Driver:
    """A managed job `j1` of one running replica; a failed pod restarts it."""
    driver = Driver()
    driver.submit(vcjob({"name": "w"}, **RESTARTS))
    driver.run("w")
    return driver


def claiming(version: int = 1, phase: str = "Failed", uid: str = "evil", **fields: Any) -> Any:
    """A pod that names job `j1` by annotation, in another namespace unless said."""
    ended = {"reason": "AppFailed", "exit_code": 1, "ended": 5} if phase == "Failed" else {}
    fields = {"namespace": "tenant-evil", "task": "w", "index": 0, "managed": True, "node": "n", "running": 2, **ended, **fields}
    return pod(uid, "j1", version, phase, **fields)


def of(driver: Driver, job: str) -> list[Any]:
    return [event.data for event in driver.events if event.subject == job]


def opened(driver: Driver) -> list[str]:
    """Ids of the jobs other than `j1` that were opened."""
    return [event.subject for event in driver.events if isinstance(event.data, JobOpened) and event.subject != "j1"]


@pytest.mark.parametrize(
    ("where", "fields"),
    [
        ({}, {}),
        ({}, {"attempt": 1}),
        ({}, {"managed": False, "owner": "train"}),
        ({"cluster": ELSEWHERE}, {"namespace": "default"}),
        ({"cluster": ELSEWHERE}, {"namespace": "default", "uid": "j1-w-0-1"}),
    ],
    ids=["namespace", "attempt", "owner", "cluster", "uid of a replica"],
)
def test_a_pod_from_elsewhere_is_a_job_of_its_own(driver: Driver, where: dict[str, str], fields: dict[str, Any]) -> None:
    before = records(driver.state)["job/j1"]
    driver.see(claiming(1, "Running", **fields), **where)
    driver.see(claiming(2, **fields), **where)
    driver.gone(claiming(3, **fields), **where)
    assert records(driver.state)["job/j1"] == before
    (own,) = opened(driver)
    assert driver.phase(own) == "Failed"
    assert routing_key(own) == "j1"
    (anomaly,) = (one for one in of(driver, own) if isinstance(one, Anomaly))
    assert "names job j1, which is no job of its namespace" in anomaly.what
    assert not any(isinstance(one, Anomaly) for one in of(driver, "j1"))


def test_each_pod_that_only_claims_a_job_is_one_of_its_own(driver: Driver) -> None:
    driver.see(claiming(uid="e1"))
    driver.see(claiming(uid="e2"))
    assert len(opened(driver)) == 2


def test_pods_of_an_owner_with_a_uid_used_elsewhere_are_one_job_with_it(driver: Driver) -> None:
    for uid in ("e1", "e2"):
        driver.see(
            claiming(1, "Running", uid=uid, index=None, namespace="default", managed=False, owner="train"), cluster=ELSEWHERE
        )
    driver.take(driver.event(JobObserved("train", "Job", version="4", phase="Completed", ended=START), "j1", cluster=ELSEWHERE))
    (own,) = opened(driver)
    assert (driver.phase(own), driver.phase()) == ("Completed", "Running")
    assert sum(isinstance(one, AttemptStarted) for one in of(driver, own)) == 2
    driver.take(driver.event(JobDeleted("9", "default"), "j1", cluster=ELSEWHERE))
    assert driver.job(own).object_deleted
    assert not driver.job().object_deleted


def test_its_own_job_is_found_again_after_a_crash(driver: Driver) -> None:
    driver.see(claiming(1, "Running"))
    driver.crash()
    driver.see(claiming(2))
    (own,) = opened(driver)
    assert driver.phase(own) == "Failed"
    driver.see(claiming(2))
    assert driver.outcome == "duplicate"


def test_a_pod_that_waited_for_a_job_of_another_namespace_is_not_taken_in() -> None:
    driver = Driver()
    driver.see(claiming())
    assert driver.outcome == "waiting"
    driver.see(claiming(1, "Running", uid="good", namespace="default", name="train-w-0"))
    driver.submit(vcjob({"name": "w"}, **RESTARTS))
    assert driver.path() == ["Running"]
    assert list(driver.job().by_uid) == ["good"]
    (own,) = opened(driver)
    assert driver.job(own).namespace == "tenant-evil"


def test_a_pod_that_waited_in_another_cluster_does_not_move_the_job_there() -> None:
    driver = Driver()
    driver.see(claiming(1, "Running", namespace="default"), cluster=ELSEWHERE)
    driver.submit(vcjob({"name": "w"}))
    (own,) = opened(driver)
    clusters = {(event.subject, event.clusterid) for event in driver.events if isinstance(event.data, JobOpened)}
    assert clusters == {("j1", "c1"), (own, ELSEWHERE)}


def test_a_claim_does_not_keep_the_job_from_coming() -> None:
    """The id of a job that is applied can be computed by whoever knows its manifest."""
    driver = Driver()
    driver.see(claiming())
    driver.wait(100)
    driver.see(claiming(1, "Running", uid="owned", managed=False, owner="train"))
    driver.submit(vcjob({"name": "w"}))
    assert driver.outcome == "applied"
    assert [one.namespace for one in driver.of(JobOpened) if one.managed] == ["default"]


@pytest.mark.parametrize("phase", ["Running", "Failed"])
def test_a_living_pod_cannot_hide_behind_a_forgotten_job(phase: str) -> None:
    driver = Driver(LifecycleStage(forget_after=10 * SECOND))
    driver.submit(vcjob({"name": "w"}))
    driver.run("w")
    driver.end("w")
    driver.wait(60)
    assert len(driver.of(JobForgotten)) == 1
    driver.see(claiming(1, phase, namespace="default"))
    assert driver.outcome == ("applied" if phase == "Running" else "late")
    driver.see(claiming(2, namespace="default"))
    assert [driver.phase(own) for own in opened(driver)] == (["Failed"] if phase == "Running" else [])


@pytest.mark.parametrize("data", [JobUpdated, JobSubmitted])
def test_a_manifest_of_another_namespace_changes_no_job(driver: Driver, data: Any) -> None:
    before = records(driver.state)["job/j1"]
    manifest = vcjob({"name": "w", "replicas": 3})
    manifest["metadata"]["namespace"] = "tenant-evil"
    driver.take(driver.event(data(manifest), "j1"))
    assert records(driver.state)["job/j1"] == before


@pytest.mark.parametrize("namespace", ["tenant-evil", "default"])
def test_an_object_of_another_namespace_or_cluster_deletes_no_job(driver: Driver, namespace: str) -> None:
    cluster = ELSEWHERE if namespace == "default" else "c1"
    driver.take(driver.event(JobDeleted("9", namespace), "j1", cluster=cluster))
    assert driver.outcome == "refused"
    assert driver.phase() == "Running"


@pytest.mark.parametrize(
    "data",
    [CommandIssued("AbortJob"), CustomEventRaised("Checkpointed"), EffectReported("effect", "failed")],
    ids=lambda data: data.TYPE,
)
def test_what_is_said_of_a_job_of_another_cluster_is_refused(driver: Driver, data: Any) -> None:
    driver.take(driver.event(data, "j1", cluster=ELSEWHERE))
    assert driver.outcome == "refused"
    assert driver.phase() == "Running"
    assert driver.of(CommandRefused)[-1].reason == "the job is of cluster c1, not of cluster c2"


def test_who_names_no_cluster_commands_no_job_of_one(driver: Driver) -> None:
    driver.take(driver.event(CommandIssued("AbortJob"), "j1", cluster=""))
    assert (driver.outcome, driver.phase()) == ("refused", "Running")
    assert driver.of(CommandRefused)[-1].reason == "the job is of cluster c1, not of a cluster that is not named"


def test_a_pod_of_no_cluster_displaces_no_replica_of_one(driver: Driver) -> None:
    before = records(driver.state)["job/j1"]
    driver.see(claiming(namespace="default"), cluster="")
    assert records(driver.state)["job/j1"] == before
    assert [driver.job(own).cluster for own in opened(driver)] == [""]


def test_a_job_of_no_cluster_takes_inputs_of_none_and_nothing_of_others() -> None:
    driver = Driver()
    driver.take(driver.event(JobSubmitted(vcjob({"name": "w"})), "j1", cluster=""))
    driver.take(driver.event(CommandIssued("AbortJob"), "j1"))
    assert driver.outcome == "refused"
    driver.take(driver.event(CommandIssued("AbortJob"), "j1", cluster=""))
    assert driver.outcome == "applied"
    driver.submit(vcjob({"name": "w"}))
    assert driver.job(opened(driver)[0]).cluster == "c1"


def squatted() -> Driver:
    """A pod says that its controller is `j1` before research submits the job `j1`."""
    driver = Driver()
    driver.see(claiming(1, "Running", managed=False, owner="train"))
    driver.submit(vcjob({"name": "w"}))
    assert driver.outcome == "applied"
    return driver


@pytest.mark.parametrize("crashed", [False, True])
def test_a_submission_wins_its_id_over_an_owner_that_a_pod_names(crashed: bool) -> None:
    driver = squatted()
    if crashed:
        driver.crash()
    driver.command("AbortJob")
    assert driver.outcome == "applied"
    (own,) = opened(driver)
    assert (driver.job(own).namespace, driver.phase(own)) == ("default", "Aborting")
    assert (driver.job().namespace, driver.phase()) == ("tenant-evil", "Running")


def test_a_submission_wins_its_id_back_when_it_has_ended() -> None:
    driver = squatted()
    (own,) = opened(driver)
    driver.command("TerminateJob")
    driver.reap(own)
    assert driver.phase(own) == "Terminated"
    driver.wait(700)
    driver.crash()
    assert own in driver.state.closed
    driver.command("AbortJob")
    assert [event.subject for event in driver.events if isinstance(event.data, CommandRefused)] == [own]


def test_which_of_two_submissions_is_meant_is_not_guessed() -> None:
    driver = squatted()
    second = vcjob({"name": "w"})
    second["metadata"]["namespace"] = "other"
    driver.take(driver.event(JobSubmitted(second), "j1"))
    driver.command("AbortJob")
    assert driver.outcome == "refused"


def test_a_command_for_one_cluster_does_not_reach_a_job_of_another() -> None:
    driver = squatted()
    driver.take(driver.event(CommandIssued("AbortJob"), "j1", cluster=ELSEWHERE))
    assert [event.subject for event in driver.events if isinstance(event.data, CommandRefused)] == ["j1"]


@pytest.mark.parametrize(
    ("data", "outcome"),
    [
        (JobSubmitted({"metadata": {"name": "x", "namespace": "evil"}, "kind": "Job"}), "rejected"),
        (JobUpdated({"metadata": {"name": "x", "namespace": "evil"}, "kind": "Job"}), "refused"),
        (JobDeleted("9", "evil"), "refused"),
    ],
)
def test_a_refusal_for_a_job_of_its_own_names_its_input_and_is_known_again(driver: Driver, data: Any, outcome: str) -> None:
    (made,) = driver.take(driver.event(data, "j1", "next"))
    assert (driver.outcome, made.causationid, made.subject == "j1") == (outcome, "next", False)
    driver.crash()
    driver.take(driver.event(data, "j1", "next"))
    assert driver.outcome == "duplicate"


def test_a_release_for_a_job_of_its_own_is_caused_by_the_release() -> None:
    driver = Driver()
    driver.submit(vcjob({"name": "w"}))
    wrong = JobSubmitted({"metadata": {"name": "x", "namespace": "evil"}, "kind": "Job"})
    driver.drain(driver.stage.park(driver.state, driver.event(wrong, "j1", "first"), driver.now, "broken"))
    (parked,) = (job.id for job in driver.state.jobs.values() if job.parked)
    made = driver.take(driver.event(CommandIssued("Unpark"), parked, "unpark"))
    assert {event.causationid for event in made} == {"unpark"}


# --- owners that labels name ----------------------------------------------------------------------------------------------------


def joined(uid: str = "evil", version: int = 1, phase: str = "Failed", **fields: Any) -> Any:
    """A pod of a Job `part`, whose labels say that `j1` is the owner of that."""
    ended = {"reason": "AppFailed", "exit_code": 1, "ended": 5} if phase == "Failed" else {}
    fields = {"kind": "JobSet", "owner": "set", "through": "part", "task": "w", "index": 0, "node": "n", "running": 2, **fields}
    return pod(uid, "j1", version, phase, **ended, **fields)


@pytest.mark.parametrize("namespace", ["default", "tenant-evil"])
def test_labels_join_no_managed_job(driver: Driver, namespace: str) -> None:
    before = records(driver.state)["job/j1"]
    driver.see(joined(version=1, phase="Running", namespace=namespace))
    driver.see(joined(version=2, namespace=namespace))
    driver.gone(joined(version=3, namespace=namespace))
    assert records(driver.state)["job/j1"] == before
    (own,) = opened(driver)
    assert routing_key(own) == "j1"
    told = [data.what for data in of(driver, own) if isinstance(data, Anomaly)]
    assert told == ["pod pod-evil names job j1 by its labels, but its controller is part"]


def test_labels_join_no_job_that_is_submitted_later() -> None:
    driver = Driver()
    driver.see(joined(phase="Running", namespace="tenant-evil"))
    driver.submit(vcjob({"name": "w"}, **RESTARTS))
    driver.see(joined(version=2, namespace="tenant-evil"))
    driver.see(joined("other", namespace="default"))
    managed = [job for job in driver.state.jobs.values() if job.managed]
    assert [(job.phase, job.restarts, [one.uid for one in job.attempts]) for job in managed] == [("Pending", 0, [None])]


@pytest.mark.parametrize("first", ["object", "pod"])
def test_the_pods_that_labels_join_and_the_object_are_one_job(first: str) -> None:
    driver = Driver()
    steps = [
        lambda: driver.owner(JobObserved("set", "JobSet", version="7", created=START, tasks={"w": 2})),
        lambda: [driver.see(joined(f"u{index}", phase="Running", index=index)) for index in range(2)],
    ]
    for step in steps if first == "object" else steps[::-1]:
        step()
    assert list(driver.state.jobs) == ["j1"]
    job = driver.job()
    assert (job.kind, job.name, job.phase, job.tasks["w"].counts.running) == ("JobSet", "set", "Running", 2)


def test_labels_join_no_job_of_another_namespace() -> None:
    driver = Driver()
    driver.owner(JobObserved("set", "JobSet", version="7", created=START, tasks={"w": 1}))
    driver.see(joined("good", phase="Running"))
    before = records(driver.state)["job/j1"]
    driver.see(joined(namespace="tenant-evil"))
    driver.see(joined(), cluster=ELSEWHERE)
    assert records(driver.state)["job/j1"] == before
    assert len(opened(driver)) == 2
