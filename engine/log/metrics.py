"""What operators see of the processors of one process, for Prometheus.

Counters are read from the shards' accounts when they are scraped, so they count what is committed, cost nothing while the shard
works, and go on after a restart.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from engine.log.errors import LogError
from engine.log.port import Position, ShardId

__all__ = ["ProcessorMetrics", "Watched"]

_HELD: Final = frozenset({"parked", "waiting"})
"""Outcomes that inputs leave again: gauges."""

_SECONDS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
_RECORDS: Final = (1, 10, 50, 100, 250, 500, 1000, 2000, 5000)


class Watched(Protocol):
    """What the metrics read from a processor."""

    @property
    def shard(self) -> ShardId:
        """Which shard it runs."""

    @property
    def is_open(self) -> bool:
        """Whether the rest can be asked for."""

    @property
    def committed(self) -> dict[str, int]:
        """Inputs by outcome."""

    @property
    def received(self) -> int:
        """Inputs taken."""

    @property
    def position(self) -> Position:
        """How far it has come."""

    @property
    def snapshot_low(self) -> Position:
        """How far its snapshot has come."""

    @property
    def snapshot_dirty(self) -> int:
        """Subjects that wait to be written to it."""

    @property
    def timer_due(self) -> int | None:
        """When its earliest timer fires (microseconds)."""

    def lag(self) -> int:
        """Return the number of offsets that wait in its inputs."""


class ProcessorMetrics(Collector):
    """The metrics of all processors of a process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register them.

        Args:
            registry: to be scraped; one of these a registry.
        """
        labels = ("stage", "shard")
        self._seconds = Histogram("lahar_commit_seconds", "Duration of a commit.", labels, buckets=_SECONDS, registry=registry)
        self._records = Histogram("lahar_commit_records", "Outputs of a commit.", labels, buckets=_RECORDS, registry=registry)
        self._recovery = Histogram(
            "lahar_recovery_seconds", "Time to open a shard.", labels, buckets=(*_SECONDS, 30.0, 120.0), registry=registry
        )
        self._failures = Counter("lahar_commit_failures", "Commits that the log refused.", (*labels, "error"), registry=registry)
        self._watched: dict[ShardId, Watched] = {}
        registry.register(self)

    def opened(self, processor: Watched, seconds: float) -> None:
        """Note that a processor has opened its shard; from now on it is watched."""
        self._watched[processor.shard] = processor
        self._recovery.labels(*_labels(processor.shard)).observe(seconds)

    def commit_done(self, shard: ShardId, seconds: float, records: int) -> None:
        """Note a commit."""
        stage, number = _labels(shard)
        self._seconds.labels(stage, number).observe(seconds)
        self._records.labels(stage, number).observe(records)

    def commit_failed(self, shard: ShardId, error: LogError) -> None:
        """Note a commit that the log refused, by the class of its error."""
        self._failures.labels(*_labels(shard), type(error).__name__).inc()

    def collect(self) -> Iterator[Metric]:
        """Yield what is read from the processors at this moment."""
        labels = ("stage", "shard")
        received = CounterMetricFamily("lahar_inputs_received", "Inputs taken.", labels=labels)
        settled = CounterMetricFamily("lahar_inputs", "Inputs by what became of them.", labels=(*labels, "outcome"))
        held = GaugeMetricFamily("lahar_inputs_held", "Inputs kept until they are released.", labels=(*labels, "outcome"))
        lag = GaugeMetricFamily("lahar_lag_records", "Inputs that wait in the log.", labels=labels)
        outputs = CounterMetricFamily("lahar_outputs", "Events written.", labels=labels)
        tail = GaugeMetricFamily("lahar_snapshot_tail_records", "Outputs that recovery would fold.", labels=labels)
        age = GaugeMetricFamily("lahar_snapshot_age_seconds", "Recorded time behind which the snapshot stands.", labels=labels)
        dirty = GaugeMetricFamily("lahar_snapshot_dirty_subjects", "Subjects that wait for the snapshot.", labels=labels)
        timer = GaugeMetricFamily("lahar_timer_due_timestamp_seconds", "When the earliest timer fires.", labels=labels)
        for processor in list(self._watched.values()):
            if not processor.is_open:
                continue
            try:
                outcomes, taken, waiting = processor.committed, processor.received, processor.lag()
                position, low = processor.position, processor.snapshot_low
                changed, due = processor.snapshot_dirty, processor.timer_due
            except LogError:
                # Closed meanwhile by its own thread: not to be shown, and no reason to show nothing of the others.
                continue
            names = _labels(processor.shard)
            received.add_metric(names, taken)
            for outcome, count in outcomes.items():
                (held if outcome in _HELD else settled).add_metric((*names, outcome), count)
            lag.add_metric(names, waiting)
            outputs.add_metric(names, position.shardsequence)
            tail.add_metric(names, position.shardsequence - low.shardsequence)
            age.add_metric(names, (position.now - low.now) / 1e6)
            dirty.add_metric(names, changed)
            if due is not None:
                timer.add_metric(names, due / 1e6)
        yield from (received, settled, held, lag, outputs, tail, age, dirty, timer)


def _labels(shard: ShardId) -> tuple[str, str]:
    return shard.stage, str(shard.number)
