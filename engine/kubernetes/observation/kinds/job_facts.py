"""Facts of a job object, and the conversion of a status to a phase by a kind's table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from engine.events.excerpts import excerpt
from engine.kubernetes.reading.fields import mapping, mappings, moment, text, whole
from statemachines.vocabulary import FINISHED_JOB_PHASES, JobPhase

MAIN: Final = "main"
"""Task of a job with a single unnamed one."""


class Row(NamedTuple):
    """Meaning of one status value of a kind. Completed, Failed and Terminated are final."""

    phase: JobPhase
    reason: str | None = None
    """Reason to report; `None`: the object's own; empty: none, because it would repeat the phase."""


Values = Mapping[str, Row | None]
"""Meaning by status value; `None`: it changes no phase. Of several conditions, the first in the table decides."""


@dataclass(slots=True)
class TaskFacts:
    """One task of a job object."""

    name: str
    replicas: int
    """Pods of the task: its slots."""
    template: object
    """Pod template, as it is in the object."""
    min_available: int | None = None
    priority_class: str | None = None
    """PriorityClass of its pod template."""


@dataclass(slots=True)
class JobFacts:
    """Facts of a job object; `None`: absent."""

    kind: str
    """`Job` (batch/v1), `VCJob`, or the kind unchanged."""
    phase: JobPhase | None = None
    """Phase; `None` if the kind's table lacks the status value."""
    reason: str | None = None
    """Reason of the phase; without a phase, the unknown value itself."""
    message: str = ""
    """Excerpt of the message about the phase."""
    since: int | None = None
    """Start of an unfinished phase (microseconds)."""
    ended: int | None = None
    """Start of a finished phase (microseconds)."""
    queue: str | None = None
    priority_class: str | None = None
    min_available: int | None = None
    tasks: list[TaskFacts] = field(default_factory=list)
    retry_count: int | None = None
    """Retries counted by the controller; `None`: it does not count them."""
    job_version: int | None = None
    """Number of times that the controller killed the whole job (Volcano `status.version`)."""
    runs_again: bool = False
    """True if the controller of this kind can run an ended job again."""
    owner_decides: bool = True
    """True if the status has the phase; otherwise Pending and Running are derived from counts of pods."""

    def enter(self, row: Row, time: int | None, reason: object = None, message: object = None) -> None:
        """Set the phase and what is known about it."""
        self.phase = row.phase
        if row.reason != "":
            self.reason, self.message = row.reason or text(reason), excerpt(text(message) or "")
        if row.phase in FINISHED_JOB_PHASES:
            self.ended = time
        else:
            self.since = time

    def enter_value(self, values: Values, value: str, time: int | None, reason: object = None, message: object = None) -> None:
        """Set the phase by a status value; a value missing in the table becomes the reason and changes no phase."""
        row = values.get(value)
        if row is None:
            self.reason, self.message = value, excerpt(text(message) or "")
        else:
            self.enter(row, time, reason, message)


def follow_conditions(facts: JobFacts, status: dict[str, Any], values: Values) -> None:
    """Set the phase by the first row of a table whose condition is true; without one, the phase stays absent."""
    true = {text(one.get("type")): one for one in reversed(mappings(status.get("conditions"))) if one.get("status") == "True"}
    for kind, row in values.items():
        if row is not None and kind in true:
            condition = true[kind]
            time = moment(status.get("completionTime")) if row.phase == "Completed" else None
            time = moment(condition.get("lastTransitionTime")) if time is None else time
            facts.enter(row, time, condition.get("reason"), condition.get("message"))
            return


def follow_counts(facts: JobFacts, status: dict[str, Any], values: Values, *, running: bool) -> None:
    """Set the phase of a kind whose ends and suspensions are conditions and which otherwise counts its pods."""
    follow_conditions(facts, status, values)
    facts.owner_decides = facts.phase == "Pending"
    if facts.phase is None:
        facts.enter(Row("Running") if running else Row("Pending"), None)  # counts have no start time


def task_of(name: str, replicas: int, template: object, min_available: int | None = None) -> TaskFacts:
    """Return a task by its pod template."""
    spec = mapping(mapping(template).get("spec"))
    return TaskFacts(name, replicas, template, min_available, text(spec.get("priorityClassName")))


def pods_of(job: dict[str, Any]) -> int:
    """Return the slots of a batch/v1 Job: its completions, or else its parallelism."""
    return either(whole(job.get("completions")), either(whole(job.get("parallelism")), 1))


def either(value: int | None, otherwise: int) -> int:
    """Return a value, or the default if it is absent."""
    return otherwise if value is None else value
