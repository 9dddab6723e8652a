"""The clocks of workers step by an hour, forward and back: (j)."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from chaos_feed import Given, workload
from chaos_table import EVENTS, Row
from chaos_timers import Timers
from chaos_world import World

from engine.events import Message

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
    timers = Timers(here.log)
    timers.look()
    assert (max(timers.fired.values()), max(timers.cancelled.values()), timers.wrong) == (1, 1, 0)
    assert timers.left(now + _HOUR) == []
    assert sum(timers.fired.values()) > EVENTS // 1_000
