"""Workflow of Argo (`argoproj.io`): its phase; an ended one can be retried and then runs again."""

from __future__ import annotations

from typing import Any, Final

from engine.kubernetes.observation.kinds.job_facts import JobFacts, Row, Values
from engine.kubernetes.reading.fields import moment, text
from statemachines.vocabulary import FINISHED_JOB_PHASES

PHASES: Final[Values] = {
    "": Row("Pending", ""),
    "Pending": Row("Pending"),
    "Running": Row("Running", ""),  # also between two steps, when no pod runs
    "Succeeded": Row("Completed"),
    "Failed": Row("Failed"),
    "Error": Row("Failed", "Error"),
    "Cancelled": Row("Terminated"),
}


def read_workflow(facts: JobFacts, spec: dict[str, Any], status: dict[str, Any]) -> None:
    """Read the status; its pods name their steps by an annotation."""
    facts.priority_class = text(spec.get("podPriorityClassName"))
    facts.runs_again = True  # `argo retry` sets an ended workflow to Running
    facts.enter_value(PHASES, text(status.get("phase")) or "", None, message=status.get("message"))
    if facts.phase in FINISHED_JOB_PHASES:
        facts.ended = moment(status.get("finishedAt"))
    elif facts.phase == "Running":
        facts.since = moment(status.get("startedAt"))
