"""Volcano's Job (`batch.volcano.sh`), whose phases are Lahar's."""

from __future__ import annotations

from typing import Any, Final

from engine.kubernetes.observation.kinds.job_facts import JobFacts, Row, Values, task_of
from engine.kubernetes.reading.fields import mapping, mappings, moment, text, whole

PHASES: Final[Values] = {
    "Pending": Row("Pending"),
    "Aborting": Row("Aborting"),
    "Aborted": Row("Aborted"),  # no end: it can be resumed
    "Running": Row("Running"),
    "Restarting": Row("Restarting"),
    "Completing": Row("Completing"),
    "Completed": Row("Completed"),
    "Terminating": Row("Terminating"),
    "Terminated": Row("Terminated"),
    "Failed": Row("Failed"),
}


def read_volcano_job(facts: JobFacts, spec: dict[str, Any], status: dict[str, Any]) -> None:
    """Read specification and status."""
    facts.queue = text(spec.get("queue")) or facts.queue
    facts.priority_class = text(spec.get("priorityClassName"))
    facts.min_available = whole(spec.get("minAvailable"))
    facts.tasks = [
        task_of(
            text(task.get("name")) or f"default{number}",
            whole(task.get("replicas")) or 0,
            task.get("template"),
            whole(task.get("minAvailable")),
        )
        for number, task in enumerate(mappings(spec.get("tasks")))
    ]
    facts.retry_count, facts.job_version = whole(status.get("retryCount")) or 0, whole(status.get("version")) or 0
    state = mapping(status.get("state"))
    entered = moment(state.get("lastTransitionTime"))
    facts.enter_value(PHASES, text(state.get("phase")) or "Pending", entered, state.get("reason"), state.get("message"))
