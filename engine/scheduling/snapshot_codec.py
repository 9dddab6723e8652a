"""State of the shard as snapshot records: a job is a group, a head and pages of attempts, so every record is bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heapify
from typing import Any, Final

from msgspec import Struct, msgpack

from engine.events.times import Micros
from engine.kubernetes.observation.fact_records import dump_thing, load_thing, thing_named, thing_record
from engine.scheduling.cluster.job_records import Attempt, Group, JobRecord
from engine.scheduling.cluster.notices import Notice, cluster_of, number_of
from engine.scheduling.state.model_sync import sync_fact, sync_pod, track_job, track_pod
from engine.scheduling.state.record_names import cluster_record, group_record, head_record, notice_record, page_record
from engine.scheduling.state.shard import PAGE, ClusterState, State


class _Cluster(Struct, array_like=True):
    """Cluster without its nodes and other objects."""

    rounds: int
    own: tuple[Micros, str] | None
    other: tuple[Micros, str] | None
    ran: tuple[Micros, str] | None
    wake: Micros | None
    floor: Micros
    memory: dict[str, dict[str, int]]
    counts: dict[str, int]
    refused: dict[str, int]
    late: int
    pending: dict[str, int]
    oldest: dict[str, Micros] = {}
    opened: int = 0
    notices: dict[str, int] = {}
    newest: Micros = 0
    configuration: dict[str, Any] = {}


_write: Final = msgpack.Encoder().encode
_read_head: Final = msgpack.Decoder(JobRecord).decode
_read_group: Final = msgpack.Decoder(Group).decode
_read_page: Final = msgpack.Decoder(list[Attempt]).decode
_read_notice: Final = msgpack.Decoder(Notice).decode
_read_cluster: Final[Callable[[bytes], _Cluster | int]] = msgpack.Decoder(_Cluster | int).decode
"""Decodes a cluster; a bare number: rounds that have ended in a forgotten cluster."""


def records(state: State) -> Iterator[str]:
    """Yield the name of every record."""
    for ident, job in state.jobs.items():
        yield head_record(ident)
        if job.group is not None:
            yield group_record(ident)
        yield from (page_record(ident, page * PAGE) for page in job.pages)
    yield from map(cluster_record, (*state.clusters, *state.ended))
    yield from (notice_record(ident) for cluster in state.clusters.values() for ident in cluster.model.notices)
    yield from map(thing_record, state.facts.things())


def dump(state: State, record: str) -> bytes | None:
    """Return the content of a record; `None`: its subject does not exist."""
    thing = thing_named(record)
    if thing is not None:
        return dump_thing(state.facts, thing)
    kind, _, name = record.partition("/")
    match f"{kind}/":
        case "cluster/":
            found = state.clusters.get(name)
            rounds = state.ended.get(name)
            return _write(_cluster(found)) if found is not None else None if rounds is None else _write(rounds)
        case "notice/":
            where = state.clusters.get(cluster_of(name))
            notice = None if where is None else where.model.notices.get(name)
            return None if notice is None else _write(notice)
        case "attempts/":
            page, _, name = name.partition("/")
            job = state.jobs.get(name)
            pods = None if job is None else job.pages.get(int(page))
            return _write([pod.attempt for pod in pods.values()]) if pods else None
    job = state.jobs.get(name)
    if job is None:
        return None
    return _write(job.head) if kind == "head" else None if job.group is None else _write(job.group)


def _cluster(found: ClusterState) -> _Cluster:
    marks = found.own, found.other, found.ran, found.wake, found.floor
    refused, notices = dict(sorted(found.refused.items())), dict(sorted(found.notices.items()))
    kept = _Cluster(found.rounds, *marks, found.scheduler.memory, found.counts, refused, found.late, found.pending, found.oldest)
    kept.opened, kept.notices, kept.newest = found.opened, notices, found.newest
    kept.configuration = found.configuration
    return kept


def load(state: State, stored: Iterable[tuple[str, bytes]]) -> None:
    """Restore records into an initial state."""
    groups: dict[str, Group] = {}
    pages: dict[str, list[Attempt]] = {}
    heads: dict[str, JobRecord] = {}
    clusters: dict[str, _Cluster] = {}
    notices: list[Notice] = []
    for record, content in stored:
        thing = thing_named(record)
        if thing is not None:
            load_thing(state.facts, thing, content)
            continue
        kind, _, name = record.partition("/")
        if kind == "head":
            heads[name] = _read_head(content)
        elif kind == "group":
            groups[name] = _read_group(content)
        elif kind == "attempts":
            pages.setdefault(name.partition("/")[2], []).extend(_read_page(content))
        elif kind == "notice":
            notices.append(_read_notice(content))
        elif isinstance(cluster := _read_cluster(content), int):
            state.ended[name] = cluster
        else:
            clusters[name] = cluster
    for thing in sorted(filter(state.facts.is_there, state.facts.things())):
        sync_fact(state, state.cluster(thing[0]), thing)
    for name, kept in clusters.items():
        found = state.cluster(name)
        found.rounds, found.own, found.other, found.ran = kept.rounds, kept.own, kept.other, kept.ran
        found.wake, found.floor = kept.wake, kept.floor
        found.scheduler.memory, found.counts, found.refused = kept.memory, kept.counts, kept.refused
        found.late, found.pending, found.oldest = kept.late, kept.pending, kept.oldest
        found.opened, found.notices, found.newest = kept.opened, kept.notices, kept.newest
        found.configuration = kept.configuration
    for notice in sorted(notices, key=lambda notice: (cluster_of(notice.id), number_of(notice.id))):
        model = state.cluster(cluster_of(notice.id)).model
        model.notices[notice.id] = notice
        model.noticed |= dict.fromkeys((notice.preemptor, *notice.victims), notice.id)
    for name, head in sorted(heads.items()):
        job = track_job(state, name, head, groups.get(name))
        for attempt in sorted(pages.get(name, []), key=lambda attempt: attempt.place):
            sync_pod(state, track_pod(state, job, attempt))
        if head.reason is not None:
            state.cluster(head.cluster).explained[name] = None
        state.unanswered += [(decision.due, name, ident) for ident, decision in head.open.items() if not decision.late]
    heapify(state.unanswered)
