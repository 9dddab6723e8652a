"""What questions about all jobs cost: a log of 1,000,000 observations, followed by a projection and asked."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Final, NamedTuple

from workload import lives

from engine.exact_numbers import dumps
from engine.history.listing import Filter
from engine.lifecycle.stage import LifecycleStage
from engine.log.port import Partition
from engine.log.sqlite import SqliteLog
from engine.processor.processor import Processor
from engine.projection.job_tables import JobTables
from engine.projection.projection import Projection

_JOBS: Final = 100_000
"""Of one replica each, ten observations a life."""
_CHUNK: Final = 4_000
_WORKER_RATE: Final = 4_000
"""Observations that one worker must hold in a second."""


class Asked(NamedTuple):
    """What it costs (seconds)."""

    following: float
    """Of a core, for each second of a worker at its rate."""
    listing: float
    """The list of the jobs in one phase."""
    summary: float


@cache
def asked(begin: int) -> Asked:
    """Return what a projection costs.

    Args:
        begin: time of the first observation (microseconds).
    """
    with TemporaryDirectory() as directory:
        log = SqliteLog(Path(directory) / "bench.db")
        for start in range(0, _JOBS, _CHUNK):
            log.append("pods", list(lives(range(start, start + _CHUNK), 1, begin + start * 1_000)))
            processor = Processor(log, LifecycleStage(), 0)
            processor.open()
            processor.run_until_quiet()
            processor.close()
        place = Path(directory) / "bench.db-projection"
        began = process_time()
        with Projection(place) as projection:
            while projection.follow(log):
                pass
        following = (process_time() - began) / (log.end(Partition("pods", 0)) / _WORKER_RATE)
        listing = _seconds(log, place, lambda jobs: jobs.lines(Filter(phases=frozenset({"Failed"}))))
        summary = _seconds(log, place, lambda jobs: dumps(jobs.summary()))
        log.close()
    return Asked(following, listing, summary)


def _seconds(log: SqliteLog, place: Path, question: Callable[[JobTables], object]) -> float:
    """Return how long a question takes in a process that has asked nothing before."""
    began = perf_counter()
    with Projection(place) as projection:
        projection.ask(log, JobTables, question)
    return perf_counter() - began
