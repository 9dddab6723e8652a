"""Lahar's own fields of a job: the annotation `lahar/spec`, or `lahar:` at the top of a manifest.

The annotation (YAML or JSON) exists because a real API server prunes unknown fields of a vcjob. Fields at its top apply to the
whole job; fields of one task are under `tasks: {NAME: …}`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from pydantic import Field, model_validator

from engine.events.bounds import LAHAR_SPEC_BYTES
from engine.events.outcomes import Fault
from engine.kubernetes.reading.shapes import Int32, Int64, Shape, child, read_shape
from engine.kubernetes.reading.yaml_values import UnreadableYamlError, read_yaml
from statemachines.spec import JobSpec, RaiseRule, TaskSpec
from statemachines.vocabulary import ATTEMPT_PHASES, JOB_PHASES, TASK_PHASES, Level

ANNOTATION: Final = "lahar/spec"

MAIN_EVENTS: Final = frozenset({"MainTaskEvent", "MainTaskFailedEvent"})
"""Events raised by the end of a task with `main: true`."""


class WhenShape(Shape):
    """Condition of a `raise` rule."""

    level: str | None = None
    task: str | None = None
    phase: str | None = None
    reason: str | None = None
    exit_code: Int32 | None = None
    count: Int32 | None = None

    @property
    def meant_level(self) -> str:
        """Level of the rule; default: replica for an exit code, otherwise the first of task, replica, job with that phase."""
        if self.level:
            return self.level
        if self.exit_code is not None:
            return "replica"
        if self.phase in ATTEMPT_PHASES and self.phase not in TASK_PHASES:
            return "replica"
        return "job" if self.phase in JOB_PHASES and self.phase not in TASK_PHASES and self.task is None else "task"


class RaiseShape(Shape):
    """`{raise: EVENT, when: {…}}`."""

    event: str | None = Field(default=None, alias="raise")
    when: WhenShape | None = None


class LaharTask(Shape):
    """Lahar's own fields of one task."""

    main: bool | None = None
    min_succeeded: Int32 | None = None
    max_failed: Int32 | None = None


class LaharSpec(Shape):
    """Lahar's own fields of a job."""

    preempt: bool | None = None
    on_preempted: str | None = None
    rules: list[RaiseShape] | None = Field(default=None, alias="raise")
    custom_events: dict[str, dict[str, Any] | None] | None = None
    permanent_exit_codes: list[Int32] | None = None
    min_run_seconds: Int64 | None = None
    active_deadline_seconds: Int64 | None = None
    tasks: dict[str, LaharTask | None] | None = None

    @model_validator(mode="before")
    @classmethod
    def _one_rule_is_a_list_of_one(cls, value: object) -> object:
        # Short forms: `raise: NAME` beside `when: {…}`, and one rule without a list, `raise: {raise: NAME, when: {…}}`.
        if isinstance(value, dict) and isinstance(value.get("raise"), str):
            rest = {key: one for key, one in value.items() if key != "when"}
            return {**rest, "raise": [{"raise": value["raise"], "when": value.get("when")}]}
        if isinstance(value, dict) and isinstance(value.get("raise"), dict):
            return {**value, "raise": [value["raise"]]}
        return value

    @property
    def declared(self) -> frozenset[str]:
        """Events that policies may name beside the built-in ones: declared, raised by a rule, or by a main task."""
        raised = {rule.event for rule in self.rules or [] if rule.event}
        main = MAIN_EVENTS if any(task is not None and task.main for task in (self.tasks or {}).values()) else frozenset()
        return frozenset(self.custom_events or ()) | raised | main


def read_lahar_spec(annotations: dict[str, str] | None, own: object) -> tuple[LaharSpec, str, list[Fault]]:
    """Parse Lahar's own fields from the annotation or the manifest.

    Args:
        annotations: annotations of the job.
        own: value of `lahar` at the top of the manifest; `None`: absent.

    Returns:
        The shape (empty if absent or invalid), its path, and the faults of its form.
    """
    text = (annotations or {}).get(ANNOTATION)
    path = "lahar" if text is None else child("metadata.annotations", ANNOTATION)
    if text is not None:
        if own is not None:
            return LaharSpec(), path, [Fault("lahar", f"stands in the annotation {ANNOTATION} too: keep one of them")]
        if len(text.encode(errors="replace")) > LAHAR_SPEC_BYTES:
            return LaharSpec(), path, [Fault(path, f"has more than {LAHAR_SPEC_BYTES:,} bytes")]
        try:
            # Also used to read submissions in a log, whose meaning must not change.
            documents = read_yaml(text.encode(errors="replace"), unique=False)
        except UnreadableYamlError as error:
            return LaharSpec(), path, [Fault(path, f"cannot be read: {error}")]
        if len(documents) > 1:
            return LaharSpec(), path, [Fault(path, "must be one YAML document")]
        own = documents[0] if documents else None
    if own is None:
        return LaharSpec(), path, []
    found, faults = read_shape(LaharSpec, own, path)
    return found or LaharSpec(), path, faults


def with_lahar_spec(own: LaharSpec, spec: JobSpec) -> JobSpec:
    """Return a specification with Lahar's own, valid fields."""
    deadline = own.active_deadline_seconds
    return replace(
        spec,
        preempt=bool(own.preempt),
        on_preempted="Abort" if own.on_preempted == "Abort" else "Terminate" if own.on_preempted == "Terminate" else "Requeue",
        raise_rules=tuple(_rule(rule) for rule in own.rules or []),
        custom_events=dict(own.custom_events or {}),
        permanent_exit_codes=tuple(own.permanent_exit_codes or []),
        min_run_seconds=own.min_run_seconds,
        active_deadline_seconds=spec.active_deadline_seconds if deadline is None else deadline,
        tasks=tuple(_with_own(task, (own.tasks or {}).get(task.name) or LaharTask()) for task in spec.tasks),
    )


def _with_own(task: TaskSpec, own: LaharTask) -> TaskSpec:
    return replace(task, main=bool(own.main), min_succeeded=own.min_succeeded, max_failed=own.max_failed)


def _rule(rule: RaiseShape) -> RaiseRule:
    when = rule.when or WhenShape()
    levels: dict[str, Level] = {"job": "job", "replica": "replica"}
    return RaiseRule(
        event=rule.event or "",
        level=levels.get(when.meant_level, "task"),
        task=when.task,
        phase=when.phase,
        reason=when.reason,
        exit_code=when.exit_code,
        count=1 if when.count is None else when.count,
    )
