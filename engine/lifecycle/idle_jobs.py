"""Idle jobs in the order in which they are forgotten: finished jobs and ids that are no job, the longest idle first."""

from __future__ import annotations

from engine.lifecycle import codec
from engine.lifecycle.state import ShardState

__all__ = ["note_finished", "note_stranger", "rest_of", "stranger_of"]


def rest_of(state: ShardState, ident: str) -> int | None:
    """Return the `Job.rest` of a job, live or closed; `None`: it does not rest."""
    job = state.jobs.get(ident)
    if job is not None:
        return job.rest
    record = state.closed.get(ident)
    return None if record is None else codec.rest_of(record)[0]


def stranger_of(state: ShardState, ident: str) -> int | None:
    """Return since when an id rests that is no job; `None`: it does not rest, or is one."""
    return state.strangers.get(ident)


def note_finished(state: ShardState, rest: int, ident: str) -> None:
    """Note that a job or an id rests."""
    state.finished.note(rest, ident, state, rest_of, len(state.jobs) + len(state.closed))


def note_stranger(state: ShardState, rest: int, ident: str) -> None:
    """Note that an id rests that is no job."""
    state.strangers[ident] = rest
    state.oldest_strangers.note(rest, ident, state, stranger_of, len(state.strangers))
