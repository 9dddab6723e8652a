"""Recovery of a shard's state: its snapshot, then the later inputs that it absorbed and the events that it wrote.

`decide` never runs again on old inputs. Own output is merged by shardsequence; absorbed inputs precede the first output whose basis
includes them, as in the original order.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from heapq import merge
from itertools import chain
from operator import attrgetter
from typing import Final, Generic, TypeVar

from engine.events import Data, Event, EventError, decode
from engine.events.outcomes import Accounted, DeadLettered
from engine.gc_pause import collector_paused
from engine.log.errors import LogDamagedError, LogError, LogUnavailableError
from engine.log.port import Log, Partition, Position, Record, ShardId, ShardLog, ShardView, Transactional
from engine.log.ranges import RECORDED, records_between
from engine.processor.accounts import Accounts
from engine.processor.partitions import input_partitions, output_partitions, single_shard
from engine.processor.snapshots import Snapshots, load
from engine.processor.stage import Stage

_READ: Final = 500
_NO_STATE: Final = (Accounted, DeadLettered)
_SHARDSEQUENCE: Final = attrgetter("shardsequence")
_logger: Final = logging.getLogger(__name__)

S = TypeVar("S")
T = TypeVar("T")


class StoppedRecoveryError(Exception):
    """Raised when the recovered state is no longer needed."""


@dataclass(slots=True)
class Recovered(Generic[S]):
    """A recovered shard."""

    state: S
    accounts: Accounts
    snapshots: Snapshots
    fault: str = ""
    """Reason why the stored snapshot was not used, so that the whole history was read; empty if it was."""
    events: int = 0
    """Outputs folded on top of the snapshot."""


def recover(
    log: Log,
    stage: Stage[S],
    shard: ShardId,
    held: ShardLog | ShardView,
    every: int,
    *,
    hosted: bool = False,
    stopped: Callable[[], bool] = lambda: False,
) -> Recovered[S]:
    """Recover the state of a shard at `held.position`.

    Args:
        log: log with the shard's inputs and outputs.
        stage: stage of the state.
        shard: shard to recover.
        held: opened shard, whose earlier holder is fenced, or a view of it.
        every: see `Snapshots`.
        hosted: true inside another program, whose garbage collector is left on.
        stopped: returns true if the state is no longer needed; called before each record.

    Raises:
        StoppedRecoveryError: `stopped` returned true.
        LogDamagedError: own output is missing.
        LogError: own output cannot be decoded by this release, or the log fails.
    """
    # A fold creates millions of objects and no garbage cycles; searching for them would take a third of the time.
    with nullcontext() if hosted else collector_paused():
        return _recover(log, stage, shard, held, every, stopped)


def _recover(
    log: Log, stage: Stage[S], shard: ShardId, held: ShardLog | ShardView, every: int, stopped: Callable[[], bool]
) -> Recovered[S]:
    loaded = load(_unless(stopped, held.snapshot()), stage.state_version)
    state, accounts = stage.initial(), loaded.accounts
    if loaded.low is not None:
        stage.load(state, _unless(stopped, loaded.records))
        loaded.records.clear()
    elif loaded.fault:
        _logger.warning("the snapshot of shard %s is not used, %s: reading all of its history", shard, loaded.fault)
    stage.touched(state)
    snapshots = Snapshots(stage, loaded, every)
    inputs = input_partitions(log, stage, shard.number)
    taken = [0] * len(inputs)
    taken[: len(snapshots.low.vector)] = snapshots.low.vector
    absorbed = _Absorbed(log, shard, stage, state, inputs, taken)
    position = held.position
    before = snapshots.low
    outputs = output_partitions(log, stage, shard.number)
    own = own_output(log, shard, outputs, loaded.offsets, before.shardsequence, position.shardsequence)
    for record in _unless(stopped, own):
        if record.shardsequence - before.shardsequence > _READ:
            snapshots.touch(stage.touched(state), before, state)
            before = Position(tuple(taken), before.now, record.shardsequence - 1)
        try:
            event = decode(record.message, bounded=False)
        except EventError as error:
            place = f"{record.partition.topic}/{record.partition.number} at {record.offset}"
            raise LogError(f"{place} was written by another release: {error}; install a release that knows it") from error
        absorbed.up_to(record.basis, event)
        accounts.fold(event, record.basis, record.shardsequence, stage.outcome)
        if isinstance(event.data, _NO_STATE):
            continue
        if loaded.low is None or not stage.contains(state, event):
            stage.evolve(state, event)
    # No inputs are left to absorb: a commit's last output (`shard.accounted` if necessary) has all its inputs in the basis.
    snapshots.touch(stage.touched(state), before, state)
    accounts.received = sum(accounts.outcomes.values())
    return Recovered(state, accounts, snapshots, loaded.fault, position.shardsequence - snapshots.low.shardsequence)


def _unless(stopped: Callable[[], bool], items: Iterable[T]) -> Iterator[T]:
    for item in items:
        if stopped():
            raise StoppedRecoveryError
        yield item


def must_reach(log: Log, shard: ShardId, partition: Partition, taken: int) -> int:
    """Return the end offset of an input partition, checked to be at or after the shard's offset.

    Records appended to a recreated topic would have offsets below the shard's and never be read. A new partition leader may also
    not know its end yet, so the call may be retried.

    Args:
        log: log to check.
        shard: the reader.
        partition: one of its inputs.
        taken: the shard's next offset.

    Raises:
        LogUnavailableError: it ends earlier, perhaps temporarily.
        LogDamagedError: it ends earlier, in a log without partition leaders.
    """
    if (end := log.end(partition)) < taken:
        kind = LogUnavailableError if isinstance(log, Transactional) else LogDamagedError
        raise kind(
            f"{partition.topic}/{partition.number} ends at {end}, but shard {shard} has read up to {taken}; if this "
            "persists, the topic was recreated or cut: restore it from a backup, or start a new log"
        )
    return end


def own_output(
    log: Log, shard: ShardId, partitions: Sequence[Partition], offsets: Mapping[Partition, int], after: int, up_to: int
) -> Iterator[Record]:
    """Yield a shard's outputs in order.

    Args:
        log: log to read.
        shard: writer of the outputs; records of others are skipped.
        partitions: output partitions of the shard.
        offsets: first offset by partition; default 0.
        after: shardsequence before the first record.
        up_to: shardsequence of the last record.

    Raises:
        LogDamagedError: a record is missing.
    """
    name = str(shard)
    runs = [_Run(log, name, partition, offsets.get(partition, 0), after) for partition in partitions]
    last = after
    while last < up_to:
        runs = [run for run in runs if run.fill()]
        if not runs:
            break
        runs.sort(key=_Run.head)
        # All records of this partition that precede the heads of the others.
        limit = runs[1].head() if len(runs) > 1 else up_to + 1
        for record in runs[0].before(limit):
            if record.shardsequence != last + 1:
                raise _gap(shard, last + 1, record)
            last += 1
            yield record
            if last == up_to:
                return
    if last < up_to:
        raise _gap(shard, last + 1, None)


def _gap(shard: ShardId, missing: int, found: Record | None) -> LogDamagedError:
    where = "the topics end before it" if found is None else f"{found.partition.topic}/{found.partition.number} continues after it"
    return LogDamagedError(f"output {missing} of shard {shard} is missing ({where}); restore a backup")


class _Run:
    """The records of one shard in one partition, a chunk at a time."""

    def __init__(self, log: Log, name: str, partition: Partition, offset: int, after: int) -> None:
        self._log = log
        self._name = name
        self._partition = partition
        self._offset = offset
        self._after = after
        self._records: list[Record] = []
        self._place = 0

    def fill(self) -> bool:
        """Read until a record is buffered; return false at the end of the partition."""
        while self._place == len(self._records):
            read = self._log.read(self._partition, self._offset, _READ)
            if not read:
                return False
            self._offset = read[-1].offset + 1
            name, after = self._name, self._after
            self._records = [record for record in read if record.shard == name and record.shardsequence > after]
            self._place = 0
        return True

    def head(self) -> int:
        """Return the shardsequence of the next record."""
        return self._records[self._place].shardsequence

    def before(self, limit: int) -> list[Record]:
        """Return the buffered records whose shardsequence is below `limit`."""
        begin = self._place
        self._place = bisect_left(self._records, limit, begin, key=_SHARDSEQUENCE)
        return self._records[begin : self._place]


class _Absorbed:
    """Absorbed inputs of a shard, applied to its state in their original order, as its outputs document it."""

    def __init__(self, log: Log, shard: ShardId, stage: Stage[S], state: S, inputs: Sequence[Partition], taken: list[int]) -> None:
        self._log = log
        self._shard = shard
        self._absorb: Callable[[Event[Data], int], None] = lambda event, offset: stage.absorb(state, event, offset)
        self._inputs = [(place, partition) for place, partition in enumerate(inputs) if stage.absorbs(partition.topic)]
        self._by_time = single_shard(stage)
        """True if no input is processed early (`engine.processor.inputs`)."""
        self._taken = taken
        self._ends = [0] * len(inputs)
        """End offset last returned by the log; reads reach at least that far."""

    def up_to(self, vector: Sequence[int], cause: Event[Data]) -> None:
        """Absorb inputs up to `vector`, the basis of the output `cause`."""
        waiting = [(place, partition) for place, partition in self._inputs if self._taken[place] < vector[place]]
        if not waiting:  # usual: most outputs have no absorbed input before them
            return
        parts = [self._below(place, partition, vector[place]) for place, partition in waiting]
        for record in merge(*parts, key=RECORDED) if self._by_time else chain(*parts):
            self._take(record, cause)

    def _below(self, place: int, partition: Partition, end: int) -> Iterator[Record]:
        """Yield the unabsorbed inputs of a partition before an offset."""
        if self._ends[place] < end:
            self._ends[place] = must_reach(self._log, self._shard, partition, end)
        yield from records_between(self._log, partition, self._taken[place], end, _READ)
        self._taken[place] = end

    def _take(self, record: Record, cause: Event[Data]) -> None:
        if isinstance(cause.data, DeadLettered):
            dead = cause.data
            if (dead.topic, dead.partition, dead.offset) == (*record.partition, record.offset):
                # It was undecodable then; a release that can decode it must not change the state that followed.
                return
        try:
            event = decode(record.message, bounded=False)  # the bounds may have changed since
        except EventError as error:
            raise LogError(
                f"{record.partition.topic}/{record.partition.number} at {record.offset} was read by another release: {error}"
            ) from error
        self._absorb(event, record.offset)
