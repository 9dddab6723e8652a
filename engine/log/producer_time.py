"""The recorded time of an input, which its producer stamps and the log bounds.

A shard's time is that of the latest input and never falls. One input from a producer whose clock is ahead would fire every job's
timers early, and delay timers set after it. So every log caps producer timestamps at one second past append time.
"""

from __future__ import annotations

import time
from typing import Final

from engine.events import Message

__all__ = ["AHEAD", "capped", "wall_clock"]

AHEAD: Final = 1_000_000
"""By how much a producer's clock may be ahead of the log's (microseconds)."""


def capped(message: Message, appended: int) -> Message:
    """Return an input as it counts: recorded at most `AHEAD` past the moment at which it was appended (microseconds)."""
    latest = appended + AHEAD
    return message if message.recordedtime <= latest else message._replace(recordedtime=latest)


def wall_clock() -> int:
    """Return the time of the wall clock (microseconds)."""
    return time.time_ns() // 1000
