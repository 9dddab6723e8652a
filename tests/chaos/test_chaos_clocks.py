"""The clocks of workers step by an hour, forward and back: (j)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from chaos_feed import Given, workload
from chaos_table import Row
from chaos_world import EVENTS, SHARDS, World

from engine.events import Message, decode
from engine.events.jobs import TimerCancelled, TimerFired, TimerSet
from engine.log.port import Partition, ShardId
from streams.log import KafkaLog

pytestmark = pytest.mark.chaos

Make = Callable[..., World]
Note = Callable[[Row], None]

_HOUR = 3_600_000_000


def until_now(given: tuple[Given, ...], end: int) -> list[Given]:
    """Let inputs be of late, the last one of a given time: timers that they set are due soon."""
    messages = [message for _, message in given if isinstance(message, Message)]
    shift = end - max(message.recordedtime for message in messages)
    return [
        (topic, message._replace(time=message.time + shift, recordedtime=message.recordedtime + shift))
        for (topic, _), message in zip(given, messages, strict=True)
    ]


def timers(log: KafkaLog) -> tuple[dict[str, int], Counter[str], Counter[str], int]:
    """Return all timers with their times, how often each was cancelled and fired, and how many fired after they were cancelled."""
    due: dict[str, int] = {}
    cancelled: Counter[str] = Counter()
    fired: Counter[str] = Counter()
    wrong = 0
    for number in range(SHARDS):
        start = 0
        while records := log.read(Partition("job-events", number), start, 5_000):
            start = records[-1].offset + 1
            for record in records:
                if not record.message.type.startswith("lahar.timer."):
                    continue
                event = decode(record.message)
                if isinstance(event.data, TimerSet):
                    due[event.id] = event.data.due
                elif isinstance(event.data, TimerCancelled):
                    cancelled[event.data.id] += 1
                elif isinstance(event.data, TimerFired):
                    fired[event.data.id] += 1
                    wrong += bool(cancelled[event.data.id])
    return due, cancelled, fired, wrong


def test_j_the_clocks_of_workers_step_by_an_hour(world: Make, note: Note, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = tmp_path / "clock"
    clock.write_text("0")
    monkeypatch.setenv("LAHAR_CHAOS_CLOCK", str(clock))
    now = time.time_ns() // 1_000
    here = world("(j) clock steps of an hour", seed=20_170_811, given=until_now(workload(EVENTS), now))
    program = [str(Path(__file__).with_name("stepped_worker.py"))]
    for number in range(2):
        here.fleet.add(f"w{number}", "--ordinal", str(number), "--workers", "2", program=program)
    steps = [_HOUR, 0, -_HOUR, 0, _HOUR, -_HOUR, _HOUR, 0]
    for number, step in enumerate(steps, 1):
        # At rest, so that timers fire by the clock, not by what is recorded.
        here.feeder.allow(number / (len(steps) + 1))
        here.until(lambda: here.feeder.is_at_limit and not here.waiting(), "all so far is taken")
        clock.write_text(str(step))
        if number % 3 == 0:
            victim = here.dice.choice(here.fleet.workers)
            victim.kill()
            victim.start()
        here.until_quiet()
    here.feeder.allow(1)
    here.until_all()
    clock.write_text(str(_HOUR))
    here.until_quiet()
    here.finish(note, f"{len(steps) + 1} steps of ± 1 h, 2 kills", clock=now + _HOUR)
    due, cancelled, fired, wrong = timers(here.log)
    assert (max(fired.values()), max(cancelled.values()), wrong) == (1, 1, 0)
    reached = [here.log.look(ShardId("lifecycle", number)) for number in range(SHARDS)]
    # By the last step all that is due within half an hour has fired, in every shard.
    assert all(view is not None for view in reached)
    lost = [timer for timer, at in due.items() if at <= now + _HOUR // 2 and not fired[timer] and not cancelled[timer]]
    assert lost == []
    assert sum(fired.values()) > EVENTS // 1_000
