"""The records of a log that can be read, though others are damaged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

from engine.events import Topic
from engine.log.errors import LogDamagedError
from engine.log.port import Partition, Record, Searchable

__all__ = ["Damage", "surviving"]


class Damage(NamedTuple):
    """A record that cannot be read."""

    partition: Partition
    offset: int
    reason: str

    def __str__(self) -> str:
        return f"{self.partition.topic}/{self.partition.number} at {self.offset}: {self.reason}"


def surviving(log: Searchable, topics: Sequence[Topic], job: str | None = None) -> Iterator[Record | Damage]:
    """Yield the records of some topics in commit order, and where one is damaged that instead.

    Args:
        log: any log.
        topics: read in all their partitions.
        job: only records with this key; behind a damaged one, whose key nobody knows, all damaged ones are told.

    Raises:
        LogDamagedError: more than single records cannot be read.
    """
    behind: dict[Partition, int] = {}
    records = log.scan(topics) if job is None else log.records_of(job, topics)
    while True:
        try:
            for record in records:
                behind[record.partition] = record.offset + 1
                if job is None or record.message.key == job:
                    yield record
        except LogDamagedError as error:
            if error.place is None:
                raise
            topic, number, offset = error.place
            partition = Partition(cast("Topic", topic), number)
            behind[partition] = offset + 1
            yield Damage(partition, offset, "it does not match its checksum")
            records = log.scan(topics, start=behind)
        else:
            return
