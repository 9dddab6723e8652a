"""Shared reads of job events for all receivers at the same position, with the facts of jobs."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final, cast

from engine.effects.facts import FACT_TYPES, JobBook
from engine.events import Data, Event, decode
from engine.events.actions import EffectSettled
from engine.events.job_state import LabelledJob
from engine.log.port import Log, Partition, Record, Searchable

CHUNK: Final = 1_000
"""Records per read."""


class Feed:
    """Committed events of jobs and budgets, from the position of the last receiver to their end."""

    def __init__(self, log: Log, starts: Mapping[Partition, int]) -> None:
        """Start at the earliest offset that any receiver needs in each partition."""
        self._log = log
        self._ends = dict(starts)
        self._folded = dict(starts)
        """Offsets up to which the facts of jobs are folded."""
        self._books = {partition: JobBook(partial(self._history, partition)) for partition in starts}
        self._chunks: dict[Partition, tuple[int, list[Record]]] = {}
        self._events: dict[Partition, dict[int, Event[Data]]] = {partition: {} for partition in starts}
        if isinstance(log, Searchable) and not log.finds_by_key and any(starts.values()):
            # One scan over all events about jobs, because a search per job would read its partition every time.
            for record in log.scan(("job-events",), FACT_TYPES):
                if record.offset < starts.get(record.partition, 0):
                    self._books[record.partition].fold(record.offset, decode(record.message))

    def advance(self) -> list[Event[EffectSettled]]:
        """Read the new end of each partition; later commits are invisible until the next call.

        Returns:
            Reports on effects and callbacks, in partition order.
        """
        settled: list[Event[EffectSettled]] = []
        for partition in self._books:
            while records := self._read(partition, self._ends[partition]):
                settled += [
                    cast("Event[EffectSettled]", self.event(record))
                    for record in records
                    if record.message.type == EffectSettled.TYPE
                ]
                self._ends[partition] = records[-1].offset + 1
        return settled

    def end(self, partition: Partition) -> int:
        """Return the end of a partition at the last `advance`."""
        return self._ends[partition]

    def records(self, partition: Partition, start: int) -> list[Record]:
        """Return some records at offsets ≥ `start` and below `end`, in order; empty if there are none."""
        end = self._ends[partition]
        if start >= end:
            return []
        while (folded := self._folded[partition]) < start and (passed := self._read(partition, folded)):
            self._fold(partition, passed)
        records = self._read(partition, start)
        if records[-1].offset >= end:
            del records[bisect_left(records, end, key=_offset) :]
        self._fold(partition, records)
        return records

    def event(self, record: Record) -> Event[Data]:
        """Return a record's event, decoded once for successive callers.

        Raises:
            EventError: it violates the schema of its type, and was not written by Lahar.
        """
        events = self._events[record.partition]
        found = events.get(record.offset)
        if found is None:
            found = events[record.offset] = decode(record.message)
        return found

    def facts(self, record: Record) -> LabelledJob:
        """Return the facts of the job at a record."""
        return self._books[record.partition].at(record.message.subject, record.offset)

    def _read(self, partition: Partition, start: int) -> list[Record]:
        first, records = self._chunks.get(partition, (0, []))
        if records and first <= start <= records[-1].offset:
            return records[bisect_left(records, start, key=_offset) :]
        records = self._log.read(partition, start, CHUNK)
        if records:
            self._chunks[partition] = start, records
            self._events[partition].clear()
        return records[:]

    def _fold(self, partition: Partition, records: list[Record]) -> None:
        """Fold the facts of jobs from records that were not folded before."""
        folded = self._folded[partition]
        for record in records:
            if record.offset >= folded and record.message.type in FACT_TYPES:
                self._books[partition].fold(record.offset, self.event(record))
        self._folded[partition] = max(records[-1].offset + 1, folded)

    def _history(self, partition: Partition, job: str) -> Iterator[tuple[int, Event[Data]]]:
        for record in self._records_of(partition, job):
            if record.offset >= self._folded[partition]:
                return
            if record.message.type in FACT_TYPES:
                yield record.offset, decode(record.message)

    def _records_of(self, partition: Partition, job: str) -> Iterator[Record]:
        if isinstance(self._log, Searchable):
            yield from self._log.records_of(job, ("job-events",))
            return
        start = 0
        while records := self._log.read(partition, start, CHUNK):
            yield from (record for record in records if record.message.key == job)
            start = records[-1].offset + 1


def _offset(record: Record) -> int:
    return record.offset
