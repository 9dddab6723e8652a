"""A shard with the history of 120,000 jobs: how soon it is open, and its longest pause while that history came about."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final

from measures import Measured
from workload import BEGIN, lives, run

from engine.lifecycle.stage import LifecycleStage
from engine.log.sqlite import SqliteLog
from engine.processor.processor import Processor

_HISTORY_JOBS: Final = 120_000


def _history(log: SqliteLog) -> list[float]:
    """Fill a log with finished jobs, three attempts each on the average, and a tail of live ones; return the steps' lengths."""
    pauses: list[float] = []
    chunk = 4_000
    for start in range(0, _HISTORY_JOBS, chunk):
        replicas = (2, 3, 4)[start // chunk % 3]
        log.append("pods", list(lives(range(start, start + chunk), replicas, BEGIN + start * 1_000)))
        run(log, pauses).close()
    log.append("pods", list(lives(range(_HISTORY_JOBS, _HISTORY_JOBS + 2_000), 3, BEGIN + _HISTORY_JOBS * 1_000, until=7)))
    processor = Processor(log, LifecycleStage(), 0)
    processor.open()
    while processor.step():
        pass
    processor.close()
    return pauses


@cache
def _restarted() -> tuple[float, float]:
    """Return how long a shard with that history takes to open, and the longest step while it came about (seconds)."""
    with TemporaryDirectory() as directory:
        log = SqliteLog(Path(directory) / "bench.db")
        pauses = _history(log)
        processor = Processor(log, LifecycleStage(), 0)
        began = perf_counter()
        processor.open()
        seconds = perf_counter() - began
        processor.close()
        log.close()
    return seconds, max(pauses)


def restart() -> Measured:
    """Return how long that shard takes to open (seconds)."""
    return Measured(_restarted()[0])


def pause() -> Measured:
    """Return its longest step (milliseconds)."""
    return Measured(_restarted()[1] * 1000)
