"""The oracle agrees with an honest run and finds what was doubled, lost or changed."""

from __future__ import annotations

from typing import Any

import pytest
from lifecycle_inputs import inputs
from oracle import judge

from engine.events.jobs import Accounted
from engine.lifecycle.stage import LifecycleStage
from engine.log.memory import MemoryLog
from engine.log.port import Commit, Output, Partition, ShardId
from engine.log.processor import Processor
from engine.log.recovery import input_partitions
from engine.log.snapshots import state_hash


def run(log: MemoryLog) -> Processor[Any]:
    """A live run: inputs come bit by bit, and timers fire from the clock in between."""
    ahead = [0]
    processor: Processor[Any] = Processor(log, LifecycleStage(), clock=lambda: ahead[0], batch=50)
    processor.open()
    for place, (topic, message) in enumerate(inputs(80)):
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


def append_outputs(log: MemoryLog, *outputs: Output) -> None:
    """Write more as the shard."""
    stage = LifecycleStage()
    held = log.open(ShardId(stage.name, 0), input_partitions(log, stage, 0))
    held.commit(Commit(held.position.vector, held.position.now, outputs))


def test_an_honest_live_run_is_agreed_with() -> None:
    log = MemoryLog()
    processor = run(log)
    verdict = judge(log, LifecycleStage(), 0)
    assert verdict.differences == []
    assert verdict.inputs == processor.accounts.received == len(inputs(80))
    assert (verdict.state, verdict.outcomes) == (state_hash(processor.stage, processor.state), processor.accounts.outcomes)


def test_a_doubled_output_is_found(log: MemoryLog) -> None:
    written = log.read(Partition("job-events", 0), 0, 100_000)
    last = [record for record in written if record.message.type != Accounted.TYPE][-1]
    append_outputs(log, Output("job-events", last.message, last.basis))
    assert judge(log, LifecycleStage(), 0).differences != []


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
