"""Cap on the recorded time that a producer stamps on an input.

A shard's time is the latest recorded time of its inputs and never falls. One input from a producer whose clock is ahead would fire
the timers of every job early and delay later ones. So every log caps recorded times at one second past append time.
"""

from __future__ import annotations

import time
from typing import Final

from engine.events import Message

AHEAD: Final = 1_000_000
"""Time that a producer's clock may be ahead of the log's (microseconds)."""


def capped(message: Message, appended: int) -> Message:
    """Return an input with its recorded time capped at `AHEAD` past its append time (microseconds)."""
    latest = appended + AHEAD
    return message if message.recordedtime <= latest else message._replace(recordedtime=latest)


def wall_clock() -> int:
    """Return the time of the wall clock (microseconds)."""
    return time.time_ns() // 1000
