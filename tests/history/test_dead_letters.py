"""Dead letters: what is listed, and how it is put in again."""

from __future__ import annotations

import json

import pytest

from engine.events import raw_message
from engine.history.dead_letters import dead_letters
from engine.history.redrive import redriven
from engine.kubernetes.edge import line_to_inputs
from engine.lifecycle.stage import LifecycleStage
from engine.log.memory import MemoryLog
from engine.processor.processor import Processor

SHARDS = 3
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "uid": "u1", "resourceVersion": "1"}}


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog(SHARDS)


def quiet(log: MemoryLog) -> None:
    for number in range(SHARDS):
        processor = Processor(log, LifecycleStage(), number)
        processor.open()
        processor.run_until_quiet()


def test_what_all_shards_set_aside_is_listed_once(log: MemoryLog) -> None:
    """Each shard says so with an id of its own, but it is one record."""
    log.append("cluster", [raw_message("c", b"\xff", 1), raw_message("c", b"\xfe", 2)])
    log.append("pods", [raw_message(key, b"\xff", 3) for key in "abcdef"])
    quiet(log)
    written = list(log.scan(("dead-letters",)))
    assert len(written) == len({record.message.id for record in written}) == 2 * SHARDS + 6
    listed = [(event.data.topic, event.data.key) for event in dead_letters(log)]
    assert sorted(listed) == [("cluster", "c")] * 2 + [("pods", key) for key in "abcdef"]


def test_letter_comes_back_as_it_was_taken(log: MemoryLog) -> None:
    sent = raw_message("job", b"\x00 garbage", 5)
    log.append("pods", [sent])
    quiet(log)
    assert [redriven(event) for event in dead_letters(log)] == [[("pods", [sent])]]


def test_what_the_edge_refused_goes_through_the_edge_again(log: MemoryLog) -> None:
    """Its bytes stand in the log whole, so a release that reads more of them makes inputs of them."""
    line = json.dumps(NODE).encode()
    log.append("pods", [raw_message("job", line, 5, fault="line 1: not understood", cluster="prod")])
    quiet(log)
    (letter,) = dead_letters(log)
    taken = line_to_inputs(line, "prod", 5)
    assert [(topic, list(messages)) for topic, messages in redriven(letter)] == [(taken.topic, list(taken.messages))]
    log.append(*redriven(letter)[0])
    quiet(log)
    assert len(list(dead_letters(log))) == 1
