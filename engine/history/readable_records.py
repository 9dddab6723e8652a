"""The readable records of a damaged log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

from engine.events import Topic
from engine.log.errors import LogDamagedError
from engine.log.port import Partition, Record, Searchable


class Damage(NamedTuple):
    """One or more consecutive damaged records."""

    partition: Partition
    offset: int
    """Offset of the first one."""
    reason: str
    records: int = 1
    """Maximum possible number of records."""

    def __str__(self) -> str:
        which = f"at {self.offset}" if self.records == 1 else f"from {self.offset} to {self.offset + self.records - 1}"
        return f"{self.partition.topic}/{self.partition.number} {which}: {self.reason}"


def readable_records(log: Searchable, topics: Sequence[Topic], job: str | None = None) -> Iterator[Record | Damage]:
    """Yield the records of some topics in commit order, and a `Damage` for each damaged range.

    Args:
        log: log to read.
        topics: topics to read, all partitions.
        job: only records with this key; damaged ones, whose key is unknown, are all yielded. `None`: all.

    Raises:
        LogDamagedError: it is unknown which records are damaged.
    """
    behind: dict[Partition, int] = {}
    scanned = job is None
    records = log.scan(topics) if job is None else log.records_of(job, topics)
    while True:
        try:
            for record in records:
                behind[record.partition] = record.offset + 1
                if job is None or record.message.key == job:
                    yield record
        except LogDamagedError as error:
            if error.place is not None:
                topic, number, offset = error.place
                partition = Partition(cast("Topic", topic), number)
                behind[partition] = offset + error.count
                reason = "it does not match its checksum" if error.count == 1 else "they cannot be read"
                yield Damage(partition, offset, reason, error.count)
            elif scanned:
                raise
            # Without the index, which may be damaged too.
            scanned, records = True, log.scan(topics, start=behind)
        else:
            return
