"""Outputs that are too large for the log: their input is set aside with its origin and a digest, and the shard goes on."""

from __future__ import annotations

import random
from collections.abc import Generator
from hashlib import sha256
from typing import Any

import pytest
from counting_stage import CountingStage, Shard, custom, node
from hypothesis import given
from hypothesis import strategies as st

from engine.events import Data, Event, Topic, decode
from engine.events.actions import EventRaised
from engine.events.outcomes import Accounted, DeadLettered, JobParked
from engine.log.memory import MemoryLog
from engine.log.port import Partition, Position
from engine.processor.dead_letters import original
from engine.processor.processor import Processor
from engine.processor.snapshots import state_hash
from engine.processor.stage import Decision

LIMIT = 1_000


class Echoing(CountingStage):
    """Says `echo` ten times as long as it was asked to; its timers do so too while a node `loud` is there."""

    def _act(self, make: Any, state: Shard, event: Event[Any], now: int) -> Decision:
        if event.data.event != "echo":
            return (yield from super()._act(make, state, event, now))
        yield make(EventRaised("first"))
        yield make(EventRaised("echo", data={"text": event.data.data["text"] * 10}))
        return "applied"

    def fire(self, state: Shard, now: int, error: str | None = None) -> Generator[Event[Data], None, None]:
        for event in super().fire(state, now, error):
            loud = isinstance(event.data, EventRaised) and "loud" in state.nodes
            yield Event(**{**_fields(event), "data": EventRaised("rang", data={"text": "x" * LIMIT})}) if loud else event


def _fields(event: Event[Any]) -> dict[str, Any]:
    return {name: getattr(event, name) for name in Event.__slots__}


def told(log: MemoryLog, topic: Topic = "job-events") -> list[Event[Any]]:
    found = [decode(record.message) for record in log.read(Partition(topic, 0), 0, 100_000)]
    return [event for event in found if not isinstance(event.data, Accounted)]


def said(log: MemoryLog) -> list[tuple[str, str]]:
    return [
        (event.subject, event.data.event if isinstance(event.data, EventRaised) else type(event.data).__name__)
        for event in told(log)
    ]


def processed(log: MemoryLog, **options: Any) -> Processor[Shard]:
    processor = Processor(log, Echoing(), **options)
    processor.open()
    processor.run_until_quiet()
    assert processor.accounts.balanced
    return processor


def test_an_input_with_too_large_an_output_is_set_aside_with_its_origin() -> None:
    log = MemoryLog(1, largest=LIMIT)
    large = custom("a", 2, "echo", at=2, text="x" * 200)
    log.append("pods", [custom("a", 1, "add", at=1), large, custom("a", 3, "add", at=3), custom("b", 4, "echo", at=4, text="y")])
    processor = processed(log)
    assert said(log) == [("a", "added"), ("a", "added"), ("b", "first"), ("b", "echo")]
    (letter,) = told(log, "dead-letters")
    assert letter.data == DeadLettered(letter.data.reason, "pods", 0, 1, "a", "", digest=sha256(large.data).hexdigest())
    assert "the log takes 1000" in letter.data.reason
    assert letter.causationid == large.id
    assert processor.committed["dead"] == 1
    with pytest.raises(ValueError, match="pods/0 1 was too large"):
        original(letter.data)


def test_a_dead_letter_that_is_itself_too_large_keeps_a_digest() -> None:
    whole = MemoryLog(1)
    log = MemoryLog(1, largest=3 * LIMIT)
    large = custom("k" * 650, 1, "add", at=1)._replace(data=b"no json" * 40)
    for found in (whole, log):
        found.append("pods", [large, custom("b", 2, "add", at=2)])
        processed(found)
    assert (told(whole, "dead-letters")[0].data.digest, len(told(whole, "dead-letters")[0].data.key)) == ("", 650)
    (letter,) = told(log, "dead-letters")
    assert (letter.data.digest, len(letter.data.key)) == (sha256(large.data).hexdigest(), 200)
    assert said(log) == said(whole) == [("b", "added")]


def test_several_of_a_batch_are_set_aside_without_traces_of_attempts() -> None:
    log, without = MemoryLog(1, largest=LIMIT), MemoryLog(1)
    dice = random.Random(7)  # noqa: S311  a workload, not a secret
    given = [custom("abc"[number % 3], number, "add", at=number) for number in range(60)]
    large = [custom("abc"[number % 3], 100 + number, "echo", at=60, text="x" * 900) for number in range(7)]
    for message in large:
        given.insert(dice.randrange(len(given)), message)
    log.append("pods", given)
    without.append("pods", [message for message in given if message not in large])
    mine, other = processed(log, batch=50), processed(without)
    assert [event.id for event in told(log)] == [event.id for event in told(without)]
    assert len(told(log, "dead-letters")) == 7
    assert state_hash(mine.stage, mine.state) == state_hash(other.stage, other.state)


def test_a_timer_of_which_even_the_parking_is_too_large_is_dropped() -> None:
    class Wordy(Echoing):
        def fire(self, state: Shard, now: int, error: str | None = None) -> Generator[Event[Data], None, None]:
            return super().fire(state, now, None if error is None else error * LIMIT)

    log = MemoryLog(1, largest=LIMIT)
    log.append("cluster", [node("loud", 1, 1, at=1)])
    log.append("pods", [custom("a", 1, "timer", at=1, delays=[10]), custom("b", 2, "add", at=51)])
    processor = Processor(log, Wordy())
    processor.open()
    processor.run_until_quiet()
    assert said(log) == [("a", "TimerSet"), ("a", "TimerFired"), ("a", "dropped"), ("b", "added")]
    assert processor.accounts.balanced


def test_a_timer_that_says_too_much_parks_its_job_and_the_rest_goes_on() -> None:
    log = MemoryLog(1, largest=LIMIT)
    log.append("cluster", [node("loud", 1, 1, at=1)])
    log.append("pods", [custom("a", 1, "timer", at=1, delays=[10]), custom("b", 2, "echo", at=50, text="x" * 900)])
    log.append("pods", [custom("b", 3, "add", at=51)])
    processor = processed(log)
    assert said(log) == [("a", "TimerSet"), ("a", "TimerFired"), ("a", "JobParked"), ("b", "added")]
    (parked,) = [event.data for event in told(log) if isinstance(event.data, JobParked)]
    assert "the log takes 1000" in parked.error
    assert (processor.timer_due, processor.committed["dead"]) == (None, 1)


def test_an_input_too_large_to_be_kept_for_a_parked_job_is_set_aside() -> None:
    log = MemoryLog(1, largest=LIMIT)
    log.append("pods", [custom("a", 1, "fail", at=1), custom("a", 2, "echo", at=2, text="x" * 900), custom("a", 3, "add", at=3)])
    processed(log)
    assert said(log)[:2] == [("a", "JobParked"), ("a", "InputParked")]
    (letter,) = told(log, "dead-letters")
    assert (letter.data.topic, letter.data.offset) == ("pods", 1)


def test_a_shard_opened_again_stands_where_it_stood() -> None:
    log = MemoryLog(1, largest=LIMIT)
    log.append("pods", [custom("a", number, "echo", at=number, text="x" * (number * 20)) for number in range(20)])
    first = processed(log, batch=3)
    again = processed(log)
    assert again.position == first.position != Position((0, 0, 0))
    assert again.accounts.outcomes == first.accounts.outcomes
    assert state_hash(again.stage, again.state) == state_hash(first.stage, first.state)


@given(st.lists(st.tuples(st.sampled_from(("add", "echo", "timer", "fail")), st.integers(0, 150)), max_size=25), st.integers(1, 9))
def test_how_inputs_fall_into_commits_changes_nothing(asked: list[tuple[str, int]], batch: int) -> None:
    messages = [
        custom("ab"[place % 2], place, what, at=place * 10, text="x" * size, delays=[size])
        for place, (what, size) in enumerate(asked)
    ]
    logs = [MemoryLog(1, largest=LIMIT) for _ in range(2)]
    for log, size in zip(logs, (batch, 500), strict=True):
        log.append("cluster", [node("loud", 1, 1, at=0)])
        log.append("pods", messages)
        processed(log, batch=size)
    assert told(logs[0]) == told(logs[1])
    assert told(logs[0], "dead-letters") == told(logs[1], "dead-letters")
