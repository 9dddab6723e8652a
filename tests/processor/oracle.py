"""Decides a shard's inputs again, in the order that its outputs show, and compares what follows byte for byte.

Topics interleave differently in every run, so two runs need not be equal; but each committed output says by its `basis` what had
been taken when it was decided. Inputs between two outputs gave none, so their order is free: that of their recorded times is tried.
Timers fire where outputs show them, and none may be due when an input is taken.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from operator import itemgetter
from typing import Any, NamedTuple

from engine.events import EventError, Message, decode
from engine.events.actions import TimerFired
from engine.events.jobs import JobForgotten
from engine.events.outcomes import Accounted, DeadLettered
from engine.log.memory import MemoryLog
from engine.log.port import Log, Output, Partition, Record, ShardId, Vector
from engine.processor.accounts import SILENT, Accounts
from engine.processor.inputs import Inputs, Taken
from engine.processor.partitions import input_partitions, output_partitions, single_shard
from engine.processor.poison_guard import REASON, text_of
from engine.processor.recovery import Recovered, own_output
from engine.processor.shard_run import Limit, ShardRun
from engine.processor.snapshots import Loaded, Snapshots, state_hash


@dataclass(frozen=True)
class Verdict:
    """What the oracle found; `differences` is empty, and the three counts are 0, where nothing is wrong."""

    inputs: int
    outputs: int
    differences: list[str]
    lost: int
    """Inputs that stand behind the shard's position, outputs that follow and are not there, and timers that were passed over."""
    doubled: int
    """Outputs that are there more often than they follow."""
    differing: int
    """Outputs that are there and follow otherwise, or from nothing."""
    state: str
    """Hash of the state after all of it."""
    outcomes: dict[str, int]
    events: dict[int, str]
    """Offset and id of each record of its first output topic that the shard has written: nobody may see others in its partition."""


def judge(
    log: Log,
    stage: Any,
    number: int,
    *,
    whole: bool = True,
    rested: int | None = None,
    too_large_from: int | None = None,
    ended_in: Collection[str] = (),
) -> Verdict:
    """Decide a shard again and compare.

    Args:
        log: that the shard has run on; nobody writes to it now.
        stage: as it was run.
        number: of the shard.
        whole: all inputs are to be taken.
        rested: all timers due by this time (microseconds) are to have fired; `None`: those that were due when an input was taken.
        too_large_from: size of an input (bytes of its data) from which on the log may have refused what follows from it; `None`:
            of none.
        ended_in: inputs (`pods/0@17`) and timers (`timer@ID`) that were set aside because processes had ended in them.
    """
    shard = ShardId(stage.name, number)
    view = log.look(shard)
    assert view is not None
    written = list(own_output(log, shard, output_partitions(log, stage, number), {}, 0, view.position.shardsequence))
    expected = [record for record in written if record.message.type != Accounted.TYPE]
    again = _Again(log, stage, number, too_large_from, ended_in)
    differences: list[str] = []
    try:
        for place, record in enumerate(expected):
            again.until(place, record)
        again.up_to(view.position.vector, None)
        if rested is not None:
            again.must_have_fired(rested)
    except _NothingLeadsToItError as error:
        differences.append(f"nothing leads to output {len(again.made) + 1}: {error}")
    made = [(out.message, out.basis, out.partition(number, log.partitions(out.topic))) for out in again.made]
    told = [(record.message, record.basis, record.partition) for record in expected]
    differences += [
        f"output {place}: {old} is now {new}" for place, (old, new) in enumerate(zip(told, made, strict=False)) if old != new
    ]
    if len(made) != len(told):
        differences.append(f"{len(told)} outputs, decided again {len(made)}")
    again.run.account()
    if not again.run.accounts.balanced:
        differences.append(f"{again.taken} inputs taken, accounted for as {again.run.accounts.outcomes}")
    outcomes = dict(again.run.accounts.outcomes)
    if (silent := _silent(record.message for record in written)) != (rightly := _silent(out.message for out in again.run.outputs)):
        differences.append(f"accounted {silent}, decided again {rightly}")
    differences += [f"a timer due at {due} was passed over" for due in sorted(again.passed)]
    given = sum(map(again.waiting, again.inputs, view.position.vector)) if whole else 0
    if given:
        differences.append(f"{given} inputs were not taken")
    twice, missing, other = _counted([message for message, *_ in told], [message for message, *_ in made])
    return Verdict(
        again.taken,
        len(expected),
        differences,
        given + missing + len(again.passed),
        twice,
        other,
        state_hash(stage, again.run.state),
        outcomes,
        {record.offset: record.message.id for record in written if record.partition.topic == stage.outputs[0]},
    )


class Sight(NamedTuple):
    """What a consumer of one partition of a topic has seen, against what the shard has written."""

    wrong: int
    """Records that are not there, or come behind one that stands behind them."""
    missing: int
    """Records that are there, and were not seen."""
    repeated: int
    """Records seen a second time at the same offset; who reads knows them by it."""


def compare(seen: Sequence[tuple[int, str]], events: Mapping[int, str]) -> Sight:
    """Compare what a consumer has seen with what was written.

    Args:
        seen: offset and id of each record, in the order of delivery.
        events: as of `Verdict`.
    """
    once, right = dict.fromkeys(seen), events.items()
    disordered = sum(later < earlier for (earlier, _), (later, _) in pairwise(once))
    return Sight(len(once.keys() - right) + disordered, len(right - once.keys()), len(seen) - len(once))


def _counted(told: list[Message], made: list[Message]) -> tuple[int, int, int]:
    """Return how many of the messages told are told more often than made, how many are missing, and how many are others."""
    ids, right = Counter(message.id for message in told), Counter(message.id for message in made)
    again = sum(count - max(right[ident], 1) for ident, count in ids.items() if count > max(right[ident], 1))
    whole = set(made)
    return again, (right - ids).total(), len({message.id for message in told if message not in whole})


def _silent(written: Iterable[Message]) -> dict[str, int]:
    """Return how many inputs left no event, as accounted for. One that had waited and is released leaves one, whatever follows."""
    totals = dict.fromkeys(sorted(SILENT), 0)
    for message in written:
        if message.type == Accounted.TYPE:
            data = decode(message).data
            for name in totals:
                totals[name] += getattr(data, name)
    return totals


_BY_TIMERS = frozenset({TimerFired.TYPE, JobForgotten.TYPE})


class _NothingLeadsToItError(Exception):
    """Raised when an output follows neither from an input nor from a timer."""


class _Again:
    """A shard in memory that takes what another one took."""

    def __init__(self, log: Log, stage: Any, number: int, too_large_from: int | None, ended_in: Collection[str]) -> None:
        self.stage = stage
        self.inputs = input_partitions(log, stage, number)
        self._absorbs_all = all(stage.absorbs(topic) for topic, _ in stage.inputs)
        self._overtakes = not single_shard(stage)
        self.taken = 0
        self.passed: set[int] = set()
        """When timers were due that had not fired when they had to."""
        self._too_large_from = too_large_from
        self.made: list[Output] = []
        self._ids: set[str] = set()
        self._given = [_Given(log, partition) for partition in self.inputs]
        shard = ShardId(stage.name, number)
        held = MemoryLog(log.partitions("job-events")).open(shard, self.inputs)
        recovered = Recovered(stage.initial(), Accounts(), Snapshots(stage, Loaded(1), 10**9))
        inputs = Inputs(log, self.inputs, held.position.vector, 1, of_jobs=self._overtakes)
        # One output fills a commit, so that `fire` fires one timer: of several of one moment the last may not have fired yet.
        self.run: ShardRun[Any] = ShardRun(
            stage,
            shard,
            held,
            recovered,
            inputs,
            Limit(1),
            lambda name: (REASON,) if text_of(name) in ended_in else (),
            counts=False,
        )

    def until(self, place: int, record: Record) -> None:
        """Take and fire until so many outputs stand before this one, and it has been made."""
        while len(self.made) <= place or self._fires_now(record):
            before = len(self.made), self.run.basis
            if self._is_behind(record):
                self.up_to(record.basis, record)
            else:
                if (due := self.stage.due(self.run.state)) is not None:
                    # One that does what several would have done fires when its output says.
                    self.run.fire(max(due, record.message.recordedtime), {})
                    self._collect()
            if (len(self.made), self.run.basis) == before:
                raise _NothingLeadsToItError(record)

    def _fires_now(self, record: Record) -> bool:
        """Tell whether a record is the timer that is due next: behind an output that was lost, places no longer agree."""
        if record.message.type not in _BY_TIMERS or record.message.id in self._ids:
            return False
        return self._is_behind(record) or self.stage.due(self.run.state) == record.message.time

    def _is_behind(self, record: Record) -> bool:
        return any(mine < theirs for mine, theirs in zip(self.run.vector, record.basis, strict=True))

    def up_to(self, vector: Vector, record: Record | None) -> None:
        """Take all inputs below a vector; the one that caused a record last."""
        waiting = [(place, given) for place, given in enumerate(self._given) if self.run.vector[place] < vector[place]]
        last = next(
            (place for place, given in waiting if record and self._is_last(place, given.last_below(vector[place]), record)), None
        )
        others: list[Iterator[Taken]] = []
        causing: list[Iterator[Taken]] = []
        for place, given in waiting:
            (causing if place == last else others).append(_taken(place, given.below(vector[place])))
        for place, taken, time in chain(heapq.merge(*others, key=itemgetter(2)), *causing):
            found = place, taken, self._moves_to(place, time, record)
            self.must_have_fired(max(self.run.now, found[2]))
            if record is not None and (reason := self._too_large(found[1], record)):
                # Only the log knows what is too large for it.
                self.run.drop_large(found, reason)
            else:
                self.run.take(found, ())
            self._collect()
            self.taken += 1

    def _is_last(self, place: int, taken: Record | None, record: Record) -> bool:
        """Tell whether a record follows from the last input of a partition at once, so that no other input came between."""
        # Where all inputs are absorbed, a fact of the cluster may have waited until there was a job.
        return _causes(taken, record) and not (self._absorbs_all and self.inputs[place].topic == "cluster")

    def _moves_to(self, place: int, time: int, record: Record | None) -> int:
        """Return to when an input moves the time: a fact of the cluster may have overtaken what was recorded before it."""
        if self._overtakes and self.inputs[place].topic == "cluster":
            return min(time, self.run.now if record is None else record.message.recordedtime)
        return time

    def waiting(self, partition: Partition, offset: int) -> int:
        """Return how many records stand in a partition from an offset on: markers of transactions count as offsets only."""
        return sum(1 for _ in _Given(self.run.inputs.log, partition, offset).below(self.run.inputs.log.end(partition)))

    def must_have_fired(self, by: int) -> None:
        """Note the timer that is due next, if it should have fired by a time (microseconds)."""
        due = self.stage.due(self.run.state)
        if due is not None and due <= by:
            self.passed.add(due)

    def _too_large(self, taken: Record, record: Record) -> str:
        """Return why an input was set aside, if a record is its letter and says that something of it was too large."""
        if self._too_large_from is None or len(taken.message.data) < self._too_large_from:
            return ""
        if record.message.type != DeadLettered.TYPE or not _causes(taken, record):
            return ""
        letter: Any = decode(record.message).data
        return letter.reason if letter.digest else ""

    def _collect(self) -> None:
        # A run takes no more when its commit is full.
        self._ids.update(output.message.id for output in self.run.outputs)
        self.made += self.run.outputs
        self.run.settle()


def _taken(place: int, records: Iterable[Record]) -> Iterator[Taken]:
    return ((place, record, record.message.recordedtime) for record in records)


def _causes(cause: Record | None, effect: Record) -> bool:
    if cause is None:
        return False
    data = decode(effect.message).data
    if isinstance(data, DeadLettered):
        return (data.topic, data.partition, data.offset) == (*cause.partition, cause.offset)
    try:
        return decode(cause.message).id == effect.message.causationid
    except EventError:
        return False


class _Given:
    """The inputs of one partition, read as they are asked for."""

    def __init__(self, log: Log, partition: Partition, first: int = 0) -> None:
        self._log = log
        self._partition = partition
        self._records: list[Record] = []
        self._place = 0
        self._next = first

    def below(self, end: int) -> Iterator[Record]:
        """Yield the records that have not been given yet, up to before an offset."""
        while (record := self._at(self._place)) is not None and record.offset < end:
            self._place += 1
            yield record

    def last_below(self, end: int) -> Record | None:
        """Return the last record before an offset."""
        place, found = self._place, None
        while (record := self._at(place)) is not None and record.offset < end:
            place, found = place + 1, record
        return found

    def _at(self, place: int) -> Record | None:
        while place >= len(self._records):
            read = self._log.read(self._partition, self._next, 1_000)
            if not read:
                return None
            self._records += read
            self._next = read[-1].offset + 1
        return self._records[place]
