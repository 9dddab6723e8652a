"""RayJob (`ray.io`): the operator's `jobDeploymentStatus` decides; Ray's `jobStatus` only classifies the end.

Ray reports the end of a submission, which is not an end of the RayJob while it is retried or its submitter still runs.
"""

from __future__ import annotations

from typing import Any, Final

from engine.kubernetes.observation.kinds.job_facts import JobFacts, Row, TaskFacts, Values, either, task_of
from engine.kubernetes.reading.fields import mapping, mappings, moment, text, whole

DEPLOYMENT: Final[Values] = {
    "": Row("Pending", ""),
    "Initializing": Row("Pending", ""),
    "Waiting": Row("Pending", "Waiting"),  # InteractiveMode: for the user's submission
    "WaitForDashboard": Row("Pending", ""),  # this and the next four: operators before 1.0
    "WaitForK8sJob": Row("Pending", ""),
    "FailedToGetOrCreateRayCluster": Row("Pending", "FailedToGetOrCreateRayCluster"),
    "FailedJobDeploy": Row("Pending", "FailedJobDeploy"),
    "FailedToGetJobStatus": Row("Running", "FailedToGetJobStatus"),
    "Running": Row("Running", ""),
    "Retrying": Row("Restarting"),
    "Suspending": Row("Pending", "JobSuspended"),
    "Suspended": Row("Pending", "JobSuspended"),
    "ValidationFailed": Row("Pending", "ValidationFailed"),  # no end: it is validated again when it is corrected
    "Scheduling": Row("Pending", "Scheduled"),
    "Scheduled": Row("Pending", "Scheduled"),
    "Failed": Row("Failed"),
    "Complete": None,  # how it ended is the `jobStatus`
}
SUBMISSION: Final[Values] = {
    "PENDING": Row("Pending", ""),
    "RUNNING": Row("Running", ""),
    "SCHEDULED": Row("Pending", "Scheduled"),
    "STOPPED": Row("Terminated"),
    "SUCCEEDED": Row("Completed"),
    "FAILED": Row("Failed"),
}
_OVER: Final = frozenset({"Retrying", "Failed", "Complete", "STOPPED", "SUCCEEDED", "FAILED"})
"""Values whose time is the `endTime`."""


def read_ray_job(facts: JobFacts, spec: dict[str, Any], status: dict[str, Any]) -> None:
    """Read specification and status."""
    facts.tasks = ray_tasks(mapping(spec.get("rayClusterSpec")))
    values, value = _deciding(spec, status)
    running = moment(mapping(status.get("rayJobInfo")).get("startTime"))
    times = {"Initializing": moment(status.get("startTime")), "Running": running, "RUNNING": running}
    since = times.get(value, moment(status.get("endTime")) if value in _OVER else None)
    facts.enter_value(values, value, since, status.get("reason"), status.get("message"))
    failures = whole(status.get("failed"))
    if failures is not None:  # the last one of a job that failed was not retried
        facts.retry_count = max(failures - 1, 0) if facts.phase == "Failed" else failures


def ray_tasks(cluster: dict[str, Any]) -> list[TaskFacts]:
    """Return the tasks in the specification of a RayCluster: its head and its worker groups."""
    head = cluster.get("headGroupSpec")
    tasks = [task_of("head", 1, head.get("template"))] if isinstance(head, dict) else []
    for group in mappings(cluster.get("workerGroupSpecs")):
        hosts = either(whole(group.get("numOfHosts")), 1)
        replicas = either(whole(group.get("replicas")), whole(group.get("minReplicas")) or 0) * hosts
        tasks.append(task_of(text(group.get("groupName")) or "worker", replicas, group.get("template")))
    return tasks


def _deciding(spec: dict[str, Any], status: dict[str, Any]) -> tuple[Values, str]:
    """Return the deciding status value, and its table."""
    deployment, submission = text(status.get("jobDeploymentStatus")) or "", text(status.get("jobStatus")) or ""
    if deployment == "Complete" and text(spec.get("schedule")):
        return DEPLOYMENT, "Scheduling"  # it runs again
    # Operators before 1.0 have no deployment status for an end, or no deployment status at all.
    ended, started = moment(status.get("endTime")), moment(status.get("startTime"))
    over = deployment == "Running" and ended is not None and ended > (started or 0)
    if submission and (deployment == "Complete" or (submission in SUBMISSION and (not deployment or over))):
        return SUBMISSION, submission
    return DEPLOYMENT, deployment
