"""Framework (`frameworkcontroller.microsoft.com`): an attempt that completed is an end only in the state Completed."""

from __future__ import annotations

from typing import Any, Final

from engine.kubernetes.observation.kinds.job_facts import MAIN, JobFacts, Row, Values, task_of
from engine.kubernetes.reading.fields import mapping, mappings, moment, text, whole

STATES: Final[Values] = {
    "AttemptCreationPending": Row("Pending", ""),
    "AttemptCreationRequested": Row("Pending", ""),
    "AttemptPreparing": Row("Pending", ""),
    "AttemptRunning": Row("Running", ""),
    "AttemptDeletionPending": Row("Running", ""),
    "AttemptDeletionRequested": Row("Running", ""),
    "AttemptDeleting": Row("Running", ""),
    "AttemptCompleted": Row("Running", ""),
    "Completed": Row("Completed"),
}
_UNSUCCESSFUL: Final[Values] = {"Completed": Row("Failed")}
"""Meaning of a completed Framework whose type is not Succeeded."""
_RETRYING: Final = Row("Restarting")


def read_framework(facts: JobFacts, spec: dict[str, Any], status: dict[str, Any]) -> None:
    """Read specification and status."""
    for role in mappings(spec.get("taskRoles")):
        pod = mapping(role.get("task")).get("pod")
        facts.tasks.append(task_of(text(role.get("name")) or MAIN, whole(role.get("taskNumber")) or 0, pod))
    retries = mapping(status.get("retryPolicyStatus"))
    facts.retry_count = whole(retries.get("totalRetriedCount"))
    state = text(status.get("state")) or "AttemptCreationPending"
    end = mapping(mapping(status.get("attemptStatus")).get("completionStatus"))
    phrase, diagnostics = end.get("phrase"), end.get("diagnostics")
    entered = moment(status.get("transitionTime"))
    if state == "AttemptCompleted" and whole(retries.get("retryDelaySec")) is not None:
        facts.enter(_RETRYING, entered, phrase, diagnostics)
    elif state == "Completed":
        succeeded = mapping(end.get("type")).get("name") == "Succeeded"
        ended = moment(status.get("completionTime"))
        facts.enter_value(STATES if succeeded else _UNSUCCESSFUL, state, ended, None if succeeded else phrase, diagnostics)
    else:
        facts.enter_value(STATES, state, entered)
