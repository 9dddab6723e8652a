"""Progress of an agent by job and sequence number; detects duplicate and missing events."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from streams.agents.received import Received

KEPT: Final = 100_000
"""Maximum number of jobs remembered, the most recent ones: about 25 MB."""


class Place(NamedTuple):
    """A partition of a topic, by its name in the cluster."""

    topic: str
    partition: int


class _Job(NamedTuple):
    sequence: int
    """Sequence number of the last event done."""
    place: Place
    span: int
    """Span of the partition at that event (see `Progress`)."""


class Progress:
    """Last sequence number done by job, and next offset by partition.

    No gap is reported for a job that is not remembered, because it was dropped or belonged to another process. A `span` of a
    partition is a period of uninterrupted ownership: only within one span does a gap in a job's sequence mean that an event was
    lost.
    """

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._jobs: OrderedDict[str, _Job] = OrderedDict()
        self._next: dict[Place, int] = {}
        self._spans: dict[Place, int] = {}

    def __len__(self) -> int:
        """Return the number of remembered jobs."""
        return len(self._jobs)

    def is_done(self, received: Received) -> bool:
        """Return true if a record was done before."""
        known = self._jobs.get(received.job)
        if received.sequence and known is not None:
            return received.sequence <= known.sequence
        return received.offset < self._next.get(_place(received), received.offset)

    def missing(self, received: Received) -> int:
        """Return the number of events of its job that are missing before this one."""
        known = self._jobs.get(received.job)
        if not received.sequence or known is None or known.span != self._span(_place(received)):
            return 0
        return max(received.sequence - known.sequence - 1, 0)

    def done(self, received: Received) -> None:
        """Record that an event is done."""
        place = _place(received)
        if received.offset >= 0:
            self._next[place] = max(received.offset + 1, self._next.get(place, 0))
        if received.sequence:
            self._jobs[received.job] = _Job(received.sequence, place, self._span(place))
            self._jobs.move_to_end(received.job)
            if len(self._jobs) > self._kept:
                self._jobs.popitem(last=False)

    def resumed(self, offsets: Mapping[Place, int | None]) -> None:
        """Record the starting offsets after a rebalance.

        Args:
            offsets: next offset of each assigned partition; `None`: the beginning.
        """
        for place, offset in offsets.items():
            # A start behind the last event done here means that another process may have done the events between.
            if offset is not None and offset > self._next.get(place, 0):
                self._spans[place] = self._span(place) + 1

    def forget(self, places: Collection[Place]) -> None:
        """Drop all state of some partitions."""
        for place in places:
            self._next.pop(place, None)
        for job in [name for name, known in self._jobs.items() if known.place in places]:
            del self._jobs[job]

    def _span(self, place: Place) -> int:
        return self._spans.get(place, 0)


def _place(received: Received) -> Place:
    return Place(received.topic, received.partition)
