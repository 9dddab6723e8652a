"""Reads of a log for history: the events of one job, the inputs that caused them, all job events."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from engine.events import Data, Event, decode
from engine.events.errors import EventError
from engine.events.ids import routing_key
from engine.events.jobs import JobOpened
from engine.events.outcomes import JobParked
from engine.history.dead_letters import dead_lettered
from engine.history.errors import AmbiguousError, NotFoundError
from engine.lifecycle import INPUTS
from engine.log.port import Record, Searchable, SearchableLog
from engine.processor.partitions import read_partitions

_PASSED: Final = 200
"""Approximate number of records that a scan passes in the time of one seek: 100 on SQLite, several hundred on Kafka."""


def job_events(log: Searchable, types: Collection[str] | None = None) -> Iterator[Event[Data]]:
    """Yield the events of all jobs in commit order, of all or some types."""
    for record in log.scan(("job-events",), types):
        yield decode(record.message)


def cluster_facts(log: Searchable) -> Iterator[Event[Data]]:
    """Yield the facts about nodes, queues and other cluster objects; see `cluster_records`."""
    return (event for _, event in cluster_records(log))


def cluster_records(log: Searchable, types: Collection[str] | None = None) -> Iterator[tuple[Record, Event[Data]]]:
    """Yield the records of cluster facts, of all or some types, in commit order, without undecodable and dead-lettered ones.

    As in a shard's recovery, facts accepted under wider bounds than today's are included.
    """
    dead = dead_lettered(log, "cluster")
    for record in log.scan(("cluster",), types):
        if (record.partition.number, record.offset) in dead:
            continue
        try:
            yield record, decode(record.message, bounded=False)
        except EventError:
            continue


def events_of(log: Searchable, job: str) -> list[Event[Data]]:
    """Return all events of one job, in order; empty if the log has no such job."""
    return [decode(record.message) for record in log.records_of(job, ("job-events",))]


def job_called(log: Searchable, job: str) -> str:
    """Return namespace and name of a job, or its id if the log has no such job."""
    opened = next((event.data for event in events_of(log, job) if isinstance(event.data, JobOpened)), None)
    return job if opened is None else f"{opened.namespace}/{opened.name}"


def cluster_of(log: Searchable, job: str) -> str:
    """Return the cluster of a job that was opened or whose first input is parked."""
    return next(event.clusterid for event in events_of(log, job) if isinstance(event.data, JobOpened | JobParked))


def inputs_behind(log: SearchableLog, job: str, records: Sequence[Record]) -> dict[str, Event[Data]]:
    """Return the decodable inputs that caused a job's events, by id.

    Args:
        log: log to search.
        job: id of the job.
        records: all events of the job; those caused by another of them have no input.
    """
    missing = {record.message.causationid for record in records} - {record.message.id for record in records} - {""}
    found: dict[str, Event[Data]] = {}
    effects = [record for record in records if record.message.causationid in missing]
    for record in chain.from_iterable(_places(log, job, effects) if missing else ()):
        if record.message.id in missing:
            try:
                found[record.message.id] = decode(record.message, bounded=False)
            except EventError:
                continue
            missing.discard(record.message.id)
        if not missing:
            break
    return found


def _places(log: SearchableLog, job: str, effects: Sequence[Record]) -> Iterator[Iterable[Record]]:
    """Yield candidate records for the inputs that caused some events of a job, most likely first.

    A shard processes an input right before it writes the events, so the input is the last record before one of the offsets in the
    record's basis. A held input was read earlier: search the inputs with the job's id, those with the id that
    the job claims, then the topic `cluster`.
    """
    inputs = {number: read_partitions(log, INPUTS, number) for number in {effect.partition.number for effect in effects}}
    taken = {
        (partition, end - 1)
        for effect in effects
        for partition, end in zip(inputs[effect.partition.number], effect.basis, strict=False)
        if end
    }
    if len(taken) * _PASSED < sum(map(log.end, {partition for partition, _ in taken})):
        yield (record for partition, offset in sorted(taken) for record in log.read(partition, offset, 1))
    for key in dict.fromkeys((job, routing_key(job))):
        yield log.records_of(key, ("jobs", "pods"))
    yield log.scan(("cluster",))


def find_event(log: Searchable, given: str) -> Event[Data]:
    """Return the job event with this id or a unique prefix of it.

    Raises:
        NotFoundError: no event matches.
        AmbiguousError: several events match.
    """
    found = {record.message.id: record.message for record in log.scan(("job-events",)) if record.message.id.startswith(given)}
    if not found:
        raise NotFoundError("event", given)
    if given in found:
        return decode(found[given])
    if len(found) > 1:
        raise AmbiguousError(given, sorted(found), "events")
    return decode(next(iter(found.values())))


@dataclass(slots=True)
class JobHistory:
    """The events of one job and the inputs that caused them, by id."""

    events: list[Event[Data]]
    inputs: dict[str, Event[Data]] = field(default_factory=dict)
    by_id: dict[str, Event[Data]] = field(init=False)

    def __post_init__(self) -> None:
        self.by_id = {event.id: event for event in self.events}

    def cause(self, event: Event[Data]) -> Event[Data] | None:
        """Return the direct cause of an event: another event of the job or an input; `None` if unknown."""
        found = self.by_id.get(event.causationid)
        return self.inputs.get(event.causationid) if found is None else found

    def causes(self, event: Event[Data]) -> list[Event[Data]]:
        """Return an event and its chain of causes, back to the input or as far as known."""
        chain = [event]
        while (cause := self.cause(chain[-1])) is not None and all(cause is not known for known in chain):
            chain.append(cause)
        return chain

    def effects(self, event: Event[Data]) -> list[Event[Data]]:
        """Return the direct effects of an event, in order."""
        return [other for other in self.events if other.causationid == event.id]


def history_of(log: SearchableLog, job: str) -> JobHistory:
    """Return the history of a job, with the inputs that caused its events."""
    records = list(log.records_of(job, ("job-events",)))
    return JobHistory([decode(record.message) for record in records], inputs_behind(log, job, records))
