"""Snapshot records of a shard: names, encoding, decoding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify

from engine.events.ids import is_separate_job_id
from engine.kubernetes.observation.fact_records import dump_thing, load_thing, thing_named, thing_record
from engine.lifecycle import codec
from engine.lifecycle.evolve import keep_warm
from engine.lifecycle.idle_jobs import note_unknown_id
from engine.lifecycle.indexes import index_job, note_submitted
from engine.lifecycle.job import Job, Page
from engine.lifecycle.job_pages import later_pages
from engine.lifecycle.pod_jobs import note_pods, uids_of
from engine.lifecycle.state import ShardState


def records(state: ShardState) -> Iterator[str]:
    """Yield the name of every record. Records may be dumped during the iteration."""
    # Both are copied before the first dump, because dumping a job may close it.
    live, closed = list(state.jobs.items()), list(state.closed)
    for ident, job in live:
        yield codec.record_name(ident)
        for page in list(later_pages(job)):
            yield codec.record_name(ident, page)
    for ident in closed:
        yield codec.record_name(ident)
        for page in state.closed_pages.get(ident, ()):
            yield codec.record_name(ident, page)
    yield from map(thing_record, list(state.facts.things()))
    for number in state.forgotten.chunks():
        yield codec.forgotten_chunk(number)


def subject_of(record: str) -> str:
    """Return the subject of a record; a page's subject is its job."""
    kind, _, name = record.partition("/")
    found = codec.page_named(name) if kind == "page" else None
    return record if found is None else codec.record_name(found[0])


def dump(state: ShardState, record: str) -> bytes | None:
    """Return the content of a record; `None`: its subject was removed.

    An idle job is kept encoded from then on.
    """
    kind, _, name = record.partition("/")
    if kind == "job":
        return _dump_job(state, name)
    if kind == "page":
        return _dump_page(state, name)
    thing = thing_named(record)
    if thing is not None:
        return dump_thing(state.facts, thing)
    if kind != codec.FORGOTTEN or not name.isdecimal():
        return None  # written by another release
    return state.forgotten.chunk(int(name)) or None


def _dump_job(state: ShardState, ident: str) -> bytes | None:
    job = state.jobs.get(ident)
    if job is None:
        return state.closed.get(ident)
    record = codec.encode_job(job)
    if job.rest is not None:
        del state.jobs[ident]
        state.closed[ident] = record
        known = job.encoded or {}
        pages = {page: known.get(page) or codec.encode_page(job, page) or b"" for page in later_pages(job)}
        if pages:  # later events change only a few of them
            state.closed_pages[ident] = job.encoded = pages
            keep_warm(state, job)
    return record


def _dump_page(state: ShardState, name: str) -> bytes | None:
    found = codec.page_named(name)
    if found is None:
        return None
    ident, page = found
    job = state.jobs.get(ident)
    return state.closed_pages.get(ident, {}).get(page) if job is None else codec.encode_page(job, page)


def load(state: ShardState, records: Iterable[tuple[str, bytes]]) -> None:
    """Restore records into an initial state."""
    heads, pages, others = _sorted(records)
    for name, record in heads.items():
        rest, is_unknown_id = codec.rest_of(record)
        if is_separate_job_id(name) and codec.head_of(record).managed:
            note_submitted(state, name)
        if rest is None:
            job = state.jobs[name] = codec.decode_job(record, pages.get(name, {}))
            index_job(state, job)
            note_pods(state, (job.cluster, job.namespace), name, uids_of(job))
        else:
            state.closed[name] = record
            where, uids = codec.pods_of(record, pages.get(name, {}))
            note_pods(state, where, name, uids)
            state.finished.append((rest, name))
            if is_unknown_id:
                note_unknown_id(state, rest, name)
            if name in pages:
                state.closed_pages[name] = pages[name]
    chunks: dict[int, bytes] = {}
    for subject, record in others:
        thing = thing_named(subject)
        if thing is not None:
            load_thing(state.facts, thing, record)
        else:
            chunks[int(subject.partition("/")[2])] = record
    for number in sorted(chunks):
        state.forgotten.load(chunks[number])
    heapify(state.finished)


def jobs(records: Iterable[tuple[str, bytes]]) -> Iterator[Job]:
    """Yield the jobs of a snapshot, without their derived fields."""
    heads, pages, _ = _sorted(records)
    return (codec.decode_job(record, pages.get(name, {})) for name, record in heads.items())


def _sorted(
    records: Iterable[tuple[str, bytes]],
) -> tuple[dict[str, bytes], dict[str, dict[Page, bytes]], list[tuple[str, bytes]]]:
    """Return the jobs' own records, their later pages, and the other records."""
    heads: dict[str, bytes] = {}
    pages: dict[str, dict[Page, bytes]] = {}
    others: list[tuple[str, bytes]] = []
    for subject, record in records:
        kind, _, name = subject.partition("/")
        if kind == "job":
            heads[name] = record
        elif kind == "page" and (found := codec.page_named(name)) is not None:
            pages.setdefault(found[0], {})[found[1]] = record
        else:
            others.append((subject, record))
    return heads, pages, others
