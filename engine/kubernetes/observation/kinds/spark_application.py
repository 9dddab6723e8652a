"""SparkApplication (`sparkoperator.k8s.io`): the application's state; an ended driver may be rerun.

After a change of its specification, the operator reruns it from any state, including COMPLETED and FAILED.
"""

from __future__ import annotations

from typing import Any, Final

from engine.kubernetes.observation.kinds.job_facts import JobFacts, Row, Values
from engine.kubernetes.reading.fields import mapping, moment, text, whole
from statemachines.vocabulary import FINISHED_JOB_PHASES

STATES: Final[Values] = {
    "": Row("Pending"),
    "SUBMITTED": Row("Pending"),
    "RUNNING": Row("Running"),
    "SUCCEEDING": Row("Running"),  # its driver has ended: COMPLETED follows, or PENDING_RERUN
    "FAILING": Row("Running"),  # the same: FAILED or PENDING_RERUN
    "SUBMISSION_FAILED": Row("Pending", "SubmissionFailed"),  # FAILED follows when its retries are used up
    "PENDING_RERUN": Row("Restarting"),
    "INVALIDATING": Row("Restarting"),  # its specification was changed
    "SUSPENDING": Row("Pending", "JobSuspended"),
    "SUSPENDED": Row("Pending", "JobSuspended"),
    "RESUMING": Row("Pending"),
    "COMPLETED": Row("Completed"),
    "FAILED": Row("Failed"),
    "UNKNOWN": None,  # its driver's node does not answer
}


def read_spark_application(facts: JobFacts, spec: dict[str, Any], status: dict[str, Any]) -> None:
    """Read queue and status; the requests of its pods depend on the configuration of Spark."""
    batch = mapping(spec.get("batchSchedulerOptions"))
    facts.queue, facts.priority_class = text(batch.get("queue")) or facts.queue, text(batch.get("priorityClassName"))
    facts.runs_again = True
    facts.retry_count = max((whole(status.get("executionAttempts")) or 0) - 1, 0)
    application = mapping(status.get("applicationState"))
    facts.enter_value(STATES, text(application.get("state")) or "", None, message=application.get("errorMessage"))
    if facts.phase in FINISHED_JOB_PHASES:
        facts.ended = moment(status.get("terminationTime"))
