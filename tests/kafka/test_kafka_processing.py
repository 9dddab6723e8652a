"""The lifecycle stage on Kafka: the same events as in memory, whatever is killed."""

from __future__ import annotations

import os
import random
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lifecycle_inputs import inputs
from oracle import judge

from engine.events import Message, Topic
from engine.events.outcomes import Accounted
from engine.lifecycle.stage import LifecycleStage
from engine.log.memory import MemoryLog
from engine.log.port import Log, Partition
from engine.processor.processor import Processor
from engine.processor.snapshots import state_hash
from streams.log import KafkaLog
from streams.settings import KafkaSettings

_HERE = Path(__file__).parent
_SEED = 20_170_807


def append_all(log: Log, given: list[tuple[Topic, Message]]) -> None:
    for topic in dict.fromkeys(topic for topic, _ in given):
        log.append(topic, [message for found, message in given if found == topic])


def written(log: Log, topic: Topic, number: int) -> list[Message]:
    """Everything in a partition, without what depends on how inputs fall into commits."""
    found, start = [], 0
    while records := log.read(Partition(topic, number), start, 1_000):
        found += [record.message for record in records if record.message.type != Accounted.TYPE]
        start = records[-1].offset + 1
    return found


def processed(log: Log, shards: int, batch: int) -> list[Processor[Any]]:
    processors = [Processor(log, LifecycleStage(), number, batch=batch) for number in range(shards)]
    for processor in processors:
        processor.open()
        processor.run_until_quiet()
    return processors


@pytest.mark.parametrize("shards", [1, 2])
def test_kafka_and_memory_hold_the_same_events_byte_for_byte(make_log: Callable[[int], KafkaLog], shards: int) -> None:
    given = inputs(150)
    kafka, memory = make_log(shards), MemoryLog(shards)
    for log in (kafka, memory):
        append_all(log, given)
    on_kafka, in_memory = processed(kafka, shards, 100), processed(memory, shards, 500)
    for topic in ("job-events", "dead-letters"):
        for number in range(shards):
            assert written(kafka, topic, number) == written(memory, topic, number)
    for mine, theirs in zip(on_kafka, in_memory, strict=True):
        assert state_hash(mine.stage, mine.state) == state_hash(theirs.stage, theirs.state)
        assert mine.accounts.outcomes == theirs.accounts.outcomes


def test_a_shard_opened_again_stands_where_it_stood(make_log: Callable[[int], KafkaLog], open_log: Callable[[], KafkaLog]) -> None:
    log = make_log(1)
    append_all(log, inputs(100))
    (first,) = processed(log, 1, 100)
    again: Processor[Any] = Processor(open_log(), LifecycleStage())
    again.open()
    assert again.position == first.position
    assert state_hash(again.stage, again.state) == state_hash(first.stage, first.state)
    assert again.accounts.outcomes == first.accounts.outcomes


def kill_once(settings: KafkaSettings, dice: random.Random) -> str:
    """Run the worker and kill it after some steps and some time more; return the last thing that it said."""
    arguments = [settings.bootstrap_servers, settings.topic_prefix, "0", str(dice.choice((20, 50, 120)))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(_HERE / "kafka_worker.py"), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, bufsize=0) as worker:
        assert worker.stdout is not None
        said = b""
        for _ in range(dice.randint(1, 8)):
            line = worker.stdout.readline()
            if not line:
                break
            said = line
        # Not a sleep: how far into the next transaction the blow falls.
        select.select([], [], [], dice.uniform(0, 0.03))
        worker.kill()
        said = (worker.stdout.read() or said).splitlines()[-1] if said else b""
    return said.decode().strip()


def test_five_kills_lose_nothing_and_double_nothing(
    make_log: Callable[[int], KafkaLog], open_log: Callable[[], KafkaLog], settings: KafkaSettings
) -> None:
    given = inputs(200)
    append_all(make_log(1), given)
    dice = random.Random(_SEED)  # noqa: S311  kills are to be random, not secret
    for _ in range(5):
        assert kill_once(settings, dice) in {"opening", "open", "step"}
    log = open_log()
    (processor,) = processed(log, 1, 500)
    assert sum(processor.position.vector) == len(given) == processor.accounts.received
    assert processor.accounts.balanced
    verdict = judge(log, LifecycleStage(), 0)
    assert verdict.differences == []
    assert verdict.inputs == len(given)
    assert (verdict.state, verdict.outcomes) == (state_hash(processor.stage, processor.state), processor.accounts.outcomes)
