"""Events that close an attempt and its pod object, after an observation or when the pod is no longer observed."""

from __future__ import annotations

from engine.events import Event
from engine.events.attempts import AttemptEnded, AttemptObjectChanged
from engine.lifecycle.event_factory import EventFactory
from engine.lifecycle.job import Attempt, Job
from statemachines.vocabulary import ObjectState, Rank, TerminalPhase


def last_seen(seen: int, deadline: int | None) -> int:
    """Return the last time at which a pod was proven alive (microseconds), never after its deletion.

    Args:
        seen: recorded time of the last observation that showed it live; an object may be read long after it was written.
        deadline: its deletion timestamp.
    """
    return seen if deadline is None else min(seen, deadline)


def give_up(factory: EventFactory, job: Job, attempt: Attempt, phase: TerminalPhase, reason: str) -> Event[AttemptEnded]:
    """Close a live attempt whose pod is no longer observed, at its last proof of life; its object counts as gone.

    An attempt whose pod was never observed ends when its deletion was requested, or now.
    """
    if attempt.uid is not None:
        seen = last_seen(attempt.seen, attempt.deadline)
    else:
        seen = factory.time if attempt.object == "absent" else attempt.asked
    end = max(attempt.since, seen)
    return close(factory, job, attempt, phase, reason, end, replaceable=job.managed, known="gone", version=attempt.version)


def close(
    factory: EventFactory,
    job: Job,
    attempt: Attempt,
    phase: TerminalPhase,
    reason: str | None,
    end: int,
    *,
    replaceable: bool,
    known: ObjectState,
    version: str | None,
    message: str = "",
    exit_code: int | None = None,
    rank: Rank = "inferred",
    inferred: bool = True,
    started: int | None = None,
) -> Event[AttemptEnded]:
    """Close a live attempt with all known facts; `started`: its start, if only the end shows that it ran."""
    started = started if attempt.running is None else attempt.running
    return factory.event(
        job,
        AttemptEnded(
            attempt.task,
            attempt.index,
            attempt.number,
            phase=phase,
            previous=attempt.phase,
            reason=reason,
            exit_code=exit_code,
            rank=rank,
            inferred=inferred,
            replaceable=replaceable,
            node=attempt.node,
            started=started,
            ran=0 if started is None else max(end - started, 0),
            requests=attempt.requests,
            object=known,
            version=version,
            message=message,
        ),
        end,
    )


def give_up_object(factory: EventFactory, job: Job, attempt: Attempt, why: str) -> Event[AttemptObjectChanged]:
    """Count the object of a closed attempt as gone, although its deletion was not observed."""
    key = (attempt.task, attempt.index, attempt.number)
    return factory.event(job, AttemptObjectChanged(*key, object="gone", replaceable=attempt.replaceable, why=why))
