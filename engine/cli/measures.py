"""What is measured, and the budgets: each stated here once, with the figure that this release must reach on one core.

A measure gives one value a run; beside it stands a floor measured in the same run: decoding the same bytes, which no
engine that validates its input can go below.
"""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from statistics import median, median_low
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final, Literal

from engine.cli.questions import asked
from engine.cli.years import Year, years
from engine.events import Message, decode
from engine.events.times import SECOND
from engine.kubernetes.edge import Taken, line_to_inputs
from engine.lifecycle.stage import LifecycleStage
from engine.lifecycle.state import ShardState
from engine.log.memory import MemoryLog
from engine.log.port import ShardId, ShardView
from engine.log.sqlite import SqliteLog
from engine.processor.processor import Processor
from engine.processor.recovery import recover
from engine.runtime.collector import set_aside
from engine.simulation.pod_object import full_pod
from engine.simulation.workload import life, lives

__all__ = ["MEASURES", "Budget", "Measured"]

_BEGIN: Final = 1_700_000_000_000_000
_SHARD: Final = ShardId("lifecycle", 0)


@dataclass(frozen=True, slots=True)
class Measured:
    """One run of a measure."""

    value: float
    floor: float | None = None


@dataclass(frozen=True, slots=True)
class Budget:
    """One measure, what it must reach, and how it is taken."""

    name: str
    unit: str
    about: str
    limit: float | None
    """`None`: reported only."""
    sense: Literal["at least", "at most"]
    take: Callable[[], Measured]
    runs: int = 3

    def met(self, value: float) -> bool | None:
        """Tell whether a value is within the budget; `None`: there is none."""
        if self.limit is None:
            return None
        return value >= self.limit if self.sense == "at least" else value <= self.limit


def _rate(count: int, work: Callable[[], object]) -> float:
    began = perf_counter()
    work()
    return count / (perf_counter() - began)


def _decoding(messages: Sequence[Message]) -> float:
    """Return how many of these messages are decoded in a second."""

    def work() -> None:
        for message in messages:
            decode(message)

    return _rate(len(messages), work)


# --- the edge -------------------------------------------------------------------------------------------------------------


def _edge() -> Measured:
    pods = [json.dumps(full_pod(number)).encode() for number in range(4_000)]

    def work() -> None:
        for line in pods:
            taken = line_to_inputs(line, "bench", _BEGIN)
            assert isinstance(taken, Taken)  # noqa: S101 - a benchmark of something else would be worthless

    def floor() -> None:
        from pydantic import TypeAdapter  # noqa: PLC0415 - only the floor needs it

        anything = TypeAdapter(dict[str, Any])
        for line in pods:
            anything.validate_json(line)

    return Measured(_rate(len(pods), work), _rate(len(pods), floor))


# --- observations -----------------------------------------------------------------------------------------------------------


def _run(log: MemoryLog | SqliteLog, pauses: list[float] | None = None) -> Processor[ShardState]:
    """Process what waits in a log as `lahar run` does; note how long each step took."""
    processor = Processor(log, LifecycleStage(), 0)
    processor.open()
    with set_aside() as collector:
        while True:
            began = perf_counter()
            if not processor.step():
                return processor
            collector.tick()
            if pauses is not None:
                pauses.append(perf_counter() - began)


def _workload(jobs: int = 2_500, replicas: int = 4) -> list[Message]:
    return list(lives(range(jobs), replicas, _BEGIN))


def _memory() -> Measured:
    messages = _workload()
    log = MemoryLog()
    log.append("pods", messages)
    return Measured(_rate(len(messages), lambda: _run(log)), _decoding(messages))


def _sqlite() -> Measured:
    messages = _workload()
    with TemporaryDirectory() as directory:
        log = SqliteLog(Path(directory) / "bench.db")

        def work() -> None:
            for start in range(0, len(messages), 500):
                log.append("pods", messages[start : start + 500])
            _run(log)

        rate = _rate(len(messages), work)
        log.close()
    return Measured(rate, _decoding(messages))


def _outputs() -> Measured:
    messages = _workload(500)
    log = MemoryLog()
    log.append("pods", messages)
    return Measured(_run(log).position.shardsequence / len(messages))


def _fold() -> Measured:
    messages = _workload()
    with TemporaryDirectory() as directory:
        log = SqliteLog(Path(directory) / "bench.db")
        log.append("pods", messages)
        _run(log).close()
        view = log.look(_SHARD)
        assert view is not None  # noqa: S101 - the shard was just run
        outputs = [record.message for record in log.scan(("job-events",))]
        bare = ShardView(view.position, [])
        rate = _rate(view.position.shardsequence, lambda: recover(log, LifecycleStage(), _SHARD, bare, 1))
        log.close()
    return Measured(rate, _decoding(outputs))


# --- many jobs, many replicas ---------------------------------------------------------------------------------------------------


def _live(jobs: int, replicas: int) -> MemoryLog:
    """Return a log in which so many jobs run."""
    log = MemoryLog()
    log.append("pods", list(lives(range(jobs), replicas, _BEGIN, until=7)))
    return log


def _heartbeats(jobs: Iterable[int], replicas: int) -> list[Message]:
    """Return the rest of some pods' lives and lives of new ones, as they follow on a log of `_live`."""
    known = list(jobs)
    return [message for job in known for message in lives(range(job, job + 1), replicas, _BEGIN + job * replicas * 1000, first=7)]


def _rate_on(jobs: int, replicas: int, sample: int) -> float:
    """Return the rate of observations of `sample` pods on a shard with so many live jobs."""
    log = _live(jobs, replicas)
    processor = Processor(log, LifecycleStage(), 0)
    processor.open()
    with set_aside() as collector:
        while processor.step():
            collector.tick()
        count = max(sample // replicas, 1)
        step = max(jobs // count, 1)
        messages = _heartbeats(range(0, step * count, step)[: min(count, jobs)], replicas)
        messages += list(lives(range(jobs, jobs + count), replicas, _BEGIN + 3_600_000_000, until=7))
        log.append("pods", messages)
        began = perf_counter()
        while processor.step():
            collector.tick()
        return len(messages) / (perf_counter() - began)


def _many_jobs() -> Measured:
    few = _rate_on(100, 1, 10_000)
    return Measured(_rate_on(100_000, 1, 10_000) / few)


def _many_replicas() -> Measured:
    one = _rate_on(10_000, 1, 10_000)
    return Measured(_rate_on(5, 2_000, 10_000) / one)


def _resident() -> int:
    """Return the process's resident memory in bytes."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _grow(count: int) -> float:
    """Return how much this process grows for each of so many live replicas (bytes)."""
    stage = LifecycleStage()
    gc.collect()
    before = _resident()
    state = stage.initial()
    for number in range(count // 4):
        for message in lives(range(number, number + 1), 4, _BEGIN, until=7):
            for event in stage.decide(state, decode(message), message.recordedtime):
                stage.evolve(state, event)
    stage.touched(state)
    gc.collect()
    return (_resident() - before) / count


def _bytes_per_replica() -> Measured:
    # In a process of its own: what an earlier measure gave back would hide what this one takes.
    with get_context("spawn").Pool(1) as pool:
        return Measured(pool.apply(_grow, (100_000,)))


# --- one observation of a large job ---------------------------------------------------------------------------------------------

_TRICKLED: Final = 60


@cache
def _trickled(replicas: int) -> tuple[float, int]:
    """Return what one observation of a job of so many replicas costs, its snapshot included: seconds, bytes rewritten (medians)."""
    log = MemoryLog()
    log.append("pods", list(lives(range(1), replicas, _BEGIN, until=4)))
    processor = _run(log)
    processor.run_until_quiet()
    seconds, sizes = [], []
    for number in range(_TRICKLED):
        before = _records(log)
        log.append("pods", list(life(0, number * 97 % replicas, _BEGIN + replicas * SECOND, until=5))[4:])
        began = perf_counter()
        processor.run_until_quiet()
        seconds.append(perf_counter() - began)
        sizes.append(sum(len(record) for name, record in _records(log).items() if before.get(name) != record))
    return median(seconds), median_low(sizes)


def _records(log: MemoryLog) -> dict[str, bytes]:
    view = log.look(_SHARD)
    return {} if view is None else dict(view.snapshot())


def _trickle() -> Measured:
    return Measured(_trickled(20_000)[0] / _trickled(100)[0])


def _trickle_bytes() -> Measured:
    return Measured(_trickled(20_000)[1])


# --- years ----------------------------------------------------------------------------------------------------------------------


def _against_the_first(part: Callable[[Year], int]) -> Callable[[], Measured]:
    """Return a measure of the most that a shard held in ten years against the first of them."""

    def measure() -> Measured:
        first, *later = map(part, years(10, _BEGIN))
        return Measured(max(later) / first)

    return measure


# --- restart and pauses -----------------------------------------------------------------------------------------------------------

_HISTORY_JOBS: Final = 120_000


def _history(log: SqliteLog) -> list[float]:
    """Fill a log with finished jobs, three attempts each on the average, and a tail of live ones; return the steps' lengths."""
    pauses: list[float] = []
    chunk = 4_000
    for start in range(0, _HISTORY_JOBS, chunk):
        replicas = (2, 3, 4)[start // chunk % 3]
        log.append("pods", list(lives(range(start, start + chunk), replicas, _BEGIN + start * 1_000)))
        _run(log, pauses).close()
    log.append("pods", list(lives(range(_HISTORY_JOBS, _HISTORY_JOBS + 2_000), 3, _BEGIN + _HISTORY_JOBS * 1_000, until=7)))
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


def _restart() -> Measured:
    return Measured(_restarted()[0])


def _pause() -> Measured:
    return Measured(_restarted()[1] * 1000)


# --- the read model ---------------------------------------------------------------------------------------------------------------


def _following() -> Measured:
    return Measured(asked(_BEGIN).following)


def _listing() -> Measured:
    return Measured(asked(_BEGIN).listing)


def _summary() -> Measured:
    return Measured(asked(_BEGIN).summary)


MEASURES: Final[tuple[Budget, ...]] = (
    Budget("edge-full-pod", "objects/s", "a pod object of 3 KB or more: bytes → encoded observation", 8_000, "at least", _edge),
    Budget("observations-memory", "observations/s", "decode → decide → evolve → encode, memory log", 35_000, "at least", _memory),
    Budget("observations-sqlite", "observations/s", "the same on SQLite, input rows included", 15_000, "at least", _sqlite),
    Budget("outputs-per-observation", "events", "of that workload, ten observations a life", None, "at least", _outputs, 1),
    Budget("fold", "events/s", "recovery without a snapshot: read → decode → evolve", 120_000, "at least", _fold),
    Budget("restart-120k-jobs", "s", "120,000 finished jobs and a tail: open → ready", 5, "at most", _restart, 1),
    Budget(
        "longest-pause",
        "ms",
        "longest step of a run over 120,000 jobs (batch, commit, snapshot, collector)",
        100,
        "at most",
        _pause,
        1,
    ),
    Budget("bytes-per-live-replica", "B", "resident memory of 100,000 live replicas", 1_536, "at most", _bytes_per_replica, 1),
    Budget("100k-jobs-vs-100", "ratio", "throughput with 100,000 live jobs against 100", 0.8, "at least", _many_jobs),
    Budget("trickle-20000-vs-100", "ratio", "one observation of a job of 20,000 replicas against 100", 2, "at most", _trickle, 1),
    Budget("trickle-bytes", "B", "snapshot rewritten by one observation of 20,000 replicas", 32_768, "at most", _trickle_bytes, 1),
    Budget(
        "ten-years-snapshot",
        "ratio",
        "snapshot of a shard in ten simulated years against the first of them",
        1.1,
        "at most",
        _against_the_first(lambda year: year.snapshot),
        1,
    ),
    Budget(
        "ten-years-memory",
        "ratio",
        "memory of its state, the same",
        1.1,
        "at most",
        _against_the_first(lambda year: year.memory),
        1,
    ),
    Budget(
        "ten-years-file",
        "ratio",
        "growth of its file in a year, which is the history's, the same",
        1.1,
        "at most",
        _against_the_first(lambda year: year.file),
        1,
    ),
    Budget("listing", "s", "`job list --phase` over 1,000,000 observations of 100,000 jobs", 0.3, "at most", _listing, 1),
    Budget("summary", "s", "`summary` of the same", 1, "at most", _summary, 1),
    Budget("following", "of a core", "following the same at a worker's 4,000 observations/s", 0.1, "at most", _following, 1),
    Budget("2000-replicas-vs-1", "ratio", "throughput with 2,000 replicas a job against 1", 0.8, "at least", _many_replicas),
)
