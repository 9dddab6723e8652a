"""Held inputs: those of a parked job, and pods that arrive before the managed job that they name."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final, cast

from engine.events import Data, Event, NotKeptError, encode, to_cloudevent
from engine.events.actions import TimerSet
from engine.events.inputs import PodDeleted, PodObserved
from engine.events.outcomes import InputOrphaned, InputParked, JobParked
from engine.lifecycle.claims import restore
from engine.lifecycle.event_factory import EventFactory, Events
from engine.lifecycle.indexes import held_size, where_of
from engine.lifecycle.job import Job, Timer, Waiters
from engine.lifecycle.refused_inputs import held_key

HELD_INPUTS: Final = 20_000
"""Maximum number of held inputs of one job, and of waiting pods of one namespace: the maximum number of replicas."""
HELD_BYTES: Final = 16 << 20
"""Maximum size of these (bytes)."""
NAMESPACES: Final = 4
"""Factor on both limits for pods of all namespaces, so that pods of others do not use up the job's own limit."""


def park(factory: EventFactory, job: Job, event: Event[Data], error: str | None) -> Events:
    """Hold an input of a parked job; with `error`, park the job first.

    Raises:
        NotKeptError: the job's limit of held inputs is reached.
    """
    kept = _kept(event)
    _must_fit(job, held_size(kept), len(job.held), job.held_bytes)
    factory = factory.about(job)  # its events at the release have other ids
    if error is not None:
        parked = factory.event(job, JobParked(error))
        yield parked
        factory.cause = parked.id
    yield factory.event(job, InputParked(kept))


def orphan(factory: EventFactory, job: Job, event: Event[Data]) -> Events:
    """Hold a pod whose managed job is not known yet, or behind waiting pods; the first one starts the wait.

    Raises:
        NotKeptError: the limit of waiting pods is reached, of its cluster and namespace or of all.
    """
    kept = _kept(event)
    beside, more = job.waiters.get(where_of(kept), Waiters()), held_size(kept)
    _must_fit(job, more, len(beside.ids), beside.size)
    if not job.opened:  # only pods of its own namespace wait for a job that exists
        _must_fit(job, more, len(job.waiting), job.waiting_bytes, NAMESPACES)
    factory = factory.about(job)
    orphaned = factory.event(job, InputOrphaned(kept))
    yield orphaned
    if not job.opened:
        yield from wait_for_job(factory, job, orphaned.id)


def wait_for_job(factory: EventFactory, job: Job, cause: str | None = None) -> Events:
    """Set the timer that ends the wait of pods for their job, unless it is set."""
    if not any(timer.kind == "orphan_wait" for timer in job.timers.values()):
        yield factory.event(job, TimerSet("orphan_wait", factory.now + factory.state.orphan_wait), cause=cause)


def is_held(job: Job, event: Event[Data]) -> bool:
    """Return true if an input is already held."""
    return held_key(event) in job.held


def is_left(job: Job) -> bool:
    """Return true if inputs are held whose release timer was dropped."""
    if job.held or job.opened:
        return bool(job.held or job.waiting) and not job.steps
    return bool(job.waiting) and all(timer.held for timer in job.timers.values())


def own_first(job: Job) -> Iterable[dict[str, Any]]:
    """Return the pods held for a job in order; those of its own cluster and namespace first."""
    own = job.waiters.get((job.cluster, job.namespace))
    return job.waiting.values() if own is None else map(job.waiting.__getitem__, own.ids)


def own_wait(job: Job) -> bool:
    """Return true if pods of the job's own cluster and namespace are held for it."""
    return (job.cluster, job.namespace) in job.waiters


def _kept(event: Event[Data]) -> dict[str, Any]:
    kept: dict[str, Any] = json.loads(to_cloudevent(encode(event)))
    return kept


def _must_fit(job: Job, more: int, many: int, size: int, times: int = 1) -> None:
    """Check that one more input fits the limits of held inputs.

    Args:
        job: the job.
        more: size of the input (bytes).
        many: number of inputs held.
        size: size of the inputs held (bytes).
        times: factor on both limits.

    Raises:
        NotKeptError: a limit is exceeded.
    """
    most, most_bytes = times * HELD_INPUTS, times * HELD_BYTES
    if many >= most or size + more > most_bytes:
        raise NotKeptError(
            f"job {job.id} holds {many} inputs of {size} bytes already, of at most {most} and {most_bytes} bytes; "
            f"{'unpark it' if job.parked else 'wait until it has taken them'}, then append this one again"
        )


def set_again(factory: EventFactory, job: Job, timer: Timer) -> Event[TimerSet]:
    """Set a timer again, paused until its job is neither parked nor has held inputs."""
    return factory.event(
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
            depth=timer.depth,
        ),
    )


def first_owned(job: Job) -> Event[PodObserved | PodDeleted] | None:
    """Return the first waiting pod with a controller; only that one is decoded, because thousands may wait."""
    for held in job.waiting.values():
        if held["data"].get("last", held["data"]).get("owner") is not None:
            return cast("Event[PodObserved | PodDeleted]", restore(held))  # only pods wait for a job
    return None
