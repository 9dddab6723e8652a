"""Inputs that are set aside: those of a parked job, and pods that come before the managed job that they name."""

from __future__ import annotations

import json
from typing import Any, Final, cast

from engine.events import Data, Event, NotKeptError, decode, encode, from_cloudevent, to_cloudevent
from engine.events.inputs import PodDeleted, PodObserved
from engine.events.jobs import InputOrphaned, InputParked, JobParked, TimerCancelled, TimerSet
from engine.lifecycle.indexes import held_size
from engine.lifecycle.state import Job, Timer
from engine.lifecycle.steps import PACE
from engine.lifecycle.turn import Events, Turn

__all__ = ["HELD_BYTES", "HELD_INPUTS", "first_owned", "orphan", "park", "restore", "resume_timers", "set_again"]

HELD_INPUTS: Final = 20_000
"""Inputs that are held of one job, at most: as many as it may have replicas."""
HELD_BYTES: Final = 16 << 20
"""Bytes of inputs that are held of one job, at most."""


def park(turn: Turn, job: Job, event: Event[Data], error: str | None) -> Events:
    """Keep an input of a parked job; with `error`, say first that the job is parked because of it.

    Raises:
        NotKeptError: the job holds as much as it may.
    """
    kept = _keep(job, event)
    if error is not None:
        parked = turn.event(job, JobParked(error))
        yield parked
        turn.cause = parked.id
    yield turn.event(job, InputParked(kept))


def orphan(turn: Turn, job: Job, event: Event[Data]) -> Events:
    """Keep a pod whose managed job is not known yet, or that comes behind some that have waited; the first starts the wait.

    Raises:
        NotKeptError: the job holds as much as it may.
    """
    kept = turn.event(job, InputOrphaned(_keep(job, event)))
    yield kept
    if not job.opened and not job.timers:
        yield turn.event(job, TimerSet("orphan_wait", turn.now + turn.state.orphan_wait), cause=kept.id)


def _keep(job: Job, event: Event[Data]) -> dict[str, Any]:
    kept: dict[str, Any] = json.loads(to_cloudevent(encode(event)))
    held = len(job.held) + len(job.waiting)
    if held >= HELD_INPUTS or job.held_bytes + held_size(kept) > HELD_BYTES:
        raise NotKeptError(
            f"job {job.id} holds {held} inputs of {job.held_bytes} bytes already, of at most {HELD_INPUTS} and {HELD_BYTES} bytes; "
            "unpark it, then append this one again"
        )
    return kept


def set_again(turn: Turn, job: Job, timer: Timer, *, held: bool) -> Event[TimerSet]:
    """Set a timer of a parked job again, so that it stands still; or, once the job is unparked, so that it fires at once."""
    return turn.event(
        job,
        TimerSet(
            timer.kind,
            timer.due if held else turn.now + PACE,
            action=timer.action,
            policy=timer.policy,
            event=timer.event,
            task=timer.task,
            index=timer.index,
            attempt=timer.attempt,
            partition=timer.partition,
            pod=timer.pod,
            node=timer.node,
            kill=timer.kill,
            reason=timer.reason,
            held=held,
        ),
    )


def resume_timers(turn: Turn, job: Job) -> Events:
    """Let the timers go on that stood still while a job was parked."""
    for timer in list(job.timers.values()):
        if timer.held:
            yield turn.event(job, TimerCancelled(timer.id, "the job is unparked"))
            yield set_again(turn, job, timer, held=False)


def first_owned(job: Job) -> Event[PodObserved | PodDeleted] | None:
    """Return the first of the pods that wait which has a controller. Only that one is read as an event: thousands may wait."""
    for held in job.waiting.values():
        if held["data"].get("last", held["data"]).get("owner") is not None:
            return cast("Event[PodObserved | PodDeleted]", restore(held))  # nothing else waits for a job
    return None


def restore(held: dict[str, Any]) -> Event[Data]:
    """Return the input that was kept."""
    return decode(from_cloudevent(json.dumps(held).encode(), 0), bounded=False)
