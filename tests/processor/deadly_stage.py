"""A stage in which processes end, and a process that runs it.

Usage: python deadly_stage.py FILE SECONDS; SECONDS is what a decision may take.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Generator
from typing import Any

from counting_stage import CountingStage, Shard, custom

from engine.events import Data, Event, Message
from engine.log.port import Log
from engine.log.sqlite import SqliteLog
from engine.processor.processor import Processor
from engine.processor.stage import Decision
from engine.processor.watchdog import Watchdog

EXIT = 9
INNOCENTS = 60


def end(way: str) -> None:
    """Let this process die, or never get any further."""
    match way:
        case "exit":
            os._exit(EXIT)
        case "loop":
            while True:
                pass
        case "hold":  # a loop in C, which lets no other thread have the interpreter
            re.match("^(a+)+$", "a" * 64 + "!")


class DeadlyStage(CountingStage):
    def decide(self, state: Shard, event: Event[Any], now: int) -> Decision:
        counter = state.counters.get(event.subject)
        if counter is None or not counter.parked:
            end(event.data.event)
        return (yield from super().decide(state, event, now))

    def park(self, state: Shard, event: Event[Any], now: int, error: str) -> Decision:
        if event.data.data.get("unparkable"):
            end(event.data.event)
        return (yield from super().park(state, event, now, error))

    def fire(self, state: Shard, now: int, error: str | None = None) -> Generator[Event[Data], None, None]:
        _, _, key = state.heap[0]
        if error is None:
            end(key)
        yield from super().fire(state, now, error)


def deadly(way: str, **data: Any) -> list[Message]:
    """Inputs of many keys; in one of those of `victim` processes end."""
    given = [custom(f"key{number % 9}", number, "add", at=number) for number in range(INNOCENTS)]
    given.insert(40, custom("victim", 1, "add", at=40))
    given.insert(41, custom("victim", 2, way, at=40, **data))
    return [*given, custom("victim", 3, "add", at=INNOCENTS)]


def work(log: Log, seconds: float) -> None:
    """Process what waits."""
    logging.basicConfig(format="%(message)s")
    with Watchdog(seconds) as watchdog:
        processor = Processor(log, DeadlyStage(), batch=50, watchdog=watchdog)
        processor.open()
        processor.run_until_quiet()
        processor.close()
    log.close()


if __name__ == "__main__":
    work(SqliteLog(sys.argv[1]), float(sys.argv[2]))
