"""Why: the chain of causes of an event, and the reasons for a job's phase, as sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain, groupby
from typing import Final, cast

from engine.events import Data, Event
from engine.events.actions import ActionDeferred, ActionTaken, EventRaised, TimerSet
from engine.events.attempts import AttemptEnded, AttemptEvent, AttemptMoved, AttemptStarted
from engine.events.decisions import SCHEDULER
from engine.events.excerpts import gist
from engine.events.inputs import CommandIssued
from engine.events.jobs import JobPhaseChanged
from engine.events.outcomes import JobParked, JobUnparked
from engine.events.times import SECOND
from engine.formatting import NAMED, agree, brief, length, listed, moment, plural, sentence
from engine.history.advice import advice
from engine.history.explanation import Explanation, Step, chains
from engine.history.fold import fold
from engine.history.noticed import Noticed
from engine.history.phrases import attempt_of, exit_words, fate, limit, quoted
from engine.history.reading import JobHistory
from engine.history.replicas import GROUPS, groups_of, needs, refusals, waiting_tasks
from engine.history.sentences import describe
from engine.history.view import AttemptView, JobView, attempt_name
from engine.history.waiting import Waiting, promise_of
from engine.lifecycle.observed_jobs import MOVED
from statemachines.vocabulary import FINISHED_JOB_PHASES

_INCIDENTS: Final = 6
_SOON: Final = 10 * SECOND
_STOPS: Final = {"Completed": "Completing", "Terminated": "Terminating", "Aborted": "Aborting"}
"""By final phase of a job, the phase in which it waits for its last pod to stop."""
_ACTIVE: Final = frozenset({"Pending", "Privileged", "Running", "WillEvicted"})
"""Phases of a job in which each of its replicas should run."""
_OVER: Final = FINISHED_JOB_PHASES | {"Aborted"}
_STOPPED: Final = frozenset({"KilledByAction", "StoppedByUser"})


def why_event(history: JobHistory, event: Event[Data]) -> Explanation:
    """Explain one event of a job: its chain of causes back to the input, and its direct effects."""
    links = steps(history, event)
    effects = history.effects(event)
    details = []
    for what, found in (
        ("From this followed", [effect for effect in effects if effect.time >= event.time]),
        ("With it was recorded", [effect for effect in effects if effect.time < event.time]),
    ):
        more = f"; and {len(found) - _INCIDENTS} more" if len(found) > _INCIDENTS else ""
        details += [sentence(f"{what}: {'; '.join(map(describe, found[:_INCIDENTS]))}{more}")] if found else []
    return Explanation(sentence(describe(event)), details, *links)


def why_job(
    history: JobHistory, waiting: Waiting | None = None, notice: Noticed | None = None, clock: int | None = None
) -> Explanation | None:
    """Explain why a job is in its phase; `None` if the history has no job.

    The details depend on the phase: pending reasons, the actor that stopped the job, the attempts that failed first. Incidents are
    always included. The chain of causes ends with a report of the job's owner or a person's command.

    Args:
        history: events of the job.
        waiting: pending reason from Lahar's scheduler; `None`: none.
        notice: open notice of preemption of the job; `None`: none.
        clock: current time (microseconds), before which due timers are overdue; `None`: no timer is.
    """
    job = fold(history.events)
    if job is None:
        return _unopened(history)
    changed = _decisive(history.events)
    causes, recorded = steps(history, changed) if changed is not None else ([], [])
    taken = [event for event in _actions(history) if all(step.event != event.id for step in causes + recorded)]
    groups = groups_of(job, refusals(history.events), live_only=job.phase not in _ACTIVE) if job.phase not in _OVER else []
    details: list[str] = []
    if job.parked:
        details.append(_parked(job.parked))
    details += of_object(job)
    details += notice.sentences() if notice is not None else []
    if job.phase not in _ACTIVE:
        waiting = None
    promise = promise_of(history.events) if (waiting is None or waiting.promised) and job.phase in _ACTIVE else []
    details += [*(waiting.sentences() if waiting is not None else ()), *promise]
    if job.phase in _ACTIVE:
        details += waiting_tasks(job, depends(job))
        details += _running(job)
    else:
        details += _leaving(job) if job.reason != MOVED else []
    details += _moves(history)
    details += [group.sentence() for group in groups[:GROUPS]]
    if len(groups) > GROUPS:
        rest = sum(len(group.indexes) for group in groups[GROUPS:])
        details.append(f"{plural(rest, 'more replica')} {agree('is', rest)} not running either; `lahar job show` lists them.")
    details += _restarts(job)
    details += _failures(history, job, told={link.id for event in taken for link in history.causes(event)})
    details += _incidents(history, taken)
    details += _timers(job, clock or 0)
    reasons = [(job.reason, "", None), *needs(groups[:GROUPS])]
    if waiting is not None or promise:  # its pods are Queued until the scheduler binds them
        reasons = [reason for reason in reasons if reason[0] != "Queued"]
    told = [notice.advice()] if notice is not None else [waiting.advice()] if waiting is not None else []
    told += advice(reasons, job.namespace)
    return Explanation(_headline(job), details, causes, recorded, groups[:GROUPS], told, waiting, notice)


def of_object(job: JobView) -> list[str]:
    """Return the reports of a live job's object, and other obstacles of the job as a whole."""
    said = []
    if job.phase not in _OVER and job.message:
        said.append(f"Its {job.kind} object says: “{brief(job.message)}”.")
    if job.object_deleted and job.phase not in _OVER:
        said.append("Its object is deleted.")
    if job.deferred is not None:
        said.append(f"{job.deferred} waits until the restart is over.")
    return said


def depends(job: JobView) -> list[tuple[str, tuple[str, ...], bool]]:
    """Return each task with dependencies: its name, theirs, and true if one of them suffices."""
    return [(task.name, task.depends_on.names, task.depends_on.any) for task in job.spec.tasks if task.depends_on is not None]


def _timers(job: JobView, clock: int) -> list[str]:
    """Return sentences on timers, equal ones merged. A running engine fires due timers within seconds."""
    found: dict[tuple[str, bool], list[int]] = {}
    for timer in job.timers.values():
        what = (timer.kind == "policy" and timer.action) or limit(timer.kind, timer.node)
        found.setdefault((what, timer.held), []).append(timer.due)
    said = []
    for (what, held), dues in found.items():
        more = f" ({len(dues)} of them, the last at {moment(max(dues))})" if len(dues) > 1 else ""
        if held:
            until = "waits until the job is unparked and has no held input"
        elif min(dues) + _SOON < clock:
            until = f"was due at {moment(min(dues))}{more} and is overdue: no engine has fired it, `lahar run` does"
        else:
            until = f"is due at {moment(min(dues))}{more}"
        said.append(sentence(f"{what} {until}"))
    return said[:_INCIDENTS]


def _unopened(history: JobHistory) -> Explanation | None:
    """Explain a subject that is no job yet because its first input is parked; `None` otherwise."""
    said = [event for event in history.events if isinstance(event.data, JobParked | JobUnparked)]
    if not said or not isinstance(said[-1].data, JobParked):
        return None
    return Explanation("It is no job yet.", [_parked(said[-1].data.error)], *steps(history, said[-1]))


def _parked(error: str) -> str:
    return sentence(f"It is parked, its inputs wait for `lahar job unpark`: {error}")


def steps(history: JobHistory, event: Event[Data]) -> tuple[list[Step], list[Step]]:
    """Return an event and its chain of causes, back to the input, as steps.

    An observation, or a timer that ends a wait, may record an earlier fact, of which it is not the cause. The second list begins
    with the first such link.
    """
    links = history.causes(event)
    by_command = any(isinstance(link.data, CommandIssued) for link in links)
    causes, *recorded = chains([Step(_described(link, by_command=by_command), link.id, link.type, link.time) for link in links])
    return causes, list(chain.from_iterable(recorded))


def _described(link: Event[Data], *, by_command: bool) -> str:
    """Describe a link of a chain; if the command itself is a link, the reason appears there only.

    The message of an attempt is left out, because the attempt's own sentence has it.
    """
    said = describe(link)
    if isinstance(link.data, AttemptEvent):
        said = said.removesuffix(quoted(link.data.message))
    if by_command and isinstance(link.data, ActionTaken | ActionDeferred):
        said = said.removesuffix(f" ({link.data.reason})")
    return said


def _decisive(events: Sequence[Event[Data]]) -> Event[JobPhaseChanged] | None:
    """Return the last change of the job's phase; if that only completed a stop, the change that began the stop."""
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
    reason = f" ({job.reason})" if job.reason and job.reason != job.phase else ""
    if job.phase in _OVER:
        began = [attempt.running for attempt in job.attempts.values() if attempt.running is not None]
        ran = f", {length(job.since - min(began))} after it first ran" if began and job.since > min(began) else ""
        return f"{name} is {job.phase}{reason} {since}{ran}."
    queue = f" in queue {job.queue}" if job.queue != "default" and job.phase == "Pending" else ""
    return f"{name} is {job.phase}{reason}{queue} {since}."


def _running(job: JobView) -> list[str]:
    """Return sentences with the number of running replicas of a job that should run."""
    current = job.current()
    if not current:
        if job.managed and job.spec.scheduler_name == SCHEDULER:
            return ["It has no pods yet: the scheduler has not enqueued it."]
        return ["None of its pods has been seen yet."] if job.phase == "Pending" and job.reason is None else []
    running = sum(attempt.phase == "Running" for attempt in current)
    succeeded = sum(attempt.phase == "Succeeded" for attempt in current)
    done = f", {succeeded} {agree('has', succeeded)} succeeded" if succeeded else ""
    if job.phase not in {"Pending", "Privileged"}:
        return [f"{running} of {plural(len(current), 'replica')} {agree('is', running or 2)} running{done}."]
    wanted = job.min_available or sum(task.replicas for task in job.tasks.values())
    if running and running < wanted:
        return [f"{running} of the {wanted} replicas that must run at once {agree('is', running)} running{done}."]
    return []


def _leaving(job: JobView) -> list[str]:
    """Count the replicas of a job that has ended or is ending, by state."""
    current = job.current()
    if not current:
        return ["None of its pods was ever seen."]
    parts = [f"{count} {how}" for how, count in sorted(Counter(map(_state, current)).items())]
    return [f"Of {plural(len(current), 'replica')}: {', '.join(parts)}."]


def _moves(history: JobHistory) -> list[str]:
    """Count the pods that moved to the job of which this one is a part, and those that came from parts of this one."""
    told = [event.data for event in history.events]
    left = Counter((data.owner, data.to) for data in told if isinstance(data, AttemptMoved))
    came = Counter(data.moved_from.job for data in told if isinstance(data, AttemptStarted) and data.moved_from is not None)
    said = [f"{count} of its pods moved to {owner}, job {to}, of which it is a part." for (owner, to), count in left.items()]
    return said + [f"{count} of its pods came from job {source}, which is a part of it." for source, count in came.items()]


def _state(attempt: AttemptView) -> str:
    return "stopped" if attempt.reason in _STOPPED else attempt.phase


def _restarts(job: JobView) -> list[str]:
    """Return sentences with the restarts of the job, its retries if it is managed, and of its containers."""
    said = []
    if job.managed and job.restarts:
        times = "once" if job.restarts == 1 else f"{job.restarts} times"
        spared = " (restarts that are not the job's fault use none)" if job.retry_count < job.restarts else ""
        said.append(f"It was restarted {times}; retries used: {job.retry_count} of {job.spec.max_retry}{spared}.")
    if job.phase in _ACTIVE:
        return said
    if not job.managed and (replaced := len(job.replaced())):
        said.append(f"{replaced:,} of its pods {agree('was', replaced)} replaced.")
    in_place = sum(attempt.restarts for attempt in job.attempts.values())
    if in_place:
        said.append(f"Its containers were restarted in place {plural(in_place, 'time')}.")
    return said


def _failures(history: JobHistory, job: JobView, told: set[str]) -> list[str]:
    """Describe attempts that failed: of a live job the earlier ones, last first; of another job the first ones.

    Attempts that a managed job stopped itself, those whose events are in `told`, and, in a successful job, those without a
    replacement are left out.
    """
    lives = job.phase in _ACTIVE
    badly = job.phase in {"Failed", "Terminated", "Aborted", "Aborting", "Terminating"}
    shown = {attempt.name for attempt in (job.attempts.values() if badly else job.replaced())}
    ends = [
        (event.time, event.data)
        for event in history.events
        if isinstance(event.data, AttemptEnded)
        and event.data.phase != "Succeeded"
        and event.id not in told
        and attempt_name(event.data.task, event.data.index, event.data.attempt) in shown
        and not (job.managed and event.data.reason in _STOPPED)
    ]
    ends.sort(key=lambda end: end[0], reverse=lives)
    groups = [list(found) for _, found in groupby(ends, key=_how)]
    said = []
    for place, group in enumerate(groups[:NAMED]):
        time, data = group[0]
        names = listed([attempt_of(end) for _, end in group])
        ran = f" after running {length(data.ran)}" if data.ran else ""
        node = f" on {data.node}" if data.node and len(group) == 1 else ""
        what = f"{fate(data.phase, data.reason)}{exit_words(data.reason, data.exit_code)} at {moment(time)}{node}{ran}"
        order = "earlier, " if lives else "" if len(groups) == 1 else "first, " if place == 0 else "then "
        together = ", all at once" if len(group) > 1 else ""
        clauses = [f"{order}{names} {agree(what, len(group))}{together}{quoted(brief(data.message))}"]
        if len(group) == 1 and not lives:
            clauses += map(describe, _successors(history, data))
        said.append(sentence("; ".join(clauses)))
    if len(groups) > NAMED:
        rest = sum(len(group) for group in groups[NAMED:])
        said.append(f"{plural(rest, 'more attempt')} ended badly {'before' if lives else 'after'} that.")
    return said


def _how(end: tuple[int, AttemptEnded]) -> tuple[object, ...]:
    time, data = end
    return time, data.phase, data.reason, data.exit_code, data.ran, gist(data.message)


def _actions(history: JobHistory) -> list[Event[Data]]:
    """Return the actions of policies and persons, delayed ones included."""
    return [event for event in history.events if isinstance(event.data, ActionTaken | TimerSet) and _is_action(event.data)]


def _incidents(history: JobHistory, taken: Sequence[Event[Data]]) -> list[str]:
    """Describe actions with their causes, and the attempts that replaced others."""
    said = []
    for event in taken[:_INCIDENTS]:
        before = [link for link in reversed(history.causes(event)[1:]) if isinstance(link.data, AttemptEnded | EventRaised)]
        told = [
            describe(link)
            for link in before
            if not (isinstance(link.data, EventRaised) and link.data.rule is None and link is not before[0])
        ]
        told.append(describe(event))
        if not isinstance(event.data, TimerSet):
            ends = (link.data for link in before if isinstance(link.data, AttemptEnded))
            told += [describe(next_one) for end in ends for next_one in _successors(history, end)]
        said.append(sentence("; ".join(told)))
    if len(taken) > _INCIDENTS:
        said.append(f"{plural(len(taken) - _INCIDENTS, 'more action')} followed; `lahar history` shows them.")
    return said


def _is_action(data: Data) -> bool:
    return isinstance(data, ActionTaken) or (isinstance(data, TimerSet) and data.timer == "policy")


def _successors(history: JobHistory, end: AttemptEnded) -> list[Event[Data]]:
    """Return the start of the attempt that replaced one, as a list of at most one event."""
    slot = (end.task, end.index, end.attempt + 1)
    return [
        event
        for event in history.events
        if isinstance(event.data, AttemptStarted) and (event.data.task, event.data.index, event.data.attempt) == slot
    ]
