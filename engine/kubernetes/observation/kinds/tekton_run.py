"""TaskRun and PipelineRun of Tekton (`tekton.dev`): the condition Succeeded is true, false, or unknown with a reason."""

from __future__ import annotations

from typing import Any, Final

from engine.kubernetes.observation.kinds.job_facts import JobFacts, Row, Values
from engine.kubernetes.reading.fields import mappings, moment, text
from statemachines.vocabulary import FINISHED_JOB_PHASES

ENDS: Final[Values] = {
    "True": Row("Completed"),
    "False": Row("Failed"),
    "TaskRunCancelled": Row("Terminated"),
    "Cancelled": Row("Terminated"),
}
"""Meaning by status of the condition, or by reason of a false one that is not a failure."""
REASONS: Final[Values] = {
    "": Row("Pending", ""),
    "Started": Row("Pending", ""),
    "Pending": Row("Pending"),
    "PipelineRunPending": Row("Pending"),
    "ResolvingTaskRef": Row("Pending"),
    "ResolvingStepActionRef": Row("Pending"),
    "ResolvingPipelineRef": Row("Pending"),
    "ExceededResourceQuota": Row("Pending"),
    "ExceededNodeResources": Row("Pending"),
    "Running": Row("Running", ""),
    "PipelineRunStopping": Row("Running"),
    "CancelledRunningFinally": Row("Running"),
    "StoppedRunningFinally": Row("Running"),
    "Cancelled": Row("Running"),  # its tasks are being stopped
    "ToBeRetried": Row("Restarting"),
}
"""Meaning by reason of an unknown condition."""


def read_tekton_run(facts: JobFacts, _spec: dict[str, Any], status: dict[str, Any]) -> None:
    """Read the status; its steps are containers of one pod, or TaskRuns of a pipeline."""
    condition = next((one for one in mappings(status.get("conditions")) if one.get("type") == "Succeeded"), {})
    value, reason = text(condition.get("status")) or "Unknown", text(condition.get("reason")) or ""
    since, message = moment(condition.get("lastTransitionTime")), condition.get("message")
    if facts.kind == "TaskRun":
        facts.retry_count = len(mappings(status.get("retriesStatus")))
    if value == "Unknown":
        facts.enter_value(REASONS, reason, since, reason, message)
    else:
        facts.enter_value(ENDS, reason if value == "False" and reason in ENDS else value, since, reason, message)
    completed = moment(status.get("completionTime"))
    if facts.phase in FINISHED_JOB_PHASES and completed is not None:
        facts.ended = completed
