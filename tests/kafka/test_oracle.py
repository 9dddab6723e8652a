"""The oracle agrees with an honest run and finds what was doubled, lost or changed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import pytest
from lifecycle_inputs import inputs
from oracle import Sight, compare, judge

from engine.events import EventError, Message, Topic, decode, encode
from engine.events.actions import TimerFired
from engine.events.inputs import PodObserved
from engine.events.outcomes import Accounted, InputReleased
from engine.lifecycle.stage import LifecycleStage
from engine.log.memory import MemoryLog
from engine.log.port import Commit, Output, Partition, ShardId
from engine.processor.partitions import input_partitions
from engine.processor.processor import Processor
from engine.processor.snapshots import state_hash


def run(log: MemoryLog, given: Sequence[tuple[Topic, Message]] | None = None, stage: Any = None) -> Processor[Any]:
    """A live run: inputs come bit by bit, and timers fire from the clock in between."""
    ahead = [0]
    processor: Processor[Any] = Processor(log, stage or LifecycleStage(), clock=lambda: ahead[0], batch=50)
    processor.open()
    for place, (topic, message) in enumerate(inputs(80) if given is None else given):
        log.append(topic, [message])
        if place % 7 == 0:
            ahead[0] = message.recordedtime + 8_000_000
            while processor.step():
                pass
    processor.run_until_quiet()
    return processor


@pytest.fixture
def log() -> MemoryLog:
    found = MemoryLog()
    run(found)
    return found


class _Deaf(LifecycleStage):
    """Hears no timer while it is told not to."""

    hears = False

    def due(self, state: Any) -> int | None:
        return super().due(state) if self.hears else None


def append_outputs(log: MemoryLog, *outputs: Output) -> None:
    """Write more as the shard."""
    stage = LifecycleStage()
    held = log.open(ShardId(stage.name, 0), input_partitions(log, stage, 0))
    held.commit(Commit(held.position.vector, held.position.now, outputs))


def test_an_honest_live_run_is_agreed_with() -> None:
    log = MemoryLog()
    processor = run(log)
    verdict = judge(log, LifecycleStage(), 0, rested=processor.position.now)
    assert verdict.differences == []
    assert (verdict.lost, verdict.doubled, verdict.differing) == (0, 0, 0)
    assert verdict.inputs == processor.accounts.received == len(inputs(80))
    assert (verdict.state, verdict.outcomes) == (state_hash(processor.stage, processor.state), processor.accounts.outcomes)


def seen_twice(message: Message) -> list[Message]:
    """Return an observation of a pod, and another one of it that tells nothing new."""
    try:
        event = decode(message)
    except EventError:
        return [message]
    if not isinstance(event.data, PodObserved):
        return [message]
    first, second = (replace(event.data, version=event.data.version + digit) for digit in "01")
    return [encode(replace(event, data=first)), encode(replace(event, id=f"{event.id}/1", data=second))]


def test_pods_that_come_before_their_jobs_are_agreed_with() -> None:
    """They wait and are released with an event, so those among them that tell nothing new are not in the shard's account."""
    given = inputs(40)
    jobs = [found for found in given if found[0] == "jobs"]
    others = [(topic, twin) for topic, message in given if topic != "jobs" for twin in seen_twice(message)]
    log = MemoryLog()
    run(log, [found for both in zip_longest(others, [None] * 20 + jobs) for found in both if found is not None])
    released = [decode(record.message).data for record in log.read(Partition("job-events", 0), 0, 100_000)]
    assert any(isinstance(data, InputReleased) and data.outcome == "unchanged" for data in released)
    assert judge(log, LifecycleStage(), 0).differences == []


def test_a_doubled_output_is_found(log: MemoryLog) -> None:
    written = log.read(Partition("job-events", 0), 0, 100_000)
    last = [record for record in written if record.message.type != Accounted.TYPE][-1]
    append_outputs(log, Output("job-events", last.message, last.basis))
    verdict = judge(log, LifecycleStage(), 0)
    assert verdict.differences != []
    assert verdict.doubled == 1


def test_an_output_that_follows_from_nothing_is_named(log: MemoryLog) -> None:
    foreign = next(record for record in log.read(Partition("job-events", 0), 0, 100) if record.message.type != Accounted.TYPE)
    bare = MemoryLog()
    bare.append("cluster", [message for topic, message in inputs(5) if topic == "cluster"])
    processor: Processor[Any] = Processor(bare, LifecycleStage())
    processor.open()
    processor.run_until_quiet()
    append_outputs(bare, Output("job-events", foreign.message, processor.position.vector))
    verdict = judge(bare, LifecycleStage(), 0)
    assert verdict.differences[0].startswith("nothing leads to output 1: ")
    assert foreign.message.id in verdict.differences[0]


@pytest.mark.parametrize("place", [0, 40, -1])
def test_one_altered_output_among_many_is_found(log: MemoryLog, place: int) -> None:
    records = log.records[Partition("job-events", 0)]
    old = [record for record in records if record.message.type != Accounted.TYPE][place]
    event = json.loads(old.message.data)
    records[records.index(old)] = old._replace(message=old.message._replace(data=json.dumps(event | {"more": 1}).encode()))
    verdict = judge(log, LifecycleStage(), 0)
    assert verdict.differences != []
    assert (verdict.doubled, verdict.differing) == (0, 1)


@pytest.mark.parametrize("place", [0, 40, -1])
def test_one_lost_output_among_many_is_found(log: MemoryLog, place: int) -> None:
    """As if it had never been written: those behind it have moved up."""
    records = log.records[Partition("job-events", 0)]
    old = [record for record in records if record.message.type != Accounted.TYPE][place]
    records.remove(old)
    for partition in (Partition("job-events", 0), Partition("dead-letters", 0)):
        log.records[partition] = [
            record._replace(offset=place, shardsequence=record.shardsequence - (record.shardsequence > old.shardsequence))
            for place, record in enumerate(log.records[partition])
        ]
    held = log.shards[ShardId("lifecycle", 0)]
    held.position = held.position._replace(shardsequence=held.position.shardsequence - 1)
    verdict = judge(log, LifecycleStage(), 0)
    assert verdict.differences != []
    assert verdict.lost == 1


def test_an_input_that_was_left_out_is_found(log: MemoryLog) -> None:
    records = log.records[Partition("pods", 0)]
    records.insert(60, records[60]._replace(message=inputs(81)[-1][1]))
    log.records[Partition("pods", 0)] = [record._replace(offset=place) for place, record in enumerate(records)]
    verdict = judge(log, LifecycleStage(), 0)
    assert verdict.differences != []


def test_timers_that_do_not_fire_are_found() -> None:
    log = MemoryLog()
    run(log, stage=_Deaf())
    assert judge(log, LifecycleStage(), 0).lost > 0


def test_timers_that_fire_only_when_nothing_waits_are_found() -> None:
    log, stage = MemoryLog(), _Deaf()
    for topic, message in inputs(40):
        log.append(topic, [message])
    processor: Processor[Any] = Processor(log, stage)
    processor.open()
    while processor.step():
        pass
    stage.hears = True
    processor.run_until_quiet()
    verdict = judge(log, LifecycleStage(), 0, rested=processor.position.now)
    assert any(record.message.type == TimerFired.TYPE for record in log.read(Partition("job-events", 0), 0, 100_000))
    assert verdict.lost > 0


def test_timers_that_are_left_at_the_end_are_found() -> None:
    """Nothing is taken behind them, so this is seen only where the shard is said to have come to rest."""
    log = MemoryLog()
    for topic, message in inputs(40):
        log.append(topic, [message])
    processor: Processor[Any] = Processor(log, LifecycleStage())
    processor.open()
    while processor.step():
        pass
    due = processor.timer_due
    assert due is not None
    assert judge(log, LifecycleStage(), 0, rested=due - 1).differences == []
    verdict = judge(log, LifecycleStage(), 0, rested=due)
    assert (verdict.differences, verdict.lost) == ([f"a timer due at {due} was passed over"], 1)


def test_inputs_that_wait_are_found(log: MemoryLog) -> None:
    log.append("pods", [message for topic, message in inputs(5) if topic == "pods"])
    verdict = judge(log, LifecycleStage(), 0)
    assert (verdict.lost > 0, verdict.doubled, verdict.differing) == (True, 0, 0)


@pytest.fixture(scope="module")
def little_room() -> tuple[MemoryLog, Processor[Any]]:
    """Run a shard whose log takes no more than 600 bytes a record."""
    log = MemoryLog()
    for topic, message in inputs(80):
        log.append(topic, [message])
    log.largest = 600
    processor: Processor[Any] = Processor(log, LifecycleStage(), batch=50)
    processor.open()
    processor.run_until_quiet()
    return log, processor


def test_what_was_too_large_for_the_log_is_taken_as_said(little_room: tuple[MemoryLog, Processor[Any]]) -> None:
    log, processor = little_room
    verdict = judge(log, LifecycleStage(), 0, too_large_from=0)
    assert verdict.differences == []
    letters: list[Any] = [decode(record.message).data for record in log.read(Partition("dead-letters", 0), 0, 1_000)]
    assert sum(bool(letter.digest) for letter in letters) > 5
    assert (verdict.state, verdict.outcomes) == (state_hash(processor.stage, processor.state), processor.accounts.outcomes)


def test_an_input_that_was_set_aside_though_nothing_was_too_large_is_found(
    little_room: tuple[MemoryLog, Processor[Any]],
) -> None:
    log, _ = little_room
    assert judge(log, LifecycleStage(), 0).differing > 0
    assert judge(log, LifecycleStage(), 0, too_large_from=1_000_000).differing > 0


def test_it_says_what_may_be_seen_of_the_events(log: MemoryLog) -> None:
    """What stands behind the shard's position, or is another shard's, is none of it."""
    records = log.records[Partition("job-events", 0)]
    right = {record.offset: record.message.id for record in records}
    assert judge(log, LifecycleStage(), 0).events == right
    end = len(records)
    records += [records[-1]._replace(offset=end, shardsequence=10**6), records[-1]._replace(offset=end + 1, shard="lifecycle/9")]
    assert judge(log, LifecycleStage(), 0).events == right


@pytest.mark.parametrize(
    ("seen", "sight"),
    [
        ([(3, "a"), (4, "b"), (7, "c")], Sight(0, 0, 0)),
        ([(3, "a"), (7, "c")], Sight(0, 1, 0)),
        ([(3, "a"), (4, "b"), (7, "c"), (8, "c")], Sight(1, 0, 0)),
        ([(3, "a"), (4, "x"), (7, "c")], Sight(1, 1, 0)),
        ([(4, "b"), (3, "a"), (7, "c")], Sight(1, 0, 0)),
        ([(3, "a"), (4, "x"), (4, "b"), (7, "c")], Sight(1, 0, 0)),
        ([(3, "a"), (4, "b"), (4, "b"), (7, "c")], Sight(0, 0, 1)),
        ([(3, "a"), (4, "b"), (3, "a"), (4, "b"), (7, "c")], Sight(0, 0, 2)),
    ],
)
def test_what_a_consumer_has_seen_is_compared_with_what_was_written(seen: list[tuple[int, str]], sight: Sight) -> None:
    assert compare(seen, {3: "a", 4: "b", 7: "c"}) == sight


def test_a_lost_output_is_found() -> None:
    log = MemoryLog()
    for topic, message in inputs(5):
        log.append(topic, [message])
    stage = LifecycleStage()
    partitions = input_partitions(log, stage, 0)
    held = log.open(ShardId(stage.name, 0), partitions)
    held.commit(Commit(tuple(log.end(partition) for partition in partitions), 0))
    verdict = judge(log, LifecycleStage(), 0)
    assert (verdict.outputs, len(verdict.differences) > 0) == (0, True)
