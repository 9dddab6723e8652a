"""Prometheus metrics of the processors of one process.

Counters are read from the shards' accounts at each scrape, so they count committed records, cost nothing while the shard works, and
continue after a restart.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from engine.log.errors import FencedError, LogError
from engine.log.port import Expiring, Partition, ShardId
from engine.processor.observer import Batch, Watched
from engine.runtime.end_offsets import Ends

_HELD: Final = frozenset({"parked", "waiting"})
"""Outcomes that are temporary, and therefore gauges."""

_SECONDS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
_LONG_SECONDS: Final = (*_SECONDS, 30.0, 120.0)
_RECORDS: Final = (1, 10, 50, 100, 250, 500, 1000, 2000, 5000)
_SHARD: Final = ("stage", "shard")


class ShardHealth(NamedTuple):
    """Progress of a shard of this process, known without a request to the log."""

    shard: ShardId
    still: float | None
    """Seconds since its last step; `None` while it is being opened."""
    behind: float
    """Seconds since the append of the oldest buffered input; 0: none is buffered."""


class ProcessorMetrics(Collector):
    """Metrics of all processors of a process, as an observer (`engine.processor.observer`)."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Register the metrics.

        Args:
            registry: registry to scrape; at most one `ProcessorMetrics` each.
            clock: Unix time (seconds), for ages of recorded times.
            monotonic: clock of `Watched.moved`.
        """
        self._clock = clock
        self._monotonic = monotonic
        self._seconds = Histogram("lahar_commit_seconds", "Duration of a commit.", _SHARD, buckets=_SECONDS, registry=registry)
        self._records = Histogram("lahar_commit_records", "Outputs of a commit.", _SHARD, buckets=_RECORDS, registry=registry)
        self._recovery = Histogram(
            "lahar_recovery_seconds", "Time to open a shard.", _SHARD, buckets=_LONG_SECONDS, registry=registry
        )
        self._shards = Gauge("lahar_shards", "Shards of the stage.", ("stage",), registry=registry)
        self._folded = Gauge("lahar_recovery_events", "Events folded when it was last opened.", _SHARD, registry=registry)
        self._rebalance = Histogram(
            "lahar_rebalance_seconds", "Duration of rebalances.", ("stage",), buckets=_LONG_SECONDS, registry=registry
        )
        self._failures = Counter("lahar_commit_failures", "Commits that the log refused.", (*_SHARD, "error"), registry=registry)
        self._aborts = Counter("lahar_aborts", "Transactions aborted.", _SHARD, registry=registry)
        self._fences = Counter(
            "lahar_fences", "Transactions aborted because another process took over the shard.", _SHARD, registry=registry
        )
        self._watched: dict[ShardId, Watched] = {}
        self._ends = Ends()
        registry.register(self)

    # --- observing --------------------------------------------------------------------------------------------------------

    def sized(self, stage: str, shards: int) -> None:
        """Set the number of a stage's shards in the log, in all processes."""
        self._shards.labels(stage).set(shards)

    def opening(self, processor: Watched) -> None:
        """Export the metrics of a processor from now on."""
        self._watched[processor.shard] = processor
        # Creates the counters, at 0, before the first event.
        self._aborts.labels(*_labels(processor.shard))
        self._fences.labels(*_labels(processor.shard))

    def opened(self, processor: Watched, seconds: float, events: int) -> None:
        """Record that a shard is open."""
        self._recovery.labels(*_labels(processor.shard)).observe(seconds)
        self._folded.labels(*_labels(processor.shard)).set(events)

    def committed(self, batch: Batch) -> None:
        """Record a commit."""
        stage, number = _labels(batch.shard)
        self._seconds.labels(stage, number).observe(batch.commit_seconds)
        self._records.labels(stage, number).observe(batch.outputs)

    def commit_failed(self, shard: ShardId, error: LogError) -> None:
        """Record a commit that the log rejected, by the class of its error."""
        self._failures.labels(*_labels(shard), type(error).__name__).inc()
        self._aborts.labels(*_labels(shard)).inc()
        if isinstance(error, FencedError):
            self._fences.labels(*_labels(shard)).inc()

    def closed(self, shard: ShardId) -> None:
        """Stop exporting a shard's gauges, which its next process will report; counters stay."""
        self._watched.pop(shard, None)
        self._folded.remove(*_labels(shard))

    def rebalanced(self, stage: str, seconds: float) -> None:
        """Record a rebalance; see `engine.processor.membership.RebalanceObserver`."""
        self._rebalance.labels(stage).observe(seconds)

    # --- reading ----------------------------------------------------------------------------------------------------------

    def health(self) -> list[ShardHealth]:
        """Return the progress of all shards of this process. Never blocks; callable from any thread."""
        return [self._health_of(processor) for processor in list(self._watched.values())]

    def _health_of(self, processor: Watched) -> ShardHealth:
        try:
            behind = max((self._age(since) for since in processor.waiting_since), default=0.0)
        except LogError:
            behind = 0.0  # it is not open
        return ShardHealth(processor.shard, self._still(processor), behind)

    def _still(self, processor: Watched) -> float | None:
        moved = processor.moved
        return None if moved is None else max(self._monotonic() - moved, 0.0)

    def _age(self, since: int | None) -> float:
        return 0.0 if since is None else max(self._clock() - since / 1e6, 0.0)

    def collect(self) -> Iterator[Metric]:
        """Yield the current values of the processors."""
        page, figures = _Page(), dict[str, GaugeMetricFamily | CounterMetricFamily]()
        processors = list(self._watched.values())
        ends = self._ends.ask(processors)
        for processor in processors:
            names = _labels(processor.shard)
            still = self._still(processor)
            if still is not None:
                page.loop.add_metric(names, still)
            try:
                self._add(page, processor, names, ends)
                for name, text, kind, labels, value in processor.figures:
                    family = CounterMetricFamily if kind == "counter" else GaugeMetricFamily
                    if name not in figures:
                        figures[name] = family(f"lahar_{name}", text, labels=(*_SHARD, *(label for label, _ in labels)))
                    figures[name].add_metric((*names, *(given for _, given in labels)), value)
            except LogError:
                # Not open, or being closed by its own thread: export the others.
                page.open.add_metric(names, 0)
        for partition, (stable, end) in ends.items():
            if end is not None:
                page.unstable.add_metric((partition.topic, str(partition.number)), max(end - stable, 0))
        inputs = {partition: processor.log for processor in processors for partition in processor.reads}
        for partition, log in inputs.items():
            if isinstance(log, Expiring):
                page.gone.add_metric((partition.topic, str(partition.number)), log.gone(partition))
        yield from vars(page).values()
        yield from figures.values()

    def _add(self, page: _Page, processor: Watched, names: tuple[str, str], ends: dict[Partition, tuple[int, int | None]]) -> None:
        """Add all values of an open processor.

        Raises:
            LogError: it is not open; no value was added.
        """
        can_work = processor.can_work
        outcomes, taken, since = processor.committed, processor.received, processor.waiting_since
        position, low = processor.position, processor.snapshot_low
        changed, subjects, due = processor.snapshot_dirty, processor.state_subjects, processor.timer_due
        page.open.add_metric(names, int(can_work))
        page.received.add_metric(names, taken)
        for outcome, count in outcomes.items():
            (page.held if outcome in _HELD else page.settled).add_metric((*names, outcome), count)
        page.dead.add_metric(names, outcomes["dead"])
        page.parked.add_metric(names, processor.parked_jobs)
        page.outputs.add_metric(names, position.shardsequence)
        page.subjects.add_metric(names, subjects)
        page.tail.add_metric(names, position.shardsequence - low.shardsequence)
        page.age.add_metric(names, (position.now - low.now) / 1e6)
        page.dirty.add_metric(names, changed)
        if due is not None:
            page.timer.add_metric(names, due / 1e6)
        if not can_work:
            # The lag is unknown now; the last known value would look as if no input had arrived.
            return
        ages = [self._age(found) for found in since]
        page.lag_seconds.add_metric(names, max(ages, default=0.0))
        waiting: list[int] = []
        for partition, offset, age in zip(processor.reads, position.vector, ages, strict=True):
            place = (*names, partition.topic, str(partition.number))
            page.partition_lag_seconds.add_metric(place, age)
            if (known := ends.get(partition)) is not None:
                waiting.append(max(known[0] - offset, 0))
                page.partition_lag.add_metric(place, waiting[-1])
        if len(waiting) == len(processor.reads):
            page.lag.add_metric(names, sum(waiting))


class _Page:
    """Values of one scrape; every attribute is a metric."""

    def __init__(self) -> None:
        partition = (*_SHARD, "topic", "partition")
        self.open = GaugeMetricFamily("lahar_shard_open", "1 while the shard is open and its log can be used.", labels=_SHARD)
        self.loop = GaugeMetricFamily("lahar_loop_age_seconds", "Since the shard's loop last turned.", labels=_SHARD)
        self.lag = GaugeMetricFamily("lahar_lag_records", "Inputs that wait in the log.", labels=_SHARD)
        self.lag_seconds = GaugeMetricFamily("lahar_lag_seconds", "Age of the oldest input that waits.", labels=_SHARD)
        self.partition_lag = GaugeMetricFamily("lahar_partition_lag_records", "Inputs that wait in a partition.", labels=partition)
        self.partition_lag_seconds = GaugeMetricFamily(
            "lahar_partition_lag_seconds", "Age of the oldest input that waits in a partition.", labels=partition
        )
        self.unstable = GaugeMetricFamily(
            "lahar_lso_lag_records", "Records behind an open transaction.", labels=("topic", "partition")
        )
        self.gone = CounterMetricFamily(
            "lahar_inputs_gone", "Inputs deleted by retention before they were taken.", labels=("topic", "partition")
        )
        self.received = CounterMetricFamily("lahar_inputs_received", "Inputs taken.", labels=_SHARD)
        self.settled = CounterMetricFamily("lahar_inputs", "Inputs by outcome.", labels=(*_SHARD, "outcome"))
        self.held = GaugeMetricFamily("lahar_inputs_held", "Inputs kept until they are released.", labels=(*_SHARD, "outcome"))
        self.dead = CounterMetricFamily("lahar_dead_letters", "Inputs that could not be read.", labels=_SHARD)
        self.parked = GaugeMetricFamily("lahar_parked_jobs", "Jobs on which nothing is decided.", labels=_SHARD)
        self.outputs = CounterMetricFamily("lahar_outputs", "Events written.", labels=_SHARD)
        self.subjects = GaugeMetricFamily("lahar_state_subjects", "Subjects of the state.", labels=_SHARD)
        self.tail = GaugeMetricFamily("lahar_snapshot_tail_records", "Outputs that recovery would fold.", labels=_SHARD)
        self.age = GaugeMetricFamily(
            "lahar_snapshot_age_seconds", "Recorded time by which the snapshot is behind the shard.", labels=_SHARD
        )
        self.dirty = GaugeMetricFamily("lahar_snapshot_dirty_subjects", "Subjects that wait for the snapshot.", labels=_SHARD)
        self.timer = GaugeMetricFamily("lahar_timer_due_timestamp_seconds", "When the earliest timer fires.", labels=_SHARD)


def _labels(shard: ShardId) -> tuple[str, str]:
    return shard.stage, str(shard.number)
