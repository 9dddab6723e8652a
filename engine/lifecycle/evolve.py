"""Application of events to the state: one function per event type, without decisions; must not fail.

Each function runs in constant time, except the few for a whole job (opened, revised, acted upon).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from engine.events import Data, Event
from engine.events.ids import routing_key
from engine.events.jobs import JobForgotten
from engine.events.transitions import transition_of
from engine.kubernetes.observation.fact_records import thing_record
from engine.lifecycle import codec
from engine.lifecycle.codec import JOB_RECORD, Head, record_name
from engine.lifecycle.evolve_attempts import ATTEMPTS
from engine.lifecycle.evolve_jobs import JOBS
from engine.lifecycle.idle_jobs import note_finished, note_unknown_id
from engine.lifecycle.indexes import index_job, match
from engine.lifecycle.job import Job, Page
from engine.lifecycle.job_pages import later_pages
from engine.lifecycle.pod_jobs import forget_pods, uids_of
from engine.lifecycle.state import ShardState
from statemachines.raising import matching, subject_of

_WARM: Final = 1024
"""Maximum number of jobs in `ShardState.warm`: more than a batch reads between two changes of the same job."""
_WARM_ATTEMPTS: Final = 100_000
"""Maximum sum of their attempts: about 100 MB."""

_HANDLERS: Final = {**ATTEMPTS, **JOBS}


def peek(state: ShardState, subject: str) -> Job:
    """Return a job for reading, without adding it to the state: live, closed, or new and unopened."""
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


def head(state: ShardState, subject: str) -> Job | Head:
    """Return the head of a closed job's record without decoding the rest, or the job itself if it is live."""
    job, record = state.jobs.get(subject), state.closed.get(subject)
    if job is not None:
        return job
    return Head(sequence=state.forgotten.sequence(subject)) if record is None else codec.head_of(record)


def keep_warm(state: ShardState, job: Job) -> None:
    """Cache a job that is not in `jobs`; the jobs cached first are evicted."""
    state.warm[job.id] = job
    state.warm_attempts += len(job.attempts)
    while len(state.warm) > _WARM or (state.warm_attempts > _WARM_ATTEMPTS and len(state.warm) > 1):
        _, cold = state.warm.popitem(last=False)
        state.warm_attempts -= len(cold.attempts)


def _take(state: ShardState, subject: str) -> Job:
    """Return a job for writing, and add it to the state."""
    job = peek(state, subject)
    _take_record(state, subject)
    state.jobs[subject] = job
    return job


def _take_record(state: ShardState, subject: str) -> Iterable[Page]:
    """Remove the record of a closed job and its decoded copy from the state; return its pages."""
    warm = state.warm.pop(subject, None)
    if warm is not None:
        state.warm_attempts -= len(warm.attempts)
    state.closed.pop(subject, None)
    return state.closed_pages.pop(subject, ())


def evolve(state: ShardState, event: Event[Data]) -> None:
    """Apply one event of the lifecycle stage."""
    handler = _HANDLERS.get(type(event.data))
    if handler is None:
        if isinstance(event.data, JobForgotten):
            _forget(state, event.data, event)
        return  # other events belong to the processor, not to this state
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
        _note_unknown_id(state, job)
    if not job.live and (rest := job.rest) is not None and rest != was:
        note_finished(state, rest, job.id)
    if job.rules:
        _match_rules(job, event.data)
    state.touched[JOB_RECORD + subject] = None
    if job.changed:
        for page in job.changed:
            state.touched[record_name(subject, page)] = None
            if job.encoded:
                job.encoded.pop(page, None)
        job.changed = None


def _forget(state: ShardState, data: JobForgotten, event: Event[Data]) -> None:
    _forget_pods(state, event.subject)
    subject, job = event.subject, state.jobs.pop(event.subject, None)
    for page in _take_record(state, subject) if job is None else later_pages(job):
        state.touched[record_name(subject, page)] = None
    state.unknown_ids.pop(subject, None)
    claimed = routing_key(subject)
    if claimed in state.submitted:
        state.submitted[claimed].pop(subject, None)
        if not state.submitted[claimed]:
            del state.submitted[claimed]
    chunk = state.forgotten.add(subject, 0 if data.opened else event.sequence)
    if chunk is not None:  # otherwise the snapshot has it already, beside the job's older record
        state.touched[codec.forgotten_chunk(chunk)] = None
    state.touched[record_name(subject)] = None


def _forget_pods(state: ShardState, subject: str) -> None:
    job, record = state.jobs.get(subject), state.closed.get(subject)
    if job is not None:
        forget_pods(state, (job.cluster, job.namespace), subject, uids_of(job))
    elif record is not None:
        where, uids = codec.pods_of(record, state.closed_pages.get(subject, {}))
        forget_pods(state, where, subject, uids)


def _note_unknown_id(state: ShardState, job: Job) -> None:
    """Index an id that is no job by the start of its idle time."""
    rest = None if job.opened or job.id not in state.jobs else job.rest
    if rest is None:
        state.unknown_ids.pop(job.id, None)
    else:
        note_unknown_id(state, rest, job.id)


def absorb(state: ShardState, event: Event[Data], _offset: int | None = None, /) -> None:
    """Apply one cluster fact; the newest one about each object wins."""
    for thing in state.facts.absorb(event):
        state.touched[thing_record(thing)] = None


def _match_rules(job: Job, data: Data) -> None:
    """Store the subjects that have matched raise rules with a `count`."""
    transition = transition_of(data)
    if transition is None:
        return
    for number in matching(job.rules, transition):
        if job.rules[number].count > 1:
            match(job, number, subject_of(transition))
