"""Since when things rest: jobs that have finished, ids that are no job. What has rested longest is forgotten first.

A rest that has ended leaves its entry in the heap; these are dropped when they come to its top, or outnumber those that hold.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final

from engine.lifecycle import codec
from engine.lifecycle.state import ShardState

__all__ = ["first", "note_finished", "note_stranger", "rest_of", "stranger_of"]

Heap = list[tuple[int, str]]
RestOf = Callable[[ShardState, str], int | None]

_FEW: Final = 64
"""Entries that no longer hold and are not worth a search."""


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
    heappush(state.finished, (rest, ident))
    _drop_many(state, state.finished, len(state.jobs) + len(state.closed), rest_of)


def note_stranger(state: ShardState, rest: int, ident: str) -> None:
    """Note that an id rests that is no job."""
    state.strangers[ident] = rest
    heappush(state.oldest_strangers, (rest, ident))
    _drop_many(state, state.oldest_strangers, len(state.strangers), stranger_of)


def first(state: ShardState, heap: Heap, holds: RestOf) -> tuple[int, str] | None:
    """Return what rests longest: since when, and its id."""
    while heap and holds(state, heap[0][1]) != heap[0][0]:
        heappop(heap)
    return heap[0] if heap else None


def _drop_many(state: ShardState, heap: Heap, most: int, holds: RestOf) -> None:
    if len(heap) > 2 * most + _FEW:
        heap[:] = {entry for entry in heap if holds(state, entry[1]) == entry[0]}
        heapify(heap)
