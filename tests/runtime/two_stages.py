"""Two stages on one log, whatever log it is: what they are given, what is left to them, and whether they have decided rightly."""

from __future__ import annotations

from typing import Final

from oracle import judge
from second_stage import SecondStage

from engine.events import Message, Topic
from engine.lifecycle.stage import LifecycleStage
from engine.log.port import Log, ShardId
from engine.processor.partitions import input_partitions, shard_count
from engine.processor.processor import Processor
from engine.processor.snapshots import state_hash
from engine.runtime.engine import Engine
from engine.runtime.settings import Settings

BOTH: Final = (LifecycleStage(), SecondStage())
TOPICS: Final[tuple[Topic, ...]] = ("cluster", "jobs", "pods", "job-events", "scheduling", "dead-letters")


def append(log: Log, parts: list[tuple[Topic, Message]]) -> None:
    """Append inputs, topic by topic."""
    for topic in dict.fromkeys(topic for topic, _ in parts):
        log.append(topic, [message for found, message in parts if found == topic])


def waits(log: Log) -> bool:
    """Tell whether a shard has inputs left."""
    for stage in BOTH:
        for number in range(shard_count(log, stage)):
            partitions, view = input_partitions(log, stage, number), log.look(ShardId(stage.name, number))
            taken = view.position.vector if view is not None else (0,) * len(partitions)
            if any(log.read(partition, offset, 1) for partition, offset in zip(partitions, taken, strict=True)):
                return True
    return False


def take_the_rest(log: Log) -> None:
    """Let both stages take what is left.

    The times of all timers are past by the clock of workers, who let them fire once no input has come for a while. What they say
    while the workers are told to end, the other stage may not have seen.
    """
    engine = Engine.of(log, BOTH, Settings(log="memory:"))
    engine.run_until_quiet()
    engine.close()


def must_be_decided_rightly(log: Log) -> None:
    """Decide all shards again; what they have written, the states that they recover and their accounts must be the same."""
    for stage in BOTH:
        for number in range(shard_count(log, stage)):
            verdict = judge(log, stage, number)
            assert not verdict.differences, verdict.differences
            processor = Processor(log, stage, number)
            processor.open()
            assert processor.accounts.balanced
            assert (state_hash(stage, processor.state), processor.accounts.outcomes) == (verdict.state, verdict.outcomes)
            processor.close()
