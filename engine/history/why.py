"""Why: the chain of causes of an event, and what brought a job to where it stands, in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final, cast

from engine.events import Data, Event
from engine.events.inputs import CommandIssued
from engine.events.jobs import (
    ActionDeferred,
    ActionTaken,
    AttemptEnded,
    AttemptStarted,
    EventRaised,
    JobOpened,
    JobParked,
    JobPhaseChanged,
    JobRevised,
    JobUnparked,
    TimerSet,
)
from engine.events.times import format_time
from engine.history.fold import fold
from engine.history.reading import JobHistory
from engine.history.sentences import attempt_of, exit_words, fate, limit, tell
from engine.history.view import AttemptView, JobView
from engine.history.wording import length, moment, plural

__all__ = ["Explanation", "Step", "why_event", "why_job"]

_NAMED: Final = 4
"""Attempts that are named one by one before the rest is counted."""
_INCIDENTS: Final = 6
_STOPS: Final = {"Completed": "Completing", "Terminated": "Terminating", "Aborted": "Aborting"}
"""Phases in which a job ends up when its last pod has stopped, and those in which it waits for that."""
_STOPPED: Final = frozenset({"KilledByAction", "StoppedByUser"})


@dataclass(slots=True)
class Step:
    """One link of the chain of causes."""

    text: str
    event: str
    """Id of the event or input."""
    type: str
    time: int


@dataclass(slots=True)
class Explanation:
    """An answer to `why`."""

    headline: str
    details: list[str] = field(default_factory=list)
    """Whole sentences, most important first."""
    causes: list[Step] = field(default_factory=list)
    """From what is explained back to the input; empty if a job just waits."""

    def sentences(self) -> list[str]:
        """Return all of it as sentences, in the order in which they are read."""
        said = [self.headline, *self.details]
        if len(self.causes) > 1:
            said.append(_sentence(f"{self.causes[0].text}, because {'; because '.join(step.text for step in self.causes[1:])}"))
        return said

    def document(self) -> dict[str, Any]:
        """Return the answer as JSON."""
        return {
            "headline": self.headline,
            "details": self.details,
            "causes": [
                {"text": step.text, "id": step.event, "type": step.type, "time": format_time(step.time)} for step in self.causes
            ],
        }


def why_event(history: JobHistory, event: Event[Data]) -> Explanation:
    """Explain one event of a job: what led to it, back to the input, and what followed from it directly."""
    steps = _steps(history, event)
    followed = [tell(effect) for effect in history.effects(event)]
    details = []
    if followed:
        shown = followed[:_INCIDENTS]
        more = f"; and {len(followed) - len(shown)} more" if len(followed) > len(shown) else ""
        details.append(_sentence(f"From this followed: {'; '.join(shown)}{more}"))
    return Explanation(_sentence(tell(event)), details, steps)


def why_job(history: JobHistory) -> Explanation | None:
    """Explain why a job is in its phase; `None` if the history holds no job.

    What is said depends on the phase: what it waits for, who or what stopped it, which attempts failed first, and in every
    case what befell it on the way there; the causes end with what its owner or a person said.
    """
    job = fold(history.events)
    if job is None:
        return _unopened(history)
    changed = _decisive(history.events)
    steps = _steps(history, changed) if changed is not None else []
    taken = [event for event in _actions(history) if all(step.event != event.id for step in steps)]
    details: list[str] = []
    if job.parked:
        details.append(_parked(job.parked))
    if job.phase in {"Pending", "Privileged"}:
        details += _waiting(job)
    elif job.phase in {"Running", "WillEvicted"}:
        details += _running(job)
    else:
        details += _leaving(job)
    details += _restarts(history, job)
    details += _failures(history, job, told={link.id for event in taken for link in history.causes(event)})
    details += _incidents(history, taken)
    details += [
        _sentence(
            f"{(timer.kind == 'policy' and timer.action) or limit(timer.kind, timer.node)} "
            f"{'waits until the job is unparked and nothing is held of it' if timer.held else f'is due at {moment(timer.due)}'}"
        )
        for timer in job.timers.values()
    ]
    return Explanation(_headline(job), details, steps)


def _unopened(history: JobHistory) -> Explanation | None:
    """Explain what is no job since its first input is parked; `None`: it is not."""
    said = [event for event in history.events if isinstance(event.data, JobParked | JobUnparked)]
    if not said or not isinstance(said[-1].data, JobParked):
        return None
    return Explanation("It is no job yet.", [_parked(said[-1].data.error)], _steps(history, said[-1]))


def _parked(error: str) -> str:
    return _sentence(f"It is parked, its inputs wait for `lahar job unpark`: {error}")


def _sentence(text: str) -> str:
    text = text if text.endswith((".", "…")) else text + "."
    # Names keep their own case: worker[2], default/bert.
    named = any(mark in text.partition(" ")[0] for mark in "[/")
    return text if named else text[0].upper() + text[1:]


def _steps(history: JobHistory, event: Event[Data]) -> list[Step]:
    links = history.causes(event)
    by_command = any(isinstance(link.data, CommandIssued) for link in links)
    return [Step(_told(link, by_command=by_command), link.id, link.type, link.time) for link in links]


def _told(link: Event[Data], *, by_command: bool) -> str:
    """Tell a link of a chain; where the command itself is told, its reason stands there alone."""
    said = tell(link)
    if by_command and isinstance(link.data, ActionTaken | ActionDeferred):
        said = said.removesuffix(f" ({link.data.reason})")
    return said


def _decisive(events: Sequence[Event[Data]]) -> Event[JobPhaseChanged] | None:
    """Return the last change of the job's phase; for one that only ends a stop, the change that began the stop."""
    changes = [cast("Event[JobPhaseChanged]", event) for event in events if isinstance(event.data, JobPhaseChanged)]
    if not changes:
        return None
    begun = _STOPS.get(changes[-1].data.phase)
    if changes[-1].data.previous != begun:
        return changes[-1]
    return next((event for event in reversed(changes) if event.data.phase == begun), changes[-1])


def _headline(job: JobView) -> str:
    name = f"{job.namespace}/{job.name}"
    since = f"since {moment(job.since)}"
    if job.phase in {"Completed", "Failed", "Terminated", "Aborted"}:
        began = [attempt.running for attempt in job.attempts.values() if attempt.running is not None]
        ran = f", {length(job.since - min(began))} after it first ran" if began and job.since > min(began) else ""
        reason = f" ({job.reason})" if job.reason and job.reason != job.phase else ""
        return f"{name} is {job.phase}{reason} {since}{ran}."
    return f"{name} is {job.phase} {since}."


def _waiting(job: JobView) -> list[str]:
    """Say what a pending job waits for."""
    current = job.current()
    said = []
    waiting = [attempt for attempt in current if attempt.phase in {"Pending", "Bound"}]
    for (phase, reason), found in _grouped(waiting, lambda attempt: (attempt.phase, attempt.reason or "")):
        one = len(found) == 1
        if phase == "Pending":
            state = "waits for a node" if one else "wait for a node"
        else:
            state = "has a node and has not started" if one else "have a node and have not started"
        said.append(_sentence(f"{_names(found)} {state}" + (f": {reason}" if reason else "")))
    tasks = [task.name for task in job.tasks.values() if task.phase == "Waiting"]
    if tasks:
        who = "Task {} waits for the tasks that it depends" if len(tasks) == 1 else "Tasks {} wait for the tasks that they depend"
        said.append(f"{who.format(_list(tasks))} on.")
    running = sum(attempt.phase == "Running" for attempt in current)
    wanted = job.min_available or sum(task.replicas for task in job.tasks.values())
    if running and running < wanted:
        said.append(f"{running} of the {wanted} replicas that must run at once {'is' if running == 1 else 'are'} running.")
    if not current:
        said.append("None of its pods has been seen yet.")
    return said + _stopping(current)


def _running(job: JobView) -> list[str]:
    current = job.current()
    running = [attempt for attempt in current if attempt.phase == "Running"]
    said = [f"{len(running)} of {plural(len(current), 'replica')} {'is' if len(running) == 1 else 'are'} running."]
    odd = [attempt for attempt in running if attempt.reason]
    said += [_sentence(f"{_names(found)}: {reason}") for reason, found in _grouped(odd, lambda attempt: attempt.reason or "")]
    return said + _stopping(current)


def _stopping(attempts: Iterable[AttemptView]) -> list[str]:
    """Say which replicas are being deleted, and why as far as that is known."""
    stopping = [attempt for attempt in attempts if attempt.phase == "Terminating"]
    return [
        _sentence(f"{_names(found)} {'is' if len(found) == 1 else 'are'} being deleted" + (f": {reason}" if reason else ""))
        for reason, found in _grouped(stopping, lambda attempt: attempt.reason or "")
    ]


def _leaving(job: JobView) -> list[str]:
    """Say how the replicas of a job that is over, or on its way, stand."""
    current = job.current()
    if not current:
        return ["None of its pods was ever seen."]
    parts = [f"{len(found)} {how}" for how, found in _grouped(current, _stands)]
    return [f"Of {plural(len(current), 'replica')}: {', '.join(parts)}."]


def _stands(attempt: AttemptView) -> str:
    return "stopped" if attempt.reason in _STOPPED else attempt.phase


def _restarts(history: JobHistory, job: JobView) -> list[str]:
    """Say how often a managed job was restarted, and how many of its retries that used."""
    if not job.managed or not job.restarts:
        return []
    specs = [event.data.spec for event in history.events if isinstance(event.data, JobOpened | JobRevised)]
    limit = next((spec.max_retry for spec in reversed(specs) if spec is not None), 0)
    times = "once" if job.restarts == 1 else f"{job.restarts} times"
    spared = " (what is not the job's own fault uses none)" if job.retry_count < job.restarts else ""
    return [f"It was restarted {times}; retries used: {job.retry_count} of {limit}{spared}."]


def _failures(history: JobHistory, job: JobView, told: set[str]) -> list[str]:
    """Say which attempts of a failed, stopped or aborted job ended badly, the first ones first.

    Left out are those that a managed job stopped itself, and those of the events that are `told` elsewhere.
    """
    if job.phase not in {"Failed", "Terminated", "Aborted", "Aborting", "Terminating"}:
        return []
    ends = [
        (event.time, event.data)
        for event in history.events
        if isinstance(event.data, AttemptEnded)
        and event.data.phase != "Succeeded"
        and event.id not in told
        and not (job.managed and event.data.reason in _STOPPED)
    ]
    ends.sort(key=lambda end: end[0])
    groups = [list(found) for _, found in groupby(ends, key=_how)]
    said = []
    for place, group in enumerate(groups[:_NAMED]):
        time, data = group[0]
        names = _list([attempt_of(end) for _, end in group])
        ran = f" after running {length(data.ran)}" if data.ran else ""
        node = f" on {data.node}" if data.node and len(group) == 1 else ""
        what = f"{fate(data.phase, data.reason)}{exit_words(data.reason, data.exit_code)} at {moment(time)}{node}{ran}"
        order = "" if len(groups) == 1 else "first, " if place == 0 else "then "
        together = ", all at once" if len(group) > 1 else ""
        said.append(_sentence(f"{order}{names} {_agree(what, len(group))}{together}"))
    if len(groups) > _NAMED:
        rest = sum(len(group) for group in groups[_NAMED:])
        said.append(f"{plural(rest, 'more attempt')} ended badly after that.")
    return said


def _how(end: tuple[int, AttemptEnded]) -> tuple[object, ...]:
    time, data = end
    return time, data.phase, data.reason, data.exit_code, data.ran


def _agree(what: str, count: int) -> str:
    if count > 1 and what.startswith("was "):
        return "were " + what.removeprefix("was ")
    if count > 1 and what.startswith("has "):
        return "have " + what.removeprefix("has ")
    return what


def _actions(history: JobHistory) -> list[Event[Data]]:
    """Return each action that a policy or a person took, delayed ones included."""
    return [event for event in history.events if isinstance(event.data, ActionTaken | TimerSet) and _is_action(event.data)]


def _incidents(history: JobHistory, taken: Sequence[Event[Data]]) -> list[str]:
    """Tell of actions what led to them, and which attempts took the place of others."""
    said = []
    for event in taken[:_INCIDENTS]:
        chain = [link for link in reversed(history.causes(event)[1:]) if isinstance(link.data, AttemptEnded | EventRaised)]
        told = [
            tell(link)
            for link in chain
            if not (isinstance(link.data, EventRaised) and link.data.rule is None and link is not chain[0])
        ]
        told.append(tell(event))
        told += [tell(next_one) for next_one in _successors(history, event, chain)]
        said.append(_sentence("; ".join(told)))
    if len(taken) > _INCIDENTS:
        said.append(f"{plural(len(taken) - _INCIDENTS, 'more action')} followed; `lahar history` shows them.")
    return said


def _is_action(data: Data) -> bool:
    return isinstance(data, ActionTaken) or (isinstance(data, TimerSet) and data.timer == "policy")


def _successors(history: JobHistory, action: Event[Data], chain: Sequence[Event[Data]]) -> list[Event[Data]]:
    """Return the attempts that took the place of the ones whose ends led to an action."""
    if isinstance(action.data, TimerSet):
        return []
    found = []
    for link in chain:
        data = link.data
        if isinstance(data, AttemptEnded):
            slot = (data.task, data.index, data.attempt + 1)
            found += [
                event
                for event in history.events
                if isinstance(event.data, AttemptStarted) and (event.data.task, event.data.index, event.data.attempt) == slot
            ]
    return found


def _grouped(attempts: Iterable[AttemptView], key: Any) -> list[tuple[Any, list[AttemptView]]]:  # noqa: ANN401 - any key
    groups: dict[Any, list[AttemptView]] = {}
    for attempt in attempts:
        groups.setdefault(key(attempt), []).append(attempt)
    return sorted(groups.items())


def _names(attempts: Sequence[AttemptView]) -> str:
    return _list([f"{attempt.task}[{attempt.index}]" for attempt in attempts])


def _list(names: Sequence[str]) -> str:
    """Name a few things, count the rest: `a, b and 3 more`."""
    if len(names) > _NAMED + 1:
        return f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
