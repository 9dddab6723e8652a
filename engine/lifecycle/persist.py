"""Snapshot records of a shard: which subjects there are, how each is written and read back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify

from engine.events.inputs import NodeObserved, ObjectApplied
from engine.events.vocabulary import adapter
from engine.lifecycle import codec
from engine.lifecycle.indexes import index_job
from engine.lifecycle.state import ShardState

__all__ = ["dump", "load", "subjects"]


def subjects(state: ShardState) -> Iterator[str]:
    """Yield every subject that has a record. Subjects may be dumped meanwhile."""
    for job in (*state.jobs, *state.closed):
        yield "job/" + job
    for node in state.nodes:
        yield "node/" + node
    for kind, name in state.objects:
        yield f"object/{kind}/{name}"
    for position in range(0, len(state.forgotten), codec.FORGOTTEN_PER_CHUNK):
        yield codec.forgotten_chunk(position)


def dump(state: ShardState, subject: str) -> bytes | None:
    """Return the canonical record of a subject; `None` if there is no such subject any more.

    A finished job about which nothing is under way is kept as its record from here on.
    """
    kind, _, name = subject.partition("/")
    if kind == "job":
        job = state.jobs.get(name)
        if job is None:
            return state.closed.get(name)
        record = codec.encode_job(job)
        if job.idle:
            del state.jobs[name]
            state.closed[name] = record
        return record
    if kind == "node":
        node = state.nodes.get(name)
        return None if node is None else adapter(NodeObserved).dump_json(node, exclude_defaults=True)
    if kind == "object":
        what, _, name = name.partition("/")
        found = state.objects.get((what, name))
        return None if found is None else adapter(ObjectApplied).dump_json(found, exclude_defaults=True)
    if kind != codec.FORGOTTEN or not name.isdecimal():
        return None  # another release's
    size = codec.FORGOTTEN_PER_CHUNK * codec.FORGOTTEN_BYTES
    return bytes(state.forgotten_order[int(name) * size : (int(name) + 1) * size]) or None


def load(state: ShardState, records: Iterable[tuple[str, bytes]]) -> None:
    """Restore records into an initial state."""
    chunks: dict[int, bytes] = {}
    for subject, record in records:
        kind, _, name = subject.partition("/")
        if kind == "job":
            finished = codec.finished_time(record)
            if finished is None:
                job = codec.decode_job(record)
                state.jobs[name] = job
                index_job(state, job)
            else:
                state.closed[name] = record
                state.finished.append((finished, name))
        elif kind == "node":
            node = adapter(NodeObserved).validate_json(record)
            state.nodes[node.name] = node
        elif kind == "object":
            applied = adapter(ObjectApplied).validate_json(record)
            state.objects[applied.kind, applied.name] = applied
        else:
            chunks[int(name)] = record
    for number in sorted(chunks):
        ids = chunks[number]
        state.forgotten_order += ids
        state.forgotten.update(ids[at : at + codec.FORGOTTEN_BYTES] for at in range(0, len(ids), codec.FORGOTTEN_BYTES))
    heapify(state.finished)
    heapify(state.timers)
