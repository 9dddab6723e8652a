"""Inputs that are set aside: those of a parked job, and pods that come before the managed job that they name."""

from __future__ import annotations

import json
from typing import Any

from engine.events import Data, Event, decode, encode, from_cloudevent, to_cloudevent
from engine.events.jobs import InputOrphaned, InputParked, JobParked, TimerSet
from engine.lifecycle.state import Job
from engine.lifecycle.turn import Events, Turn

__all__ = ["orphan", "park", "restore"]


def park(turn: Turn, job: Job, event: Event[Data], error: str | None) -> Events:
    """Keep an input of a parked job; with `error`, say first that the job is parked because of it."""
    if error is not None:
        parked = turn.event(job, JobParked(error))
        yield parked
        turn.cause = parked.id
    yield turn.event(job, InputParked(_keep(event)))


def orphan(turn: Turn, job: Job, event: Event[Data]) -> Events:
    """Keep a pod whose managed job is not known yet, or that comes behind some that have waited; the first starts the wait."""
    kept = turn.event(job, InputOrphaned(_keep(event)))
    yield kept
    if not job.opened and not job.timers:
        yield turn.event(job, TimerSet("orphan_wait", turn.now + turn.state.orphan_wait), cause=kept.id)


def _keep(event: Event[Data]) -> dict[str, Any]:
    kept: dict[str, Any] = json.loads(to_cloudevent(encode(event)))
    return kept


def restore(held: dict[str, Any]) -> Event[Data]:
    """Return the input that was kept."""
    return decode(from_cloudevent(json.dumps(held).encode(), 0))
