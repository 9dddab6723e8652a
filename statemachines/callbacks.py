"""Callback selectors: the transitions that a callback receives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from statemachines.errors import SelectorError, UnknownNameError
from statemachines.names import hint, must_be_known, must_not_be_misspelt
from statemachines.transition import Transition
from statemachines.vocabulary import (
    ATTEMPT_PHASES,
    FAILED_REASONS,
    JOB_PHASES,
    LOST_REASONS,
    REASONS,
    TASK_PHASES,
    TERMINAL_ATTEMPT_PHASES,
)

_PHASES: Final[Mapping[str, tuple[str, ...]]] = {"job": JOB_PHASES, "task": TASK_PHASES, "replica": ATTEMPT_PHASES}
_FIELDS: Final = ("level", "from", "to", "reason", "task", "labels")


@dataclass(slots=True, frozen=True)
class Selector:
    """The transitions that a callback selects. An empty set selects any value."""

    levels: frozenset[str] = frozenset()
    sources: frozenset[str] = frozenset()
    """Phases left (`from`)."""
    phases: frozenset[str] = frozenset()
    """Phases entered (`to`)."""
    reasons: frozenset[str] = frozenset()
    tasks: frozenset[str] = frozenset()
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels that the job must carry, all of them."""


@dataclass(slots=True, frozen=True)
class BudgetSelector:
    """The crossed thresholds of budgets that a callback selects."""

    tenants: frozenset[str] = frozenset()
    """Tenants with the budget; empty: any."""


def parse_selector(content: Mapping[str, Any]) -> Selector:
    """Read a selector `{level, from, to, reason, task, labels}`; each of the first five is a string or a list of strings.

    A missing field, an empty list and `*` select any value.

    Raises:
        SelectorError: a field is unknown or of the wrong type, a level does not exist, or a phase exists at none of the selected
            levels.
    """
    unknown = sorted(str(name) for name in content if name not in _FIELDS)
    if unknown:
        raise SelectorError(f"unknown field {unknown[0]!r}; a selector has {', '.join(_FIELDS)}{hint(unknown[0], _FIELDS)}")
    levels, sources, phases, reasons, tasks = (_names(content, name) for name in _FIELDS[:5])
    for level in sorted(levels):
        if level not in _PHASES:
            raise SelectorError(f"level: {level!r} is not one of {', '.join(_PHASES)}{hint(level, _PHASES)}")
    possible = {phase for level in (levels or _PHASES) for phase in _PHASES[level]}
    for name, asked in (("from", sources), ("to", phases)):
        for phase in sorted(asked - possible):
            having = " or ".join(sorted(levels or _PHASES))
            raise SelectorError(f"{name}: no {having} has a phase {phase!r}{hint(phase, possible)}")
    if tasks and levels == {"job"}:
        raise SelectorError("task: a transition of a job is of no task; leave out the task, or select the level task or replica")
    _check_reasons(reasons, levels, phases)
    labels = content.get("labels") or {}
    if not isinstance(labels, Mapping) or not all(isinstance(part, str) for pair in labels.items() for part in pair):
        raise SelectorError("labels: give a map of label to value, both strings")
    return Selector(levels, sources, phases, reasons, tasks, dict(labels))


def _check_reasons(reasons: frozenset[str], levels: frozenset[str], phases: frozenset[str]) -> None:
    """Refuse a reason that no selected transition has: ends of replicas have Lahar's, all others may have a controller's own."""
    if reasons and levels == {"task"}:
        raise SelectorError("reason: a transition of a task has none; leave out the reason, or select the level job or replica")
    ends = levels == {"replica"} and phases and phases <= TERMINAL_ATTEMPT_PHASES
    try:
        if ends:
            must_be_known("reason of an end", reasons, FAILED_REASONS | LOST_REASONS)
        else:
            must_not_be_misspelt("reason", reasons, REASONS)
    except UnknownNameError as error:
        raise SelectorError(f"reason: {error}") from None


def _names(content: Mapping[str, Any], name: str) -> frozenset[str]:
    value = content.get(name)
    if value is None:
        return frozenset()
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(part, str) for part in values):
        raise SelectorError(f"{name}: give a string or a list of strings")
    return frozenset() if "*" in values else frozenset(values)


def selects(selector: Selector, transition: Transition, labels: Mapping[str, str]) -> bool:
    """Return whether a callback selects a transition.

    Args:
        selector: the callback's selector.
        transition: the change of phase.
        labels: labels of the job.
    """
    return (
        (not selector.levels or transition.level in selector.levels)
        and (not selector.phases or transition.phase in selector.phases)
        and (not selector.sources or transition.previous in selector.sources)
        and (not selector.reasons or transition.reason in selector.reasons)
        and (not selector.tasks or transition.task in selector.tasks)
        and all(labels.get(name) == value for name, value in selector.labels.items())
    )
