"""Rules for Lahar's own fields."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from engine.events.bounds import SCHEMA_VALUES
from engine.events.outcomes import Fault
from engine.kubernetes.manifests.checks import at_least, one_of
from engine.kubernetes.manifests.event_schemas import schema_fault
from engine.kubernetes.manifests.lahar_spec import LaharSpec, LaharTask, RaiseShape, WhenShape
from engine.kubernetes.manifests.linear_patterns import PatternBudget
from engine.kubernetes.reading.bounded_values import more_than
from engine.kubernetes.reading.shapes import child
from statemachines.errors import UnknownNameError
from statemachines.names import hint, must_not_be_misspelt
from statemachines.vocabulary import ATTEMPT_PHASES, BUS_EVENTS, JOB_PHASES, REASONS, TASK_PHASES

_PHASES: Final[dict[str, tuple[str, ...]]] = {"job": JOB_PHASES, "task": TASK_PHASES, "replica": ATTEMPT_PHASES}
_EVENT_NAME: Final = re.compile(r"[A-Za-z][-A-Za-z0-9_.]{0,62}", re.ASCII)
_COMPARED: Final = 100
"""Maximum number of rules whose reasons are compared with Lahar's, at about a millisecond each."""


def lahar_faults(own: LaharSpec, replicas: Mapping[str, int], path: str) -> Iterator[Fault]:
    """Validate Lahar's own fields.

    Args:
        own: shape of the fields.
        replicas: replicas by task of the job.
        path: path of the fields.
    """
    yield from one_of(own.on_preempted, ("Requeue", "Abort", "Terminate"), child(path, "onPreempted"))
    yield from at_least(own.min_run_seconds, 0, child(path, "minRunSeconds"))
    yield from at_least(own.active_deadline_seconds, 1, child(path, "activeDeadlineSeconds"))
    for index, code in enumerate(own.permanent_exit_codes or []):
        if not 0 < code < 256:
            yield Fault(child(path, "permanentExitCodes", index), "must be between 1 and 255: 0 is no failure")
    schemas = own.custom_events or {}
    if too_large := more_than(SCHEMA_VALUES, list(schemas.values())):
        yield Fault(child(path, "customEvents"), f"their schemas have more than {SCHEMA_VALUES} values together")
    budget = PatternBudget()
    for name, schema in schemas.items():
        yield from _event_name_faults(name, child(path, "customEvents", name))
        if not too_large:
            yield from _schema_faults(schema, budget, child(path, "customEvents", name))
    for index, rule in enumerate(own.rules or []):
        where = child(path, "raise", index)
        yield from _rule_faults(rule, replicas, where)
        if index < _COMPARED and rule.when is not None and rule.when.reason is not None:
            yield from _reason_faults(rule.when.reason, child(where, "when", "reason"))
    for name, task in (own.tasks or {}).items():
        where = child(path, "tasks", name)
        if name not in replicas:
            yield Fault(where, f"the job has no task {name}: it has {', '.join(replicas) or 'none'}")
        elif task is not None:
            yield from _task_faults(task, replicas[name], where)


def _task_faults(task: LaharTask, replicas: int, path: str) -> Iterator[Fault]:
    yield from at_least(task.max_failed, 0, child(path, "maxFailed"))
    yield from at_least(task.min_succeeded, 1, child(path, "minSucceeded"))
    if task.min_succeeded is not None and task.min_succeeded > replicas:
        yield Fault(child(path, "minSucceeded"), f"must be at most the task's replicas, {replicas}")


def _rule_faults(rule: RaiseShape, replicas: Mapping[str, int], path: str) -> Iterator[Fault]:
    yield from _event_name_faults(rule.event or "", child(path, "raise"))
    when, where = rule.when or WhenShape(), child(path, "when")
    if when.phase is None and when.reason is None and when.exit_code is None:
        yield Fault(where, "must name a phase, a reason or an exitCode: what is to raise the event")
    level = when.meant_level
    if level not in _PHASES:
        yield Fault(child(where, "level"), f"must be {' or '.join(_PHASES)}")
        return
    if when.phase is not None and when.phase not in _PHASES[level]:
        near = hint(when.phase, _PHASES[level])
        yield Fault(child(where, "phase"), f"must be a phase of a {level}: {', '.join(_PHASES[level])}{near}")
    if when.task is not None and level == "job":
        yield Fault(child(where, "task"), "a rule about the job names no task")
    elif when.task is not None and when.task not in replicas:
        yield Fault(child(where, "task"), f"the job has no task {when.task}: it has {', '.join(replicas) or 'none'}")
    if when.exit_code is not None and level != "replica":
        yield Fault(child(where, "exitCode"), f"only a replica ends with an exit code, not a {level}")
    yield from at_least(when.count, 1, child(where, "count"))
    if level == "job" and (when.count or 1) > 1:
        yield Fault(child(where, "count"), "must be 1: there is one job")


def _reason_faults(reason: str, path: str) -> Iterator[Fault]:
    """Reject a misspelt reason of Lahar; other reasons are valid, because controllers have their own."""
    try:
        must_not_be_misspelt("reason", [reason], REASONS)
    except UnknownNameError as error:
        yield Fault(path, str(error))


def _event_name_faults(name: str, path: str) -> Iterator[Fault]:
    if name in BUS_EVENTS:
        yield Fault(path, f"{name} is a built-in event: choose another name")
    elif not _EVENT_NAME.fullmatch(name):
        yield Fault(path, "must name an event: at most 63 letters, digits, '-', '_' and '.', beginning with a letter")


def _schema_faults(schema: dict[str, Any] | None, budget: PatternBudget, path: str) -> Iterator[Fault]:
    if schema is not None and (message := schema_fault(schema, budget)):
        yield Fault(path, message)
