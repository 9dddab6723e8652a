"""Descriptions of topics, for subscribers' documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

from engine.events.vocabulary import TYPES, Data, Topic

Scope = Literal["job", "task", "replica", "job, task or replica", "tenant", "cluster", "notice", "shard"]
"""Level of an event."""


@dataclass(frozen=True, slots=True)
class About:
    """One topic."""

    title: str
    key: str
    """Key that chooses the partition; order holds within one key."""
    text: str


TOPICS: Final[dict[Topic, About]] = {
    "pods": About("Pods", "job id", text="Observed pods, one event for each state of each pod."),
    "jobs": About(
        "Jobs",
        "job id",
        text="Jobs submitted or observed, commands, custom events, and reports on requested effects.",
    ),
    "cluster": About(
        "Cluster",
        "cluster",
        text="Nodes, queues, tenants, priority classes, price books and closed months. One partition, read by every shard.",
    ),
    "decisions": About(
        "Decisions",
        "job id",
        text="Decisions of the scheduling stage about jobs: each is accepted or refused in job events. "
        "Ordered and gapless within a job.",
    ),
    "scheduling": About(
        "Scheduling",
        "job id, or cluster",
        text="Rounds of the scheduling stage, the phases of pod groups, and why jobs wait. One partition; "
        "ordered and gapless within a job or a cluster.",
    ),
    "preemptions": About(
        "Preemptions",
        "notice",
        text="Notices of preemption: opened, acknowledged, narrowed, then executed or withdrawn, and what became of the place. "
        "Ordered and gapless within a notice.",
    ),
    "job-events": About(
        "Job events",
        "job id",
        text="The truth: every change of jobs, tasks and attempts, its cause, and the outcome of each input. "
        "Ordered and gapless within a job.",
    ),
    "billing": About(
        "Billing",
        "job id",
        text="Use and cost of attempts: never overwritten, but corrected by later events. Ordered and gapless within a job.",
    ),
    "budgets": About(
        "Budgets",
        "tenant",
        text="Crossed thresholds of tenants' budgets. One partition; ordered and gapless within a tenant.",
    ),
    "dead-letters": About(
        "Dead letters",
        "original key",
        text="Unreadable records, with their origin and original bytes.",
    ),
}
"""The topics that this release writes or reads."""

LEVELS: Final[tuple[Scope, ...]] = get_args(Scope)

_BY_PREFIX: Final[dict[str, Scope]] = {
    "pod": "replica",
    "attempt": "replica",
    "task": "task",
    "shard": "shard",
    "usage": "replica",
    "round": "cluster",
    "notice": "notice",
    "reservation": "notice",
}


def level(cls: type[Data]) -> Scope:
    """Return the level of an event class."""
    if cls.TOPIC in {"cluster", "budgets"}:
        return "cluster" if cls.TOPIC == "cluster" else "tenant"
    found = _BY_PREFIX.get(cls.TYPE.split(".")[1])
    if found:
        return found
    return "job, task or replica" if hasattr(cls, "task") and hasattr(cls, "index") else "job"


def types_by_topic() -> dict[Topic, list[type[Data]]]:
    """Return the classes of all current types by topic, in the order of their definition."""
    found: dict[Topic, list[type[Data]]] = {topic: [] for topic in TOPICS}
    for cls in TYPES.values():
        found[cls.TOPIC].append(cls)
    return found
