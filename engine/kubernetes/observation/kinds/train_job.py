"""TrainJob (`trainer.kubeflow.org`): ends and suspensions are conditions, everything else is counts of its Jobs."""

from __future__ import annotations

from typing import Any, Final

from engine.kubernetes.observation.kinds.job_facts import JobFacts, Row, Values, follow_counts
from engine.kubernetes.observation.kinds.job_set import some_ready

CONDITIONS: Final[Values] = {
    "Complete": Row("Completed"),
    "Failed": Row("Failed"),
    "Suspended": Row("Pending", "JobSuspended"),
}


def read_train_job(facts: JobFacts, _spec: dict[str, Any], status: dict[str, Any]) -> None:
    """Read the status; its tasks are in a runtime, which is another object."""
    follow_counts(facts, status, CONDITIONS, running=some_ready(status.get("jobsStatus")))
