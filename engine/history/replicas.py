"""Replicas that do not run, grouped by state, with their history, times and reasons to wait."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from engine.events import Data, Event
from engine.events.actions import EffectRequested, EffectSettled
from engine.events.attempts import AttemptEvent
from engine.events.excerpts import gist
from engine.events.job_state import Slot
from engine.events.times import format_time
from engine.formatting import agree, brief, listed, moment, plural, sentence
from engine.history.phrases import exit_words, fate
from engine.history.view import AttemptView, JobView
from statemachines.vocabulary import TERMINAL_ATTEMPT_PHASES

MISSING: Final = "Missing"
"""Displayed phase of replicas without an attempt."""
GROUPS: Final = 12
"""Maximum number of groups in output; the largest job may have one per replica."""
_RANGES: Final = 4
_ORDER: Final = ("Failed", "Lost", "Running", "Terminating", "Bound", "Pending", MISSING, "Succeeded")
_STATES: Final = {
    "Running": "runs",
    "Terminating": "is being deleted",
    "Bound": "has not started",
    "Pending": "waits for a node",
    MISSING: "has no pod yet",
}


@dataclass(slots=True)
class Group:
    """Replicas of one task in the same state."""

    task: str
    phase: str
    """Phase of their attempts; `Missing` if they have none."""
    reason: str | None = None
    state: str = ""
    """Description of the phase, from one of them."""
    waits: str = ""
    """Reason to wait, beyond the phase."""
    attempts: list[AttemptView] = field(default_factory=list)
    """The current attempts, by index."""
    missing: list[int] = field(default_factory=list)
    """Indexes of replicas without attempts."""
    job: str = ""
    """Cluster, namespace and name of their job, in answers about several jobs."""

    @property
    def indexes(self) -> list[int]:
        """Return the replicas' indexes, ascending."""
        return [attempt.index for attempt in self.attempts] or self.missing

    @property
    def message(self) -> str:
        """Return the message of the first replica; those of the others differ in numbers only."""
        return self.attempts[0].message if self.attempts else ""

    def sentence(self) -> str:
        """Return a sentence with the event, its time, the attempt and the message."""
        indexes = self.indexes
        several = len(indexes) > 1
        ended = self.phase in TERMINAL_ATTEMPT_PHASES
        size = f" ({len(indexes):,} replicas)" if several else ""
        said = f"{self.task}[{_short(indexes)}]{size} {agree(self.state, len(indexes))}"
        if self.attempts:
            nodes = list(dict.fromkeys(attempt.node for attempt in self.attempts if attempt.node))
            said += f" on {nodes[0] if len(nodes) == 1 else f'{len(nodes)} nodes'}" if nodes else ""
            since = sorted(attempt.since for attempt in self.attempts)
            said += f" {'at' if ended else 'since'} {moment(since[0])}"
            said += f" (the last one {moment(since[-1])})" if since[-1] > since[0] else ""
            numbers = sorted({attempt.number for attempt in self.attempts})
            said += f", attempt {numbers[0]}" + (f" to {numbers[-1]}" if len(numbers) > 1 else "")
            restarts = max(attempt.restarts for attempt in self.attempts)
            said += f", {plural(restarts, 'restart')}{' at most' if several else ''}" if restarts else ""
        parts = [self.reason if self.reason and not ended else "", f"“{brief(self.message)}”" if self.message else "", self.waits]
        return sentence(": ".join([*([self.job] if self.job else []), said, *(part for part in parts if part)]))

    def document(self) -> dict[str, Any]:
        """Return the group as JSON."""
        first = self.attempts[0] if self.attempts else None
        since = [attempt.since for attempt in self.attempts]
        return ({"job": self.job} if self.job else {}) | {
            "task": self.task,
            "indexes": indexes_of(self.indexes),
            "count": len(self.indexes),
            "phase": self.phase,
            "reason": self.reason,
            "message": self.message,
            "exit_code": first.exit_code if first else None,
            "since": format_time(min(since)) if since else None,
            "last_since": format_time(max(since)) if since else None,
            "attempt": min((attempt.number for attempt in self.attempts), default=None),
            "last_attempt": max((attempt.number for attempt in self.attempts), default=None),
            "restarts": max((attempt.restarts for attempt in self.attempts), default=0),
            "pod": first.pod if first else None,
            "node": first.node if first else None,
            "waits": self.waits,
        }


def indexes_of(indexes: Sequence[int]) -> list[list[int]]:
    """Return ascending indexes as ranges of first and last."""
    ranges: list[list[int]] = []
    for index in indexes:
        if ranges and index == ranges[-1][1] + 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    return ranges


def _short(indexes: Sequence[int]) -> str:
    ranges = indexes_of(indexes)
    shown = [str(first) if first == last else f"{first}..{last}" for first, last in ranges[:_RANGES]]
    return ",".join(shown) + (",…" if len(ranges) > _RANGES else "")


def refusals(events: Iterable[Event[Data]]) -> dict[Slot, EffectSettled]:
    """Return the last effect report of each attempt, if it was refused and the pod was not observed since."""
    asked: dict[str, Slot] = {}
    found: dict[Slot, EffectSettled] = {}
    for event in events:
        data = event.data
        if isinstance(data, EffectRequested) and data.task is not None and data.index is not None and data.attempt is not None:
            asked[event.id] = (data.task, data.index, data.attempt)
        elif isinstance(data, AttemptEvent):
            found.pop((data.task, data.index, data.attempt), None)
        elif isinstance(data, EffectSettled) and data.effect in asked:
            key = asked[data.effect]
            found.pop(key, None)
            if data.outcome == "failed":
                found[key] = data
    return found


def groups_of(job: JobView, refused: dict[Slot, EffectSettled], *, live_only: bool = False) -> list[Group]:
    """Return the groups of replicas that do not run, or not well, most urgent first.

    Args:
        job: the job.
        refused: see `refusals`.
        live_only: leave out replicas that have ended or not started, because the job is ending.
    """
    wanted = [
        attempt
        for attempt in job.current()
        if attempt.phase != "Succeeded"
        and (attempt.phase != "Running" or _is_odd(attempt))
        and (attempt.ended is None or not live_only or _waits_for_object(job, attempt))
    ]
    return by_urgency(grouped(job, wanted, refused) + (_missing(job) if job.attempts and not live_only else []))


def grouped(job: JobView, attempts: Iterable[AttemptView], refused: dict[Slot, EffectSettled]) -> list[Group]:
    """Group attempts of a job by state."""
    found: dict[tuple[object, ...], Group] = {}
    for attempt in attempts:
        waits = _waits(job, attempt, refused.get((attempt.task, attempt.index, attempt.number)))
        state = _state(attempt)
        reason = (
            None if attempt.uid is None and attempt.reason == "Queued" else attempt.reason
        )  # without a pod it is in no scheduler's queue
        key = (attempt.task, attempt.phase, reason, state, gist(attempt.message), gist(waits))
        group = found.setdefault(key, Group(attempt.task, attempt.phase, reason, state, waits))
        group.attempts.append(attempt)
    return list(found.values())


def by_urgency(groups: Iterable[Group]) -> list[Group]:
    """Sort groups by urgency: bad ends first, larger groups first."""
    return sorted(groups, key=lambda group: (_ORDER.index(group.phase), -len(group.indexes)))


def _is_odd(attempt: AttemptView) -> bool:
    return bool(attempt.reason or attempt.message or attempt.disruption or attempt.object == "deleting")


def _state(attempt: AttemptView) -> str:
    if attempt.phase in TERMINAL_ATTEMPT_PHASES:
        return fate(attempt.phase, attempt.reason) + exit_words(attempt.reason, attempt.exit_code)
    if attempt.phase == "Pending" and attempt.object in {"absent", "asked"}:
        return "has no pod yet" if attempt.object == "absent" else "waits for a pod to be made"
    return _STATES[attempt.phase]


def _waits(job: JobView, attempt: AttemptView, refused: EffectSettled | None) -> str:
    if refused is not None:
        why = ", ".join(part for part in (refused.reason, f"“{brief(refused.message)}”" if refused.message else "") if part)
        return "the last request for it failed" + (f" ({why})" if why else "")
    if attempt.disruption:
        return f"a disruption is announced ({attempt.disruption})"
    if attempt.ended is None and attempt.phase != "Terminating" and attempt.object == "deleting":
        return "its deletion was requested"
    if attempt.reason == "Starting" and not attempt.message:
        return "its node prepares volumes, network and images for its containers"
    if _waits_for_object(job, attempt):
        return f"the next attempt waits until pod {attempt.pod} is gone"
    return ""


def _waits_for_object(job: JobView, attempt: AttemptView) -> bool:
    return attempt.ended is not None and job.managed and attempt.object == "deleting"


def needs(groups: Iterable[Group]) -> list[tuple[str | None, str, str | None]]:
    """Return reason, pod and node of one attempt per group, for `advice`."""
    return [
        (group.reason, group.attempts[0].pod, group.attempts[0].node) if group.attempts else (group.reason, "", None)
        for group in groups
    ]


def _missing(job: JobView) -> list[Group]:
    """Return the replicas without an attempt, except those of tasks that wait for other tasks."""
    begun: dict[str, set[int]] = {}
    for name, index, _ in job.attempts:
        begun.setdefault(name, set()).add(index)
    groups = []
    for task in job.tasks.values():
        lacking = [index for index in range(task.replicas) if index not in begun.get(task.name, ())]
        if lacking and task.phase != "Waiting":
            groups.append(Group(task.name, MISSING, state=_STATES[MISSING], missing=lacking))
    return groups


def waiting_tasks(job: JobView, depends: Iterable[tuple[str, tuple[str, ...], bool]]) -> list[str]:
    """Return sentences on tasks that wait for others, with the phases of those.

    Args:
        job: the job.
        depends: task, its dependencies, and true if one of them suffices.
    """
    found: dict[str, list[str]] = {}
    for name, others, any_ in depends:
        if name in job.tasks and job.tasks[name].phase == "Waiting":
            stand = [f"{other} ({job.tasks[other].phase})" if other in job.tasks else other for other in others]
            found.setdefault(("one of " if any_ and len(stand) > 1 else "") + listed(stand), []).append(name)
    return [
        f"Task{'s' if len(names) > 1 else ''} {listed(names)} {agree('waits', len(names))} for {others}."
        for others, names in found.items()
    ]
