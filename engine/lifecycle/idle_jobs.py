"""Idle jobs in the order in which they are forgotten: finished jobs and ids that are no job, longest idle first."""

from __future__ import annotations

from engine.lifecycle import codec
from engine.lifecycle.state import ShardState


def rest_of(state: ShardState, ident: str) -> int | None:
    """Return the `Job.rest` of a job, live or closed; `None`: it is active."""
    job = state.jobs.get(ident)
    if job is not None:
        return job.rest
    record = state.closed.get(ident)
    return None if record is None else codec.rest_of(record)[0]


def unknown_id_of(state: ShardState, ident: str) -> int | None:
    """Return the start of the idle time of an id that is no job; `None`: it is active, or a job."""
    return state.unknown_ids.get(ident)


def note_finished(state: ShardState, rest: int, ident: str) -> None:
    """Index an idle job or id."""
    state.finished.note(rest, ident, state, rest_of, len(state.jobs) + len(state.closed))


def note_unknown_id(state: ShardState, rest: int, ident: str) -> None:
    """Index an idle id that is no job."""
    state.unknown_ids[ident] = rest
    state.oldest_unknown_ids.note(rest, ident, state, unknown_id_of, len(state.unknown_ids))
