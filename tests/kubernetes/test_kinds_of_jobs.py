"""Tables of the kinds of observed jobs: every status value of their API types, and what it means."""

from __future__ import annotations

from typing import Any

import pytest

from engine.kubernetes.observation.jobs import READERS, observe_job, read_kind
from engine.kubernetes.observation.kinds import (
    argo_workflow,
    batch_job,
    flyte_workflow,
    framework,
    job_set,
    kueue_workload,
    ray_cluster,
    ray_job,
    spark_application,
    tekton_run,
    train_job,
    training_jobs,
    volcano_job,
)
from engine.kubernetes.observation.kinds.job_facts import Values
from statemachines.vocabulary import FINISHED_JOB_PHASES

API: dict[str, str] = {
    "Job": "batch/v1",
    "VCJob": "batch.volcano.sh/v1alpha1",
    "JobSet": "jobset.x-k8s.io/v1alpha2",
    "TrainJob": "trainer.kubeflow.org/v1alpha1",
    "RayJob": "ray.io/v1",
    "SparkApplication": "sparkoperator.k8s.io/v1beta2",
    "Framework": "frameworkcontroller.microsoft.com/v1",
    "RayCluster": "ray.io/v1",
    "Workflow": "argoproj.io/v1alpha1",
    "FlyteWorkflow": "flyte.lyft.com/v1alpha1",
    "TaskRun": "tekton.dev/v1",
    "PipelineRun": "tekton.dev/v1",
    "Workload": "kueue.x-k8s.io/v1beta1",
}
OBSERVED = "Job JobSet PyTorchJob TFJob MPIJob TrainJob RayJob RayCluster SparkApplication Workflow Workload FlyteWorkflow TaskRun"
"""Kinds whose controllers' statuses have to be known (Kubernetes' own and other operators')."""
VOLCANO = "Pending Aborting Aborted Running Restarting Completing Completed Terminating Terminated Failed"
TABLES: dict[str, tuple[Values, str]] = {
    # table, and the values of the API type
    "Job": (batch_job.CONDITIONS, "Suspended Complete Failed FailureTarget SuccessCriteriaMet"),
    "VCJob": (
        volcano_job.PHASES,
        VOLCANO,
    ),
    "JobSet": (job_set.CONDITIONS, "Completed Failed Suspended StartupPolicyInProgress StartupPolicyCompleted"),
    "TrainJob": (train_job.CONDITIONS, "Suspended Complete Failed"),
    "PyTorchJob": (training_jobs.CONDITIONS, "Created Running Restarting Succeeded Suspended Failed"),
    "RayJob": (
        ray_job.DEPLOYMENT,
        (
            " Initializing Running Complete Failed ValidationFailed Suspending Suspended Retrying Waiting Scheduling Scheduled"
            " FailedToGetOrCreateRayCluster WaitForDashboard WaitForK8sJob FailedJobDeploy FailedToGetJobStatus"
        ),
    ),
    "SparkApplication": (
        spark_application.STATES,
        (
            " SUBMITTED RUNNING COMPLETED FAILED SUBMISSION_FAILED PENDING_RERUN INVALIDATING SUCCEEDING FAILING SUSPENDING"
            " SUSPENDED RESUMING UNKNOWN"
        ),
    ),
    "RayJob, jobStatus": (ray_job.SUBMISSION, "PENDING RUNNING STOPPED SUCCEEDED FAILED SCHEDULED"),
    "Framework": (
        framework.STATES,
        (
            "AttemptCreationPending AttemptCreationRequested AttemptPreparing AttemptRunning AttemptDeletionPending"
            " AttemptDeletionRequested AttemptDeleting AttemptCompleted Completed"
        ),
    ),
}
TABLES |= {
    "RayCluster": (ray_cluster.STATES, " ready failed suspended unhealthy"),
    "RayCluster, conditions": (
        ray_cluster.CONDITIONS,
        "RayClusterProvisioned HeadPodReady ReplicaFailure RayClusterSuspending RayClusterSuspended",
    ),
    "Workflow": (argo_workflow.PHASES, " Pending Running Succeeded Failed Error Cancelled"),
    "FlyteWorkflow": (
        flyte_workflow.PHASES,
        "Ready Running Succeeding Success Failing Failed Aborted HandlingFailureNode",
    ),
    "TaskRun": (tekton_run.ENDS, "True False TaskRunCancelled Cancelled"),
    "PipelineRun": (
        tekton_run.REASONS,
        (
            " Started Pending PipelineRunPending ResolvingTaskRef ResolvingStepActionRef ResolvingPipelineRef"
            " ExceededResourceQuota ExceededNodeResources Running PipelineRunStopping CancelledRunningFinally"
            " StoppedRunningFinally Cancelled ToBeRetried"
        ),
    ),
    "Workload": (
        kueue_workload.CONDITIONS,
        ("Finished Evicted Admitted QuotaReserved Preempted Requeued PodsReady DeactivationTarget BlockedOnPreemptionGates"),
    ),
    "Workload, ends": (
        kueue_workload.ENDS,
        ("Succeeded Failed AdmissionChecksRejected FailedToStart OutOfSync OwnerNotFound JobFinished PodsFinished"),
    ),
}
AT = "2026-03-01T10:00:00Z"


def seen(kind: str, status: dict[str, Any], spec: dict[str, Any] | None = None) -> Any:
    return observe_job(
        {
            "apiVersion": API.get(kind, "kubeflow.org/v1"),
            "kind": "Job" if kind == "VCJob" else kind,
            "metadata": {"name": "x", "uid": "u"},
            "spec": spec or {},
            "status": status,
        }
    )


def true(*kinds: str, reason: str = "Why", message: str = "words") -> dict[str, Any]:
    return {
        "conditions": [
            {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": AT} for kind in kinds
        ]
    }


def succeeded(value: str, reason: str) -> dict[str, Any]:
    condition = {"type": "Succeeded", "status": value, "reason": reason, "message": "words", "lastTransitionTime": AT}
    return {"conditions": [condition]}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_a_row_for_every_value_of_the_api_type(name):
    table, values = TABLES[name]
    assert set(table) == set(values.split(" "))


def test_every_kind_that_is_read_has_a_table():
    assert set(READERS) == {kind for kind in TABLES if "," not in kind} | set(training_jobs.REPLICA_SPECS)
    assert set(OBSERVED.split()) <= set(READERS)


STATUSES: list[tuple[str, dict[str, Any], str | None, str | None]] = [
    ("Job", {}, "Pending", None),
    ("Job", {"active": 2, "ready": 0, "terminating": 0, "uncountedTerminatedPods": {}}, "Pending", None),
    ("Job", {"active": 2, "ready": 1}, "Running", None),
    ("Job", {"active": 2}, "Running", None),
    ("Job", {"active": 1, "ready": 0, "failed": 1}, "Pending", None),
    ("Job", {"ready": 0, "terminating": 2}, "Running", None),
    ("Job", {"ready": 0, "uncountedTerminatedPods": {"succeeded": ["a"]}}, "Running", None),
    ("Job", {"ready": 0, "succeeded": 1, "uncountedTerminatedPods": {}}, "Running", None),
    ("Job", {"ready": 0, "terminating": 1, **true("FailureTarget")}, "Running", None),
    ("Job", {"ready": 0, "succeeded": 1, **true("SuccessCriteriaMet")}, "Running", None),
    ("Job", true("SuccessCriteriaMet", "Complete"), "Completed", "Why"),
    ("Job", true("FailureTarget", "Failed"), "Failed", "Why"),
    ("Job", {"terminating": 2, **true("Suspended")}, "Pending", "JobSuspended"),
    ("JobSet", {"replicatedJobsStatus": [{"name": "w", "ready": 0, "active": 1}]}, "Pending", None),
    ("JobSet", {"replicatedJobsStatus": [{"name": "w", "ready": 1, "active": 1}]}, "Running", None),
    ("JobSet", true("StartupPolicyInProgress"), "Pending", None),
    ("JobSet", true("Suspended", "StartupPolicyCompleted"), "Pending", "JobSuspended"),
    ("JobSet", true("Completed"), "Completed", "Why"),
    ("JobSet", true("Failed"), "Failed", "Why"),
    ("TrainJob", {"jobsStatus": [{"name": "node", "ready": 1}]}, "Running", None),
    ("TrainJob", true("Suspended"), "Pending", "JobSuspended"),
    ("TrainJob", true("Complete"), "Completed", "Why"),
    ("TrainJob", true("Failed"), "Failed", "Why"),
    *(("VCJob", {"state": {"phase": phase, "reason": "r"}}, phase, "r") for phase in VOLCANO.split(" ")),
    *((kind, true("Created"), "Pending", None) for kind in training_jobs.REPLICA_SPECS),
    *((kind, true("Created", "Running"), "Running", None) for kind in training_jobs.REPLICA_SPECS),
    *((kind, true("Created", "Restarting"), "Restarting", "Why") for kind in training_jobs.REPLICA_SPECS),
    *((kind, true("Created", "Suspended"), "Pending", "JobSuspended") for kind in training_jobs.REPLICA_SPECS),
    *((kind, true("Created", "Succeeded"), "Completed", "Why") for kind in training_jobs.REPLICA_SPECS),
    *((kind, true("Created", "Failed"), "Failed", "Why") for kind in training_jobs.REPLICA_SPECS),
    ("MPIJob", true("Created", "Failed", reason="MPIJobEvicted"), "Restarting", "MPIJobEvicted"),
    ("RayJob", {}, "Pending", None),
    ("RayJob", {"jobDeploymentStatus": "Initializing"}, "Pending", None),
    ("RayJob", {"jobDeploymentStatus": "Waiting"}, "Pending", "Waiting"),
    *(("RayJob", {"jobDeploymentStatus": "Running", "jobStatus": one}, "Running", None) for one in ray_job.SUBMISSION),
    ("RayJob", {"jobDeploymentStatus": "Retrying", "jobStatus": "FAILED", "reason": "AppFailed"}, "Restarting", "AppFailed"),
    ("RayJob", {"jobDeploymentStatus": "Suspending"}, "Pending", "JobSuspended"),
    ("RayJob", {"jobDeploymentStatus": "Suspended"}, "Pending", "JobSuspended"),
    ("RayJob", {"jobDeploymentStatus": "ValidationFailed", "reason": "ValidationFailed"}, "Pending", "ValidationFailed"),
    ("RayJob", {"jobDeploymentStatus": "Scheduled"}, "Pending", "Scheduled"),
    ("RayJob", {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}, "Completed", None),
    ("RayJob", {"jobDeploymentStatus": "Complete", "jobStatus": "STOPPED"}, "Terminated", None),
    ("RayJob", {"jobDeploymentStatus": "Complete", "jobStatus": "FAILED"}, "Failed", None),
    ("RayJob", {"jobDeploymentStatus": "Complete", "jobStatus": "CRASHED"}, None, "CRASHED"),
    ("RayJob", {"jobDeploymentStatus": "Complete"}, None, "Complete"),
    ("RayJob", {"jobDeploymentStatus": "Running", "jobStatus": "CRASHED"}, "Running", None),
    ("RayJob", {"jobDeploymentStatus": "", "jobStatus": "CRASHED"}, "Pending", None),
    (
        "RayJob",
        {"jobDeploymentStatus": "Failed", "jobStatus": "RUNNING", "reason": "DeadlineExceeded"},
        "Failed",
        "DeadlineExceeded",
    ),
    ("RayJob", {"jobDeploymentStatus": "WaitForDashboard"}, "Pending", None),
    ("RayJob", {"jobDeploymentStatus": "FailedJobDeploy"}, "Pending", "FailedJobDeploy"),
    ("RayJob", {"jobDeploymentStatus": "FailedToGetJobStatus"}, "Running", "FailedToGetJobStatus"),
    ("RayJob", {"jobDeploymentStatus": "Running", "jobStatus": "SUCCEEDED", "endTime": AT}, "Completed", None),
    ("RayJob", {"jobDeploymentStatus": "Running", "jobStatus": "FAILED", "startTime": AT, "endTime": AT}, "Running", None),
    *(
        ("SparkApplication", {"applicationState": {"state": state}}, phase, reason)
        for states, phase, reason in (
            (",SUBMITTED,RESUMING", "Pending", None),
            ("SUBMISSION_FAILED", "Pending", "SubmissionFailed"),
            ("SUSPENDING,SUSPENDED", "Pending", "JobSuspended"),
            ("RUNNING,SUCCEEDING,FAILING", "Running", None),
            ("PENDING_RERUN,INVALIDATING", "Restarting", None),
            ("COMPLETED", "Completed", None),
            ("FAILED", "Failed", None),
            ("UNKNOWN", None, "UNKNOWN"),
        )
        for state in states.split(",")
    ),
    ("RayCluster", {}, "Pending", None),
    ("RayCluster", {"state": "ready"}, "Running", None),
    ("RayCluster", {"state": "suspended"}, "Pending", "JobSuspended"),
    ("RayCluster", {"state": "ready", **true("RayClusterProvisioned", "RayClusterSuspending")}, "Pending", "JobSuspended"),
    ("RayCluster", {"state": "failed"}, None, "failed"),
    ("Workflow", {}, "Pending", None),
    ("Workflow", {"phase": "Pending"}, "Pending", None),
    ("Workflow", {"phase": "Running"}, "Running", None),
    ("Workflow", {"phase": "Succeeded"}, "Completed", None),
    ("Workflow", {"phase": "Failed"}, "Failed", None),
    ("Workflow", {"phase": "Error"}, "Failed", "Error"),
    ("Workflow", {"phase": "Cancelled"}, "Terminated", None),
    *(
        ("FlyteWorkflow", {"phase": number, "error": {"code": "Why"}}, phase, reason)
        for number, phase, reason in (
            (0, "Pending", None),
            (1, "Running", None),
            (2, "Running", None),
            (3, "Completed", "Why"),
            (4, "Running", "Failing"),
            (5, "Failed", "Why"),
            (6, "Terminated", "Why"),
            (7, "Running", "HandlingFailureNode"),
            (8, None, "8"),
        )
    ),
    *((kind, {}, "Pending", None) for kind in ("TaskRun", "PipelineRun", "FlyteWorkflow", "Workload")),
    *((kind, succeeded("Unknown", "Started"), "Pending", None) for kind in ("TaskRun", "PipelineRun")),
    *((kind, succeeded("Unknown", "Running"), "Running", None) for kind in ("TaskRun", "PipelineRun")),
    *((kind, succeeded("True", "Succeeded"), "Completed", "Succeeded") for kind in ("TaskRun", "PipelineRun")),
    *((kind, succeeded("Unknown", "Hibernating"), None, "Hibernating") for kind in ("TaskRun", "PipelineRun")),
    ("TaskRun", succeeded("Unknown", "Pending"), "Pending", "Pending"),
    ("TaskRun", succeeded("Unknown", "ToBeRetried"), "Restarting", "ToBeRetried"),
    ("TaskRun", succeeded("False", "TaskRunTimeout"), "Failed", "TaskRunTimeout"),
    ("TaskRun", succeeded("False", "TaskRunCancelled"), "Terminated", "TaskRunCancelled"),
    ("PipelineRun", succeeded("False", "Cancelled"), "Terminated", "Cancelled"),
    ("PipelineRun", succeeded("Unknown", "Cancelled"), "Running", "Cancelled"),
    ("PipelineRun", succeeded("True", "Completed"), "Completed", "Completed"),
    ("Workload", true("QuotaReserved"), "Pending", "QuotaReserved"),
    ("Workload", true("QuotaReserved", "Admitted", "PodsReady"), "Running", None),
    ("Workload", true("QuotaReserved", "Admitted", "Evicted", reason="Preempted"), "Pending", "Preempted"),
    ("Workload", true("Admitted", "Finished", reason="Succeeded"), "Completed", "Succeeded"),
    ("Workload", true("Admitted", "Finished", reason="Failed"), "Failed", "Failed"),
    ("Workload", true("Evicted", "Finished", reason="OutOfSync"), "Terminated", "OutOfSync"),
    ("Workload", true("Admitted", "Finished", reason="JobFinished"), "Terminated", "JobFinished"),
    ("Workload", true("Finished", reason="Hibernating"), None, "Hibernating"),
    (
        "Workload",
        {"conditions": [{"type": "QuotaReserved", "status": "False", "reason": "Inadmissible"}]},
        "Pending",
        "Inadmissible",
    ),
    ("Framework", {}, "Pending", None),
    ("Framework", {"state": "AttemptPreparing"}, "Pending", None),
    *(("Framework", {"state": f"AttemptDeletion{one}"}, "Running", None) for one in ("Pending", "Requested")),
    ("Framework", {"state": "AttemptDeleting"}, "Running", None),
    ("Framework", {"state": "AttemptCompleted"}, "Running", None),
    ("Framework", {"state": "AttemptCompleted", "retryPolicyStatus": {"retryDelaySec": 0}}, "Restarting", None),
]


@pytest.mark.parametrize(("kind", "status", "phase", "reason"), STATUSES)
def test_the_phase_and_reason_of_a_status(kind, status, phase, reason):
    found = seen(kind, status)
    assert (found.phase, found.reason) == (phase, reason)


def test_the_end_and_the_retries_of_a_spark_application():
    found = seen("SparkApplication", {"applicationState": {"state": "FAILED"}, "terminationTime": AT, "executionAttempts": 3})
    assert (found.phase, found.retry_count, found.ended) == ("Failed", 2, seen("Job", true("Failed")).ended)


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("Workflow", {"phase": "Failed", "message": "words", "startedAt": "2026-03-01T09:00:00Z", "finishedAt": AT}),
        ("FlyteWorkflow", {"phase": 5, "error": {"message": "words"}, "stoppedAt": AT}),
        ("TaskRun", {**succeeded("False", "Failed"), "completionTime": AT}),
        ("TaskRun", succeeded("False", "Failed")),
        ("Workload", true("Finished", reason="Failed")),
    ],
)
def test_the_end_and_the_message_of_an_ended_run(kind, status):
    found = seen(kind, status)
    assert (found.phase, found.message, found.ended) == ("Failed", "words", seen("Job", true("Failed")).ended)


def test_retries_of_runs_and_the_tasks_of_clusters_and_workloads():
    assert seen("TaskRun", {"retriesStatus": [{}, {}]}).retry_count == 2
    assert seen("FlyteWorkflow", {"failedAttempts": 3}).retry_count == 3
    groups = [{"groupName": "cpu", "replicas": 3, "template": {}}]
    cluster = seen("RayCluster", {}, {"headGroupSpec": {"template": {}}, "workerGroupSpecs": groups})
    assert cluster.tasks == {"head": 1, "cpu": 3}
    workload = seen("Workload", {}, {"queueName": "q", "podSets": [{"name": "w", "count": 4}], "priorityClassName": "high"})
    assert (workload.tasks, workload.queue, workload.priority_class) == ({"w": 4}, "q", "high")


@pytest.mark.parametrize(
    ("kind", "api"),
    [
        ("Workflow", "sonataflow.org/v1alpha08"),
        ("Workload", "scheduling.k8s.io/v1alpha1"),
        ("Job", "nomad.example/v1"),
        ("TaskRun", "tekton.dev.example/v1"),
    ],
)
def test_a_kind_of_another_api_group_is_not_read(kind, api):
    assert read_kind({"apiVersion": api, "kind": kind}) is None


def test_flyte_writes_its_kind_in_small_letters():
    assert read_kind({"apiVersion": "flyte.lyft.com/v1alpha1", "kind": "flyteworkflow"}) == "FlyteWorkflow"


def test_a_rayjob_with_a_schedule_runs_again_after_it_was_complete():
    found = seen("RayJob", {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}, {"schedule": "0 * * * *"})
    assert (found.phase, found.reason) == ("Pending", "Scheduled")


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("VCJob", {"state": {"phase": "Hibernating", "message": "words"}}),
        ("RayJob", {"jobDeploymentStatus": "Hibernating", "message": "words"}),
        ("Framework", {"state": "Hibernating"}),
    ],
)
def test_a_value_that_the_table_lacks_is_shown_as_it_is_and_is_no_phase(kind, status):
    found = seen(kind, status)
    assert (found.phase, found.reason) == (None, "Hibernating")


@pytest.mark.parametrize("kind", ["Job", "JobSet", "TrainJob", "PyTorchJob"])
def test_a_condition_that_the_table_lacks_is_no_end(kind):
    assert seen(kind, true("Hibernating")).phase not in FINISHED_JOB_PHASES


@pytest.mark.parametrize(
    ("kind", "status", "decides"),
    [
        ("Job", {"active": 1, "ready": 1}, False),
        ("Job", true("Suspended"), True),
        ("JobSet", {}, False),
        ("TrainJob", true("Suspended"), True),
        ("PyTorchJob", {}, False),
        ("PyTorchJob", true("Created"), True),
        ("VCJob", {"state": {"phase": "Pending"}}, True),
        ("RayJob", {"jobDeploymentStatus": "Initializing"}, True),
        ("Framework", {"state": "AttemptPreparing"}, True),
        ("RayCluster", {}, False),
        ("RayCluster", {"state": "ready"}, True),
        ("Workflow", {"phase": "Running"}, True),
    ],
)
def test_an_owner_that_only_counts_pods_does_not_decide_when_its_job_runs(kind, status, decides):
    assert seen(kind, status).owner_decides is decides
