"""Observed jobs follow their owner: every change that a kind's controller can make, with pods that come and go meanwhile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lifecycle_driver import SECOND, START, Driver, pod

from engine.events.inputs import JobObserved
from engine.events.jobs import JobOpened, JobPhaseChanged, JobRevised
from engine.events.outcomes import Anomaly
from engine.kubernetes.observation.jobs import observe_job

RAY = {
    "": "Initializing Suspended",
    "Initializing": "Running Waiting Suspending Failed Retrying ValidationFailed",
    "Waiting": "Running ValidationFailed",
    "Running": "Complete Failed Retrying Suspending ValidationFailed",
    "Retrying": "",
    "Suspending": "Suspended",
    "ValidationFailed": "Initializing",
    "Suspended": "",
}
"""KubeRay: `jobDeploymentStatus` → those that may follow; empty: New."""
VOLCANO = {
    "Pending": "Running Restarting Aborting Completing Terminating Aborted Completed Terminated Failed",
    "Running": "Pending Restarting Aborting Completing Terminating Completed Failed",
    "Restarting": "Pending Failed",
    "Aborting": "Aborted Restarting",
    "Aborted": "Restarting Pending",
    "Completing": "Completed",
    "Terminating": "Terminated",
}
TRAINING = {
    "Created": "Running Suspended Failed Succeeded",
    "Running": "Restarting Suspended Succeeded Failed",
    "Restarting": "Running Suspended Failed",
    "Suspended": "Running",
}
FRAMEWORK = {
    "AttemptCreationPending": "AttemptCreationRequested AttemptCompleted",
    "AttemptCreationRequested": "AttemptPreparing AttemptDeleting AttemptCompleted",
    "AttemptPreparing": "AttemptRunning AttemptDeletionPending AttemptDeleting AttemptCompleted",
    "AttemptRunning": "AttemptDeletionPending AttemptDeleting AttemptCompleted",
    "AttemptDeletionPending": "AttemptDeletionRequested AttemptDeleting AttemptCompleted",
    "AttemptDeletionRequested": "AttemptDeleting AttemptCompleted",
    "AttemptDeleting": "AttemptCompleted",
    "AttemptCompleted": "AttemptCreationPending Completed",
}
SPARK = {
    "": "SUBMITTED SUBMISSION_FAILED SUSPENDED",
    "SUBMITTED": "RUNNING SUCCEEDING FAILING SUSPENDING UNKNOWN",
    "RUNNING": "SUCCEEDING FAILING SUSPENDING UNKNOWN",
    "SUBMISSION_FAILED": "SUBMITTED FAILED",
    "SUCCEEDING": "COMPLETED PENDING_RERUN",
    "FAILING": "FAILED PENDING_RERUN",
    "PENDING_RERUN": "SUBMITTED SUBMISSION_FAILED",
    "INVALIDATING": "PENDING_RERUN",
    "UNKNOWN": "RUNNING FAILING",
    "SUSPENDING": "SUSPENDED",
    "SUSPENDED": "RESUMING",
    "RESUMING": "SUBMITTED",
    "COMPLETED": "RUNNING PENDING_RERUN SUBMITTED FAILED",
    "FAILED": "RUNNING PENDING_RERUN SUBMITTED COMPLETED",
}
"""Spark operator. A changed specification leads from each state to INVALIDATING; a list shows what has followed by then."""
SPARK = {state: f"{following} INVALIDATING" for state, following in SPARK.items() if state != "INVALIDATING"} | {
    "INVALIDATING": SPARK["INVALIDATING"]
}
WORKFLOW = {
    "": "Pending Running Failed Error",
    "Pending": "Running Failed Error",
    "Running": "Succeeded Failed Error Cancelled",
    "Succeeded": "Running",
    "Failed": "Running Succeeded",
    "Error": "Running",
}
"""Argo: `argo retry` takes an ended workflow back to Running."""
RAY_CLUSTER = {"ready": "suspended failed", "suspended": "ready failed", "failed": "ready"}
FLYTE = {"0": "1 4 5 6", "1": "2 4 6", "2": "3", "4": "5 7", "7": "5"}
TEKTON = {
    "Started": "Pending Running TaskRunCancelled",
    "Pending": "Running TaskRunTimeout",
    "Running": "Succeeded Failed ToBeRetried TaskRunTimeout TaskRunCancelled",
    "ToBeRetried": "Pending Running TaskRunCancelled",
}
KUEUE = {
    "": "QuotaReserved Admitted Evicted Finished",
    "QuotaReserved": "Admitted Evicted Finished",
    "Admitted": "Evicted Finished",
    "Evicted": "QuotaReserved Admitted Finished",
}


def _tekton(value: str) -> dict[str, Any]:
    status = {"Succeeded": "True", "Failed": "False", "TaskRunTimeout": "False", "TaskRunCancelled": "False"}
    return {"conditions": [{"type": "Succeeded", "status": status.get(value, "Unknown"), "reason": value}]}


def _kueue(value: str) -> dict[str, Any]:
    reason = {"Finished": "Succeeded", "Evicted": "Preempted"}.get(value, value)
    return {"conditions": [{"type": value, "status": "True", "reason": reason}]}


def _ray(value: str) -> dict[str, Any]:
    ended = {"Complete": "SUCCEEDED", "Failed": "FAILED", "Retrying": "FAILED", "Running": "RUNNING"}
    return {"jobDeploymentStatus": value, "jobStatus": ended.get(value, "")}


def _conditions(value: str) -> dict[str, Any]:
    return {"conditions": [{"type": "Created", "status": "True"}, {"type": value, "status": "True"}]}


KINDS = {
    "RayJob": ("ray.io/v1", RAY, "", _ray),
    "VCJob": ("batch.volcano.sh/v1alpha1", VOLCANO, "Pending", lambda value: {"state": {"phase": value}}),
    "SparkApplication": (
        "sparkoperator.k8s.io/v1beta2",
        SPARK,
        "",
        lambda value: {"applicationState": {"state": value, "errorMessage": ""}},
    ),
    "Workflow": ("argoproj.io/v1alpha1", WORKFLOW, "", lambda value: {"phase": value}),
    "RayCluster": ("ray.io/v1", RAY_CLUSTER, "ready", lambda value: {"state": value}),
    "FlyteWorkflow": ("flyte.lyft.com/v1alpha1", FLYTE, "0", lambda value: {"phase": int(value)}),
    "TaskRun": ("tekton.dev/v1", TEKTON, "Started", _tekton),
    "Workload": ("kueue.x-k8s.io/v1beta1", KUEUE, "", _kueue),
    "PyTorchJob": ("kubeflow.org/v1", TRAINING, "Created", _conditions),
    "Framework": ("frameworkcontroller.microsoft.com/v1", FRAMEWORK, "AttemptCreationPending", lambda value: {"state": value}),
}


def seen(kind: str, version: int, status: dict[str, Any]) -> Any:
    return observe_job(
        {
            "apiVersion": KINDS[kind][0] if kind in KINDS else "batch/v1" if kind == "Job" else None,
            "kind": "Job" if kind == "VCJob" else kind,
            "metadata": {"name": "train", "uid": "j1", "resourceVersion": str(version)},
            "status": status,
        }
    )


def changes(kind: str) -> list[tuple[str, str]]:
    table = KINDS[kind][1]
    return [(value, then) for value, following in table.items() for then in following.split(" ")]


@pytest.mark.parametrize(("kind", "value", "then"), [(kind, *change) for kind in KINDS for change in changes(kind)])
@pytest.mark.parametrize("running", [False, True])
def test_a_job_follows_each_change_that_its_controller_can_make(kind, value, then, running):
    driver, status = Driver(), KINDS[kind][3]
    if running:
        driver.see(pod("a", "j1", 1, "Running", kind=kind, owner="train", node="n", bound=1, running=2))
    for version, one in enumerate((value, then), 1):
        shown = seen(kind, version, status(one))
        driver.owner(shown)
        assert shown.phase in {driver.phase(), None}
        assert driver.job().reason == shown.reason
    assert not driver.of(Anomaly)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_pods_coming_and_going_do_not_change_a_phase_the_owner_states(kind, data):
    table, value, status = KINDS[kind][1:]
    driver = Driver()
    for step in range(data.draw(st.integers(1, 12))):
        shown = seen(kind, step + 1, status(value))
        driver.owner(shown)
        phase = driver.phase()
        assert shown.phase in {phase, None}
        one = pod(f"p{step}", "j1", 1, "Running", kind=kind, owner="train", node="n", bound=step, running=step + 1)
        if data.draw(st.booleans()):
            driver.see(one)
            assert driver.phase() == phase
        if data.draw(st.booleans()):
            ended = replace(one, version="2", phase="Succeeded", ended=START + 99 * SECOND)
            driver.see(ended)
            assert driver.phase() == phase
        if value not in table:
            break
        value = data.draw(st.sampled_from(table[value].split(" ")))
    assert not driver.of(Anomaly)


# --- owners that count pods -----------------------------------------------------------------------------------------------------

SUSPENDED = {"conditions": [{"type": "Suspended", "status": "True", "lastTransitionTime": "1970-01-12T13:47:00Z"}]}
"""Since START + 20 s."""


def running(uid: str, at: float = 2, **fields: Any) -> Any:
    return pod(uid, "j1", 1, "Running", kind="Job", owner="train", node="n", bound=1, running=at, **fields)


def failed(uid: str, at: float) -> Any:
    return replace(running(uid, ended=at), version="2", phase="Failed", reason="DeletedByApi")


def times(driver: Driver) -> list[tuple[str, int]]:
    return [
        (event.data.phase, (event.time - START) // SECOND) for event in driver.events if isinstance(event.data, JobPhaseChanged)
    ]


def test_a_batch_job_runs_from_the_first_container_on_and_until_its_end():
    """Its controller counts a pod as active before it runs, and none just before the end."""
    driver = Driver()
    pending = pod("a", "j1", 1, "Pending", kind="Job", owner="train")
    driver.owner(seen("Job", 1, {}))
    driver.see(pending)
    driver.owner(seen("Job", 2, {"active": 1, "ready": 0}))
    driver.see(replace(running("a"), version="2"))
    driver.owner(seen("Job", 3, {"active": 1, "ready": 0}))  # it lags behind
    driver.owner(seen("Job", 4, {"active": 1, "ready": 1}))
    driver.see(replace(running("a", ended=9), version="3", phase="Succeeded"))
    driver.owner(seen("Job", 5, {"ready": 0, "uncountedTerminatedPods": {"succeeded": ["a"]}}))
    driver.owner(seen("Job", 6, {"ready": 0, "succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]}))
    assert driver.path() == ["Running", "Completed"]
    assert times(driver)[0] == ("Running", 2)


def test_a_count_that_is_read_before_its_pods_start_starts_nothing():
    driver = Driver()
    driver.see(pod("a", "j1", 1, "Pending", kind="Job", owner="train"))
    driver.owner(seen("Job", 2, {"active": 1, "ready": 1}))
    assert driver.phase() == "Pending"
    driver.see(replace(running("a"), version="2"))
    assert times(driver) == [("Running", 2)]


@pytest.mark.parametrize(("written", "begin"), [("1970-01-12T14:16:45Z", 1805), (None, 1810)])
def test_counts_begin_a_phase_with_their_last_write_or_their_arrival(written, begin):
    """Not with the job's start time."""
    driver, start = Driver(), "1970-01-12T13:46:40Z"
    metadata = {"name": "train", "uid": "j1", "creationTimestamp": start, "managedFields": [{"time": written}]}
    status = {"active": 1, "ready": 1, "startTime": start}
    job = observe_job({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "status": status})
    driver.owner(job, at=1810)
    driver.see(running("a", 1800))
    assert times(driver) == [("Running", begin)]


SUSPEND = {"conditions": [{"type": "Suspended", "status": "True"}]}
END = {kind: {"conditions": [{"type": kind, "status": "True"}]} for kind in ("Complete", "Completed", "Failed")}
READY = {
    "Job": {"active": 1, "ready": 1},
    "JobSet": {"replicatedJobsStatus": [{"name": "w", "ready": 1}]},
    "TrainJob": {"jobsStatus": [{"name": "w", "ready": 1}]},
}


@pytest.mark.parametrize("kind", READY)
@pytest.mark.parametrize("failed", [False, True])
def test_owners_that_count_pods_pass_suspension_and_retries_to_their_end(kind, failed):
    end = END["Failed"] if failed else END["Completed" if kind == "JobSet" else "Complete"]
    driver, ready = Driver(), READY[kind]
    for version, status in enumerate(({}, ready, {}, ready, SUSPEND, {}, SUSPEND, {}, ready, end), 1):
        driver.owner(seen(kind, version, status))
    assert driver.path() == ["Running", "Pending", "Running", "Failed" if failed else "Completed"]
    assert not driver.of(Anomaly)
    driver.owner(seen(kind, 11, ready))
    assert len(driver.of(Anomaly)) == 1  # its end was final


def test_a_raycluster_runs_with_its_head_and_until_it_is_deleted():
    """Its state is empty until all of its pods are ready."""
    driver = Driver()
    driver.owner(seen("RayCluster", 1, {}))
    head = replace(running("a", 5), kind="RayCluster")
    driver.see(head)
    driver.owner(seen("RayCluster", 2, {"state": "ready"}), at=60)
    driver.see(replace(head, version="2", phase="Succeeded", ended=START + 90 * SECOND))
    driver.owner(seen("RayCluster", 3, {"state": "failed"}), at=100)
    assert (driver.path(), driver.job().reason) == (["Running"], "failed")
    driver.delete()
    assert driver.path() == ["Running", "Terminated"]


def test_a_workflow_runs_between_its_steps_and_ends_as_it_says():
    driver = Driver()
    driver.owner(seen("Workflow", 1, {"phase": "Running"}))
    for uid, begin, end in (("a", 5, 60), ("b", 120, 180)):
        step = replace(running(uid, begin), kind="Workflow", task=uid)
        driver.see(step)
        driver.see(replace(step, version="2", phase="Succeeded", ended=START + end * SECOND))
    driver.owner(seen("Workflow", 2, {"phase": "Failed", "message": "step c: retries exhausted"}), at=240)
    driver.owner(seen("Workflow", 3, {"phase": "Running"}), at=300)  # `argo retry`
    driver.owner(seen("Workflow", 4, {"phase": "Succeeded"}), at=360)
    assert times(driver) == [("Running", 0), ("Failed", 240), ("Running", 300), ("Completed", 360)]


def test_a_spark_application_that_runs_again_ends_again():
    driver = Driver()
    driver.see(pod("a", "j1", 1, "Running", kind="SparkApplication", owner="train", node="n", bound=1, running=2))
    states = ("RUNNING", "COMPLETED", "INVALIDATING", "PENDING_RERUN", "SUBMITTED", "RUNNING", "FAILING", "FAILED")
    for version, state in enumerate(states, 1):
        driver.owner(seen("SparkApplication", version, {"applicationState": {"state": state}}), at=10 * version)
        if state == "COMPLETED":
            driver.see(replace(running("a", ended=19), version="2", phase="Succeeded", kind="SparkApplication"))
        if state == "SUBMITTED":
            driver.see(replace(running("b", 55), kind="SparkApplication", created=START + 52 * SECOND))
    assert times(driver) == [
        ("Running", 2),
        ("Completed", 20),
        ("Restarting", 30),
        ("Pending", 50),
        ("Running", 60),
        ("Failed", 80),
    ]
    assert [attempt.phase for attempt in driver.job().attempts] == ["Succeeded", "Running"]


def test_a_retried_pod_takes_no_batch_job_back_to_pending():
    driver = Driver()
    driver.owner(seen("Job", 1, {"active": 1, "ready": 0}))
    driver.see(running("a"))
    driver.see(failed("a", 9))
    driver.owner(seen("Job", 2, {"ready": 0, "uncountedTerminatedPods": {"failed": ["a"]}}))
    driver.see(pod("b", "j1", 1, "Pending", kind="Job", owner="train", created=10))
    driver.owner(seen("Job", 3, {"active": 1, "ready": 0, "failed": 1}))
    driver.see(replace(running("b", 11), version="2", created=START + 10 * SECOND))
    assert driver.path() == ["Running"]


@pytest.mark.parametrize("kind", ["Job", "PyTorchJob", "JobSet", "TrainJob"])
def test_a_suspended_job_is_pending_while_its_pods_end_then_runs_again(kind):
    driver = Driver()
    driver.see(running("a"))
    driver.owner(replace(seen("Job", 1, {"active": 1, "ready": 1}), kind=kind))
    driver.owner(replace(seen("Job", 2, {"terminating": 1, **SUSPENDED}), kind=kind))
    driver.see(replace(running("a"), version="2", phase="Terminating", terminating=START + 20 * SECOND))
    driver.see(replace(failed("a", 22), version="3"))
    assert (driver.phase(), driver.job().reason) == ("Pending", "JobSuspended")
    assert times(driver)[-1] == ("Pending", 20)
    driver.owner(replace(seen("Job", 3, {"active": 1, "ready": 0}), kind=kind))
    assert (driver.phase(), driver.job().reason) == ("Pending", None)
    driver.see(running("b", 40))
    assert times(driver)[-1] == ("Running", 40)


def test_a_value_that_nobody_knows_is_shown_as_the_reason_and_ends_nothing():
    driver = Driver()
    driver.owner(seen("VCJob", 1, {"state": {"phase": "Running"}}))
    driver.owner(seen("VCJob", 2, {"state": {"phase": "Hibernating"}}))
    assert (driver.phase(), driver.job().reason) == ("Running", "Hibernating")
    driver.owner(seen("VCJob", 3, {"state": {"phase": "Running"}}))
    assert (driver.phase(), driver.job().reason) == ("Running", None)
    driver.owner(seen("VCJob", 4, {"state": {"phase": "Completed"}}))
    driver.owner(seen("VCJob", 5, {"state": {"phase": "Hibernating"}}))
    assert (driver.phase(), driver.job().reason) == ("Completed", None)


def test_whether_the_owner_decides_is_recorded_when_it_changes():
    driver = Driver()
    driver.owner(seen("VCJob", 1, {}))
    driver.owner(seen("VCJob", 2, {"state": {"phase": "Running"}}))
    assert [opened.owner_decides for opened in driver.of(JobOpened)] == [True]
    assert driver.of(JobRevised) == []
    other = Driver()
    other.see(running("a"))
    for version, status in enumerate(({"ready": 1}, SUSPENDED, {"active": 1, "ready": 0}), 1):
        other.owner(seen("Job", version, status))
    decided = [revised.owner_decides for revised in other.of(JobRevised) if revised.owner_decides is not None]
    assert decided == [True, False]


# --- what the controller counts -------------------------------------------------------------------------------------------------


def counted(retries: int, version: int, phase: str) -> dict[str, Any]:
    return {"state": {"phase": phase}, "retryCount": retries, "version": version}


def test_retries_and_versions_of_a_vcjob_are_those_of_its_status():
    driver = Driver()
    driver.owner(seen("VCJob", 1, counted(0, 0, "Running")))
    driver.owner(seen("VCJob", 2, counted(1, 0, "Restarting")))
    driver.owner(seen("VCJob", 3, counted(1, 0, "Pending")))
    driver.owner(seen("VCJob", 4, counted(1, 1, "Pending")))
    driver.see(pod("a", "j1", 1, "Running", kind="VCJob", owner="train", node="n", bound=1, running=2))
    driver.owner(seen("VCJob", 5, counted(1, 1, "Completed")))
    assert [(change.phase, change.retry_count, change.version) for change in driver.of(JobPhaseChanged)] == [
        ("Running", 0, 0),
        ("Restarting", 1, 0),
        ("Pending", 1, 0),
        ("Completed", 1, 1),
    ]
    assert [(revised.retry_count, revised.job_version) for revised in driver.of(JobRevised)] == [(1, None), (None, 1)]
    assert (driver.job().retry_count, driver.job().version) == (1, 1)


def test_what_was_counted_before_the_job_was_seen_first_counts():
    driver = Driver()
    driver.owner(seen("VCJob", 7, counted(2, 3, "Running")))
    assert (driver.job().retry_count, driver.job().version) == (2, 3)
    assert driver.of(JobPhaseChanged)[0].retry_count == 2


@pytest.mark.parametrize(
    ("kind", "status", "retries"),
    [
        ("RayJob", {"jobDeploymentStatus": "Running", "failed": 1, "succeeded": 0}, 1),
        ("RayJob", {"jobDeploymentStatus": "Retrying", "failed": 1}, 1),
        ("RayJob", {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED", "failed": 1, "succeeded": 1}, 1),
        ("RayJob", {"jobDeploymentStatus": "Failed", "jobStatus": "FAILED", "failed": 1}, 0),
        ("RayJob", {"jobDeploymentStatus": "Failed", "jobStatus": "FAILED", "failed": 3}, 2),
        ("RayJob", {"jobDeploymentStatus": "Failed", "reason": "ValidationFailed", "failed": 0}, 0),
        ("RayJob", {"jobDeploymentStatus": "Running"}, None),
        ("SparkApplication", {"executionAttempts": 1, "applicationState": {"state": "FAILED"}}, 0),
        ("SparkApplication", {"executionAttempts": 3, "applicationState": {"state": "RUNNING"}}, 2),
        ("Framework", {"state": "AttemptRunning", "retryPolicyStatus": {"totalRetriedCount": 2}}, 2),
        ("JobSet", {"restarts": 2}, 2),
        ("VCJob", {"state": {"phase": "Pending"}}, 0),
        ("PyTorchJob", _conditions("Running"), None),
    ],
)
def test_each_kind_has_its_own_count_of_retries(kind, status, retries):
    assert seen(kind, 1, status).retry_count == retries


def part(version: str, phase: Any = "Running", **fields: Any) -> JobObserved:
    """A Job that another job controls."""
    return JobObserved("sub", "Job", phase=phase, version=version, part=True, **fields)


def test_a_part_of_another_job_opens_none_and_its_deletion_is_no_request() -> None:
    driver = Driver()
    driver.owner(part("1"), "sub")
    assert driver.outcome == "unchanged"
    driver.delete("sub", "2", part=True)
    assert driver.outcome == "unchanged"
    assert driver.events == []


def test_a_part_that_its_pods_have_opened_follows_its_object() -> None:
    """Its pods were read without it, or by an earlier release."""
    driver = Driver()
    driver.see(pod("p", "sub", 1, "Running", kind="Job", owner="sub", node="n", running=2))
    driver.owner(part("2", "Completed", ended=START + 9 * SECOND), "sub")
    assert driver.phase("sub") == "Completed"
    driver.delete("sub", "3", part=True)
    assert driver.job("sub").object_deleted is not None
