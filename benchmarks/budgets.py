"""What `lahar bench` measures, and the budgets: each stated here once, with the figure that this release must reach on one core."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import billing
from growth import bytes_per_replica, many_jobs, many_replicas, trickle, trickle_bytes
from measures import Budget, Measured
from questions import asked
from restart import pause, restart
from throughput import edge, fold, memory, outputs, sqlite
from workload import BEGIN
from years import Year, years


def _against_the_first(part: Callable[[Year], int]) -> Callable[[], Measured]:
    """Return a measure of the most that a shard held in ten years against the first of them."""

    def measure() -> Measured:
        first, *later = map(part, years(10, BEGIN))
        return Measured(max(later) / first)

    return measure


def _following() -> Measured:
    return Measured(asked(BEGIN).following)


def _listing() -> Measured:
    return Measured(asked(BEGIN).listing)


def _summary() -> Measured:
    return Measured(asked(BEGIN).summary)


MEASURES: Final[tuple[Budget, ...]] = (
    Budget("edge-full-pod", "objects/s", "a pod object of 3 KB or more: bytes → encoded observation", 8_000, "at least", edge),
    Budget("observations-memory", "observations/s", "decode → decide → evolve → encode, memory log", 35_000, "at least", memory),
    Budget("observations-sqlite", "observations/s", "the same on SQLite, input rows included", 15_000, "at least", sqlite),
    Budget("outputs-per-observation", "events", "of that workload, ten observations a life", None, "at least", outputs, 1),
    Budget("fold", "events/s", "recovery without a snapshot: read → decode → evolve", 120_000, "at least", fold),
    Budget("restart-120k-jobs", "s", "120,000 finished jobs and a tail: open → ready", 5, "at most", restart, 1),
    Budget(
        "longest-pause",
        "ms",
        "longest step of a run over 120,000 jobs (batch, commit, snapshot, collector)",
        100,
        "at most",
        pause,
        1,
    ),
    Budget("bytes-per-live-replica", "B", "resident memory of 100,000 live replicas", 1_536, "at most", bytes_per_replica, 1),
    Budget("100k-jobs-vs-100", "ratio", "throughput with 100,000 live jobs against 100", 0.8, "at least", many_jobs),
    Budget("trickle-20000-vs-100", "ratio", "one observation of a job of 20,000 replicas against 100", 2, "at most", trickle, 1),
    Budget("trickle-bytes", "B", "snapshot rewritten by one observation of 20,000 replicas", 32_768, "at most", trickle_bytes, 1),
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
    Budget("2000-replicas-vs-1", "ratio", "throughput with 2,000 replicas a job against 1", 0.8, "at least", many_replicas),
    *billing.MEASURES,
)
