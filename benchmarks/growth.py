"""What more jobs and more replicas of one job cost: time of an observation, memory, bytes of the snapshot rewritten."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterable
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from statistics import median, median_low
from time import perf_counter
from typing import Final

from measures import Measured
from workload import BEGIN, SHARD, life, lives, run

from engine.events import Message, decode
from engine.events.times import SECOND
from engine.lifecycle.stage import LifecycleStage
from engine.log.memory import MemoryLog
from engine.processor.processor import Processor
from engine.runtime.gc_control import freeze_live_objects

_TRICKLED: Final = 60


def _live(jobs: int, replicas: int) -> MemoryLog:
    """Return a log in which so many jobs run."""
    log = MemoryLog()
    log.append("pods", list(lives(range(jobs), replicas, BEGIN, until=7)))
    return log


def _heartbeats(jobs: Iterable[int], replicas: int) -> list[Message]:
    """Return the rest of some pods' lives and lives of new ones, as they follow on a log of `_live`."""
    known = list(jobs)
    return [message for job in known for message in lives(range(job, job + 1), replicas, BEGIN + job * replicas * 1000, first=7)]


def _rate_on(jobs: int, replicas: int, sample: int) -> float:
    """Return the rate of observations of `sample` pods on a shard with so many live jobs."""
    log = _live(jobs, replicas)
    processor = Processor(log, LifecycleStage(), 0)
    processor.open()
    with freeze_live_objects() as collector:
        while processor.step():
            collector.tick()
        count = max(sample // replicas, 1)
        step = max(jobs // count, 1)
        messages = _heartbeats(range(0, step * count, step)[: min(count, jobs)], replicas)
        messages += list(lives(range(jobs, jobs + count), replicas, BEGIN + 3_600_000_000, until=7))
        log.append("pods", messages)
        began = perf_counter()
        while processor.step():
            collector.tick()
        return len(messages) / (perf_counter() - began)


def many_jobs() -> Measured:
    """Return the rate with 100,000 live jobs against that with 100."""
    few = _rate_on(100, 1, 10_000)
    return Measured(_rate_on(100_000, 1, 10_000) / few)


def many_replicas() -> Measured:
    """Return the rate with 2,000 replicas a job against that with one."""
    one = _rate_on(10_000, 1, 10_000)
    return Measured(_rate_on(5, 2_000, 10_000) / one)


def resident() -> int:
    """Return the process's resident memory in bytes."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _grow(count: int) -> float:
    """Return how much this process grows for each of so many live replicas (bytes)."""
    stage = LifecycleStage()
    gc.collect()
    before = resident()
    state = stage.initial()
    for number in range(count // 4):
        for message in lives(range(number, number + 1), 4, BEGIN, until=7):
            for event in stage.decide(state, decode(message), message.recordedtime):
                stage.evolve(state, event)
    stage.touched(state)
    gc.collect()
    return (resident() - before) / count


def bytes_per_replica() -> Measured:
    """Return what a live replica takes of this machine's memory (bytes)."""
    # In a process of its own: what an earlier measure gave back would hide what this one takes.
    with get_context("spawn").Pool(1) as pool:
        return Measured(pool.apply(_grow, (100_000,)))


@cache
def _trickled(replicas: int) -> tuple[float, int]:
    """Return what one observation of a job of so many replicas costs, its snapshot included: seconds, bytes rewritten (medians)."""
    log = MemoryLog()
    log.append("pods", list(lives(range(1), replicas, BEGIN, until=4)))
    processor = run(log)
    processor.run_until_quiet()
    seconds, sizes = [], []
    for number in range(_TRICKLED):
        before = _records(log)
        log.append("pods", list(life(0, number * 97 % replicas, BEGIN + replicas * SECOND, until=5))[4:])
        began = perf_counter()
        processor.run_until_quiet()
        seconds.append(perf_counter() - began)
        sizes.append(sum(len(record) for name, record in _records(log).items() if before.get(name) != record))
    return median(seconds), median_low(sizes)


def _records(log: MemoryLog) -> dict[str, bytes]:
    view = log.look(SHARD)
    return {} if view is None else dict(view.snapshot())


def trickle() -> Measured:
    """Return what one observation of a job of 20,000 replicas costs against one of 100."""
    return Measured(_trickled(20_000)[0] / _trickled(100)[0])


def trickle_bytes() -> Measured:
    """Return how much of the snapshot that observation rewrites (bytes)."""
    return Measured(_trickled(20_000)[1])
