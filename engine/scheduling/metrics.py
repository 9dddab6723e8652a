"""Metrics of scheduling."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nlargest, nsmallest
from operator import itemgetter
from typing import Literal

from engine.events.times import SECOND
from engine.scheduling.state.shard import State

_ENDS = ("executed", "withdrawn", "bound", "expired", "void")
"""Ends of notices of preemption, and of the reservations of executed ones."""
_QUEUES = 100
"""Greatest number of queues with a label; a tenant can name queues that do not exist."""

_Metric = tuple[str, str, Literal["counter", "gauge"], tuple[tuple[str, str], ...], float]


def metrics(state: State) -> Iterator[_Metric]:
    """Yield the counters by cluster (`engine.processor.stage.Figure`)."""
    for cluster in state.clusters.values():
        of = ("cluster", cluster.id)
        yield "scheduling_rounds", "Rounds of scheduling.", "counter", (of,), cluster.rounds
        for action, seconds in cluster.scheduler.seconds.items():
            yield "scheduling_action_seconds", "What rounds took, by action.", "counter", (of, ("action", action)), seconds
        for kind, count in cluster.counts.items():
            yield "scheduling_decided", "Jobs enqueued; attempts bound, pipelined, evicted.", "counter", (of, ("kind", kind)), count
        for reason, count in cluster.refused.items():
            yield "scheduling_refused", "Decisions that lifecycle refused.", "counter", (of, ("reason", reason)), count
        open_notices = sum(notice.reserved is None for notice in cluster.model.notices.values())
        yield "scheduling_open_notices", "Notices of preemption that are open.", "gauge", (of,), open_notices
        for end in _ENDS:
            ended = cluster.notices.get(end, 0)
            yield (
                "scheduling_notices",
                "Notices of preemption and reservations, by their end.",
                "counter",
                (of, ("end", end)),
                ended,
            )
        yield "scheduling_late", "Decisions that were not answered in time.", "counter", (of,), cluster.late
        if not cluster.jobs:  # the last pending job is gone, and no round follows
            continue
        for queue, count in nlargest(_QUEUES, cluster.pending.items(), key=itemgetter(1)):
            yield "scheduling_pending_jobs", "Jobs that wait, by queue.", "gauge", (of, ("queue", queue)), count
        name, text = "scheduling_oldest_pending_timestamp_seconds", "When the first submitted of them was submitted."
        for queue, submitted in nsmallest(_QUEUES, cluster.oldest.items(), key=itemgetter(1)):
            yield name, text, "gauge", (of, ("queue", queue)), submitted / SECOND
