"""What scheduling counts, for metrics."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nlargest
from typing import Literal

from engine.scheduling.state import State

__all__ = ["figures"]

_QUEUES = 100
"""Queues shown by name; anybody can name one that does not exist."""

_Figure = tuple[str, str, Literal["counter", "gauge"], tuple[tuple[str, str], ...], float]


def figures(state: State) -> Iterator[_Figure]:
    """Yield what is counted, by cluster (`engine.processor.stage.Figure`)."""
    for cluster in state.clusters.values():
        of = ("cluster", cluster.id)
        yield "scheduling_rounds", "Rounds of scheduling.", "counter", (of,), cluster.rounds
        for kind, count in cluster.counts.items():
            yield "scheduling_decided", "Jobs enqueued; attempts bound, pipelined, evicted.", "counter", (of, ("kind", kind)), count
        for reason, count in cluster.refused.items():
            yield "scheduling_refused", "Decisions that lifecycle refused.", "counter", (of, ("reason", reason)), count
        yield "scheduling_lost", "Decisions that were not answered in time.", "counter", (of,), cluster.lost
        shown = nlargest(_QUEUES, cluster.pending.items(), key=lambda found: found[1])
        for queue, count in shown:
            yield "scheduling_pending_jobs", "Jobs that wait, by queue.", "gauge", (of, ("queue", queue)), count
