"""Order in which a shard processes its inputs.

Partitions are merged by recorded time; at equal times in the order of the stage's declaration, and within a partition by offset.

A shard of jobs processes records of `cluster` before other waiting inputs. Such an early fact must not make timers of jobs due, so
it is processed at the recorded time of the earliest waiting input; a fact on which the stage acts at once keeps its turn. The only
shard of a stage processes all inputs in order: scheduling acts on facts of the cluster, so an early one would advance its time and
fire timers that waiting job events cancel.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from operator import attrgetter
from typing import Final, Protocol

from engine.log.errors import LogError
from engine.log.port import READ_BYTES, Log, Partition, ReadsTogether, Record
from engine.log.ranges import RECORDED

Taken = tuple[int, Record, int]
"""Index of the input partition, the record, and the time to which it advances the shard (microseconds)."""


class Source(Protocol):
    """Source of a batch."""

    def peek(self) -> Taken | None:
        """Return the next input, or `None`."""

    def take(self) -> None:
        """Consume the input that `peek` returned; not allowed after `None`."""


class Inputs:
    """Waiting inputs in the log."""

    def __init__(
        self,
        log: Log,
        partitions: Sequence[Partition],
        offsets: Sequence[int],
        batch: int,
        *,
        of_jobs: bool,
        in_turn: Callable[[Record], bool] = lambda _record: False,
    ) -> None:
        """Start at the given offsets.

        Args:
            log: log to read.
            partitions: input partitions of the shard.
            offsets: first offset of each partition.
            batch: records per read.
            of_jobs: true for a shard of jobs, where facts of the cluster are processed early.
            in_turn: returns true for a fact of the cluster that keeps its turn.
        """
        heads = [
            _Head(log, place, partition, offset, batch, overtakes=of_jobs and partition.topic == "cluster")
            for place, (partition, offset) in enumerate(zip(partitions, offsets, strict=True))
        ]
        self.log: Final = log
        self.partitions: Final = tuple(partitions)
        self._heads: Final = tuple(sorted(heads, key=lambda head: not head.overtakes))
        self._batch: Final = batch
        self._in_turn: Final = in_turn
        self._together: Final = log if isinstance(log, ReadsTogether) else None
        self._head = self._heads[0]
        """Head of the input that `peek` last returned."""
        self.out_of_reach = False
        """True if the last read of inputs failed."""

    def refresh(self) -> None:
        """Read newly appended inputs; none is added between calls, so a batch contains only inputs that waited when it began.

        Raises:
            LogError: the log cannot be read; the call may be repeated.
        """
        try:
            self._look()
        except LogError:
            self.out_of_reach = True
            raise
        self.out_of_reach = False

    def _look(self) -> None:
        bare = [head for head in self._heads if head.found is None]
        if self._together is None or len(bare) < 2:
            for head in bare:
                head.refresh()
            return
        found = self._together.read_each([(head.partition, head.next) for head in bare], self._batch)
        for head, records in zip(bare, found, strict=True):
            head.fill(records)

    def peek(self) -> Taken | None:
        """Return the next input, or `None` if none waits."""
        first: Taken | None = None
        for head in self._heads:
            found = head.found
            if found is not None and (first is None or found[2] < first[2]):
                first, self._head = found, head
                if head.overtakes and (early := self._early(found)) is not None:
                    return early
        return first

    def _early(self, fact: Taken) -> Taken | None:
        """Return a fact of the cluster with its processing time if it is next; `None` if it must wait for other inputs."""
        place, record, time = fact
        earliest = min(head.found[2] for head in self._heads if head.found is not None)
        if earliest == time:
            return fact
        return None if self._in_turn(record) else (place, record, earliest)

    def take(self) -> None:
        """Consume the input that `peek` returned last."""
        self._head.take()

    def fact_recorded(self) -> int:
        """Return the recorded time of the last fact processed early (microseconds); 0 if there is none or it was deleted.

        Raises:
            LogError: the log cannot be read.
        """
        return max((head.last_recorded() for head in self._heads if head.overtakes), default=0)

    def oldest(self, offsets: Sequence[int]) -> list[int | None]:
        """Return, for each partition, the append time of its oldest buffered input at or after an offset (microseconds).

        Recorded time if the log stores no append time.

        May be called from any thread. Does not read the log, so a partition without buffered inputs has `None`.
        """
        found: list[int | None] = [None] * len(self.partitions)
        for head in self._heads:
            found[head.place] = head.oldest(offsets[head.place])
        return found


class Retaken:
    """Inputs to process again in the same order."""

    def __init__(self, taken: Iterable[Taken]) -> None:
        """Start with the first one."""
        self._waiting = deque(taken)

    def peek(self) -> Taken | None:
        """Return the next input, or `None` after the last one."""
        return self._waiting[0] if self._waiting else None

    def take(self) -> None:
        """Consume the input that `peek` returned last."""
        self._waiting.popleft()


class _Head:
    """Next record of one partition."""

    __slots__ = ("_batch", "_last", "_log", "_records", "found", "next", "overtakes", "partition", "place", "rest")

    def __init__(self, log: Log, place: int, partition: Partition, offset: int, batch: int, *, overtakes: bool) -> None:
        self._log = log
        self._batch = batch
        self.next = offset
        self._last: int | None = None
        """Recorded time of the last record processed; `None` if it must be read from the log, before `next`."""
        self._records: list[Record] = []
        self.rest: Iterator[Taken] = iter(())
        """Records read after `found`."""
        self.place = place
        self.partition = partition
        self.overtakes = overtakes
        self.found: Taken | None = None
        """Next input; `None` if nothing is buffered."""

    def refresh(self) -> None:
        """Read from the log if nothing is buffered."""
        if self.found is None:
            self.fill(self._log.read(self.partition, self.next, self._batch))

    def fill(self, records: list[Record]) -> None:
        """Buffer records that were read from `next` on."""
        self._records = records
        self.rest = zip(repeat(self.place), records, map(RECORDED, records), strict=False)
        self.found = next(self.rest, None)

    def take(self) -> None:
        """Consume `found`. After the last buffered record, read the next chunk, if this one was full."""
        assert self.found is not None  # noqa: S101 - not allowed otherwise
        self._last = self.found[2]
        self.found = next(self.rest, None)
        if self.found is not None:
            return
        self.next = self._records[-1].offset + 1
        if len(self._records) == self._batch or sum(map(_SIZE, self._records)) >= READ_BYTES:
            self.refresh()

    def last_recorded(self) -> int:
        """Return the recorded time of the last record processed by any holder; 0 if there is none or it was deleted."""
        if self._last is None:
            before = self.next - 1
            found = self._log.read(self.partition, before, 1) if before >= 0 else []
            self._last = next((record.message.recordedtime for record in found if record.offset == before), 0)
        return self._last

    def oldest(self, offset: int) -> int | None:
        """Return the append time of the first buffered record at or after an offset."""
        records = self._records  # the list is replaced, never changed
        place = bisect_left(records, offset, key=_OFFSET)
        if place == len(records):
            return None
        return records[place].appended or records[place].message.recordedtime


_OFFSET: Final = attrgetter("offset")
_SIZE: Final = attrgetter("size")
