"""`raise EVENT when …`: which transitions raise which custom events.

A rule fires once per (rule, job version, subject). A rule with a `count` above 1 has the job as its subject: it fires once per job
version, when as many distinct subjects of its level have matched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from statemachines.policies import MAIN_EVENT, MAIN_FAILED_EVENT
from statemachines.spec import JobSpec, RaiseRule
from statemachines.transition import Transition

CHAIN_LIMIT: Final = 8
"""Maximum length of a chain of custom events, each raised by the one before."""


def raise_rules(spec: JobSpec) -> list[RaiseRule]:
    """Return the rules of a job: its own, then those implied by `main: true`, task by task.

    A rule is identified by its position in this list.
    """
    rules = list(spec.raise_rules)
    for task in spec.tasks:
        if task.main:
            rules.append(RaiseRule(MAIN_EVENT, "task", task.name, "Completed"))
            rules.append(RaiseRule(MAIN_FAILED_EVENT, "task", task.name, "Failed"))
    return rules


def matches(rule: RaiseRule, transition: Transition) -> bool:
    """Return whether a rule matches a transition; a condition of `None` matches any."""
    return (
        rule.level == transition.level
        and (rule.task is None or rule.task == transition.task)
        and (rule.phase is None or rule.phase == transition.phase)
        and (rule.reason is None or rule.reason == transition.reason)
        and (rule.exit_code is None or rule.exit_code == transition.exit_code)
    )


def matching(rules: Sequence[RaiseRule], transition: Transition) -> list[int]:
    """Return the positions of the rules that match a transition."""
    return [number for number, rule in enumerate(rules) if matches(rule, transition)]


def subject_of(transition: Transition) -> str:
    """Return the subject of a transition within its job: empty for the job, TASK, TASK/INDEX.

    A replica that matches again with a later attempt is the same subject.
    """
    if transition.level == "job":
        return ""
    if transition.level == "task":
        return transition.task or ""
    return f"{transition.task}/{transition.index}"


def fires(rule: RaiseRule, *, fired: bool, matched: int) -> bool:
    """Return whether a rule fires for a subject that has just matched it.

    Args:
        rule: the rule.
        fired: it has fired in this job version: for this subject, or at all if it has a `count`.
        matched: distinct subjects that have matched it in this job version, this one included.
    """
    return not fired and matched >= rule.count


def too_deep(depth: int) -> bool:
    """Return whether an event of a depth is too deep to be raised: it becomes an anomaly.

    Args:
        depth: 0 for an event that a fact or a person raised, else one more than that of the event that led to it.
    """
    return depth > CHAIN_LIMIT
