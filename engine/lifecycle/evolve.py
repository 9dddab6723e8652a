"""Apply events to the state: one total function per event type, no decisions.

Each function runs in constant time but for the few that are about a whole job (opened, revised, acted upon).
"""

from __future__ import annotations

from typing import Final

from engine.events import Data, Event
from engine.events.jobs import JobForgotten
from engine.events.transitions import transition_of
from engine.lifecycle import codec
from engine.lifecycle.codec import record_name
from engine.lifecycle.evolve_attempts import ATTEMPTS
from engine.lifecycle.evolve_jobs import JOBS
from engine.lifecycle.indexes import index_job, match
from engine.lifecycle.resting import note_finished, note_stranger
from engine.lifecycle.state import Job, ShardState
from statemachines.raising import matching, subject_of

__all__ = ["absorb", "evolve", "keep_warm", "peek"]

_WARM: Final = 1024
"""Jobs kept in `ShardState.warm`: more than are looked at between two changes of one of them in any one batch."""
_WARM_ATTEMPTS: Final = 100_000
"""Attempts that they may have altogether: some 100 MB."""

_HANDLERS: Final = {**ATTEMPTS, **JOBS}


def peek(state: ShardState, subject: str) -> Job:
    """Return the job to be looked at, without making it part of the state: live, closed, or new and unopened."""
    job = state.jobs.get(subject) or state.warm.get(subject)
    if job is None:
        record = state.closed.get(subject)
        if record is None:
            job = Job(id=subject, sequence=state.forgotten.sequence(subject))
        else:
            pages = state.closed_pages.get(subject)
            job = codec.decode_job(record, pages or {})
            job.encoded = pages
        index_job(state, job)
        keep_warm(state, job)
    return job


def keep_warm(state: ShardState, job: Job) -> None:
    """Keep a job at hand that is not in `jobs`, in place of those that were looked at before it."""
    state.warm[job.id] = job
    state.warm_attempts += len(job.attempts)
    while len(state.warm) > _WARM or (state.warm_attempts > _WARM_ATTEMPTS and len(state.warm) > 1):
        _, cold = state.warm.popitem(last=False)
        state.warm_attempts -= len(cold.attempts)


def _take(state: ShardState, subject: str) -> Job:
    """Return the job to be changed, now a part of the state."""
    job = peek(state, subject)
    del state.warm[subject]
    state.warm_attempts -= len(job.attempts)
    state.closed.pop(subject, None)
    state.closed_pages.pop(subject, None)
    state.jobs[subject] = job
    return job


def evolve(state: ShardState, event: Event[Data]) -> None:
    """Apply one event of the lifecycle stage."""
    handler = _HANDLERS.get(type(event.data))
    if handler is None:  # a shard's own bookkeeping, no part of this state
        return
    subject = event.subject
    job = state.jobs.get(subject)
    if job is None:
        job = _take(state, subject)
        job.cluster = job.cluster or event.clusterid
    job.sequence = event.sequence
    was = None if job.live else job.rest
    handler(state, job, event.data, event)
    if not job.opened or job.phase == "Aborted":
        job.rested, job.closing = event.recordedtime, event.id
        _note_stranger(state, job)
    if not job.live and (rest := job.rest) is not None and rest != was and not isinstance(event.data, JobForgotten):
        note_finished(state, rest, job.id)
    if job.rules:
        _match_rules(job, event.data)
    state.touched[record_name(subject)] = None
    if job.changed:
        for page in job.changed:
            state.touched[record_name(subject, page)] = None
            if job.encoded:
                job.encoded.pop(page, None)
        job.changed = None


def _note_stranger(state: ShardState, job: Job) -> None:
    """Remember since when an id rests that is no job."""
    rest = None if job.opened or job.id not in state.jobs else job.rest
    if rest is None:
        state.strangers.pop(job.id, None)
    else:
        note_stranger(state, rest, job.id)


def absorb(state: ShardState, event: Event[Data]) -> None:
    """Apply one cluster fact; the newest one about a thing stands."""
    for thing in state.facts.absorb(event):
        state.touched[codec.thing_record(thing)] = None


def _match_rules(job: Job, data: Data) -> None:
    """Remember who has matched the raise rules that count."""
    transition = transition_of(data)
    if transition is None:
        return
    for number in matching(job.rules, transition):
        if job.rules[number].count > 1:
            match(job, number, subject_of(transition))
