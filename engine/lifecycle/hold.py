"""Inputs that are set aside: those of a parked job, and pods that come before the managed job that they name."""

from __future__ import annotations

import json
from typing import Any, Final, cast

from engine.events import Data, Event, NotKeptError, decode, encode, from_cloudevent, to_cloudevent
from engine.events.inputs import PodDeleted, PodObserved
from engine.events.jobs import InputOrphaned, InputParked, JobParked, TimerSet
from engine.lifecycle.indexes import held_size
from engine.lifecycle.state import Job, Timer
from engine.lifecycle.turn import Events, Turn

__all__ = ["HELD_BYTES", "HELD_INPUTS", "first_owned", "is_left", "orphan", "park", "restore", "set_again", "wait_for_job"]

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
    if not job.opened:
        yield from wait_for_job(turn, job, kept.id)


def wait_for_job(turn: Turn, job: Job, cause: str | None = None) -> Events:
    """Let pods wait for their job for a while, unless they do."""
    if not job.timers:
        yield turn.event(job, TimerSet("orphan_wait", turn.now + turn.state.orphan_wait), cause=cause)


def is_left(job: Job) -> bool:
    """Tell whether inputs are kept that nothing will release: the timer that would have was given up."""
    return bool(job.held or job.waiting) and not (job.steps if job.opened else job.timers)


def _keep(job: Job, event: Event[Data]) -> dict[str, Any]:
    kept: dict[str, Any] = json.loads(to_cloudevent(encode(event)))
    held = len(job.held) + len(job.waiting)
    if held >= HELD_INPUTS or job.held_bytes + held_size(kept) > HELD_BYTES:
        raise NotKeptError(
            f"job {job.id} holds {held} inputs of {job.held_bytes} bytes already, of at most {HELD_INPUTS} and {HELD_BYTES} bytes; "
            f"{'unpark it' if job.parked else 'wait until it has taken them'}, then append this one again"
        )
    return kept


def set_again(turn: Turn, job: Job, timer: Timer) -> Event[TimerSet]:
    """Set a timer again, so that it stands still and fires as soon as its job is not parked and no input of it is held."""
    return turn.event(
        job,
        TimerSet(
            timer.kind,
            timer.due,
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
            held=True,
        ),
    )


def first_owned(job: Job) -> Event[PodObserved | PodDeleted] | None:
    """Return the first of the pods that wait which has a controller. Only that one is read as an event: thousands may wait."""
    for held in job.waiting.values():
        if held["data"].get("last", held["data"]).get("owner") is not None:
            return cast("Event[PodObserved | PodDeleted]", restore(held))  # nothing else waits for a job
    return None


def restore(held: dict[str, Any]) -> Event[Data]:
    """Return the input that was kept."""
    return decode(from_cloudevent(json.dumps(held).encode(), 0), bounded=False)
