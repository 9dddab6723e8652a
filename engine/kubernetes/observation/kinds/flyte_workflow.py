"""FlyteWorkflow (`flyte.lyft.com`): its phase, a number."""

from __future__ import annotations

from typing import Any, Final

from engine.kubernetes.observation.kinds.job_facts import JobFacts, Row, Values
from engine.kubernetes.reading.fields import mapping, moment, whole
from statemachines.vocabulary import FINISHED_JOB_PHASES

NAMES: Final = ("Ready", "Running", "Succeeding", "Success", "Failing", "Failed", "Aborted", "HandlingFailureNode")
"""Phases by their number in the object."""
PHASES: Final[Values] = {
    "Ready": Row("Pending", ""),
    "Running": Row("Running", ""),
    "Succeeding": Row("Running", ""),
    "Success": Row("Completed"),
    "Failing": Row("Running", "Failing"),  # its nodes are being stopped
    "Failed": Row("Failed"),
    "Aborted": Row("Terminated"),
    "HandlingFailureNode": Row("Running", "HandlingFailureNode"),
}


def read_flyte_workflow(facts: JobFacts, _spec: dict[str, Any], status: dict[str, Any]) -> None:
    """Read the status; its tasks are nodes of another format."""
    number = whole(status.get("phase")) or 0
    error = mapping(status.get("error"))
    facts.retry_count = whole(status.get("failedAttempts"))
    name = NAMES[number] if number < len(NAMES) else str(number)
    facts.enter_value(PHASES, name, None, error.get("code"), error.get("message"))
    if facts.phase in FINISHED_JOB_PHASES:
        facts.ended = moment(status.get("stoppedAt"))
    elif name == "Running":
        facts.since = moment(status.get("startedAt"))
