"""Job events in a log, and all that is asked of all jobs: of the fold, and of the projection."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

from engine.events import Data, Event, encode
from engine.exact_numbers import dumps
from engine.history.errors import HistoryError
from engine.history.job_reference import resolve, resolve_known
from engine.history.listing import LISTED, Filter, Listing
from engine.history.reading import job_events
from engine.history.summary import SUMMARISED, Summary
from engine.log.partitioner import partition_of
from engine.log.port import Commit, Log, Output, SearchableLog, ShardId
from engine.projection.job_tables import JobTables
from engine.projection.projection import Projection


def write(log: Log, events: Iterable[Event[Data]]) -> None:
    """Commit job events, each to the partition of its job."""
    count = log.partitions("job-events")
    for event in events:
        number = partition_of(event.subject, count)
        shard = log.open(ShardId("lifecycle", number), ())
        shard.commit(Commit((), event.recordedtime, [Output("job-events", encode(event), ())]))
        shard.close()


class Folds:
    """The folds of a whole log, asked as the projection is."""

    def __init__(self, log: SearchableLog) -> None:
        self._log = log
        listing, self._summary = Listing(), Summary()
        for event in job_events(log, LISTED):
            listing.add(event)
        for event in job_events(log, SUMMARISED):
            self._summary.add(event)
        self.lines, self.summary = listing.lines, self._summary.result

    def meant(self, given: str) -> str:
        return resolve(self._log, given)


def answers(jobs: Folds | JobTables, filters: Iterable[Filter] = ()) -> list[Any]:
    """Everything that may be asked: lists and sums with their filters as `--json` writes them, and what each name means."""
    every = jobs.lines(Filter(other=True))
    found: list[Any] = [dumps([line.document() for line in every])]
    for name in ("queue", "user", "tenant", "cluster", "namespace"):
        values = sorted({getattr(line, name) for line in every} - {""} | {"none"})
        found += [(name, value, ids(jobs, Filter(**{name: value}))) for value in values]
    for name, own, absent in (("phases", lambda line: {line.phase}, "WillEvicted"), ("reasons", lambda line: line.reasons, "x")):
        values = sorted({value for line in every for value in own(line)} - {None} | {absent})
        found += [(name, value, ids(jobs, Filter(**{name: frozenset({value, absent})}))) for value in values]
    nodes = sorted({node for line in every for node in line.nodes} - {""} | {"none", '"'})
    found += [("node", node, ids(jobs, Filter(node=node))) for node in nodes]
    found += [("since", line.since, ids(jobs, Filter(since=line.since, other=True))) for line in every]
    found += [(str(wanted), ids(jobs, wanted)) for wanted in filters]
    clusters = [None, *sorted({line.cluster for line in every})]
    found += [dumps(jobs.summary(include_other=other, cluster=cluster)) for other, cluster in product((False, True), clusters)]
    for line in every:
        own_name = f"{line.namespace}/{line.name}"
        asked = (
            *(line.id, line.id[:1], line.id[:-1], line.name, own_name, f"{line.cluster}/{own_name}"),
            *(f"{own_name}@{line.id[:1]}", f"{line.name}@{line.id[:-1]}"),
        )
        found += [(given, meant(jobs, given)) for given in asked]
    return [*found, *(meant(jobs, given) for given in ("", "@", "/", "a@", "\udcff"))]


def ids(jobs: Folds | JobTables, wanted: Filter) -> list[str]:
    return [line.id for line in jobs.lines(wanted)]


def meant(jobs: Folds | JobTables, given: str) -> str:
    try:
        return jobs.meant(given) if isinstance(jobs, Folds) else resolve_known(jobs, given)
    except HistoryError as error:
        return repr(error)


def folded(log: SearchableLog, filters: Iterable[Filter] = ()) -> list[Any]:
    """What the folds of the whole log answer."""
    return answers(Folds(log), filters)


def projected(projection: Projection, log: SearchableLog, filters: Iterable[Filter] = ()) -> list[Any]:
    """What a projection answers."""
    return projection.ask(log, JobTables, lambda jobs: answers(jobs, filters))
