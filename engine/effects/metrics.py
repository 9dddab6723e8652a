"""Prometheus metrics of callbacks, with the callback's name as a label."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


@dataclass(slots=True, frozen=True)
class CallbackStatus:
    """Status of a callback."""

    name: str
    lag: int
    """Number of offsets between its position and the end of its partitions."""
    delivered: int = 0
    """Number of notices delivered by this process."""
    failed: int = 0
    """Number of failed attempts of this process."""
    withheld: int = 0
    """Number of notices that a replay did not deliver."""
    disabled: str | None = None
    """Reason why it is disabled; `None`: it is enabled."""
    failing: str | None = None
    """Reason why its last attempt failed; `None`: it did not."""
    retry_at: int | None = None
    """Time of the next retry (microseconds); `None`: it is not failing."""


class EffectMetrics(Collector):
    """Metrics of a dispatcher, read at each scrape."""

    def __init__(self, registry: CollectorRegistry, status: Callable[[], Iterable[CallbackStatus]]) -> None:
        """Register the metrics; `status` is `Dispatcher.status`."""
        self._status = status
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Yield the current values."""
        label = ("callback",)
        lag = GaugeMetricFamily(
            "lahar_callback_lag_records",
            "Job events, and events of budgets where it is told of these, behind the callback's cursor.",
            labels=label,
        )
        disabled = GaugeMetricFamily("lahar_callback_disabled", "1 while the callback waits for a resume.", labels=label)
        done = CounterMetricFamily("lahar_callback_deliveries", "Notices delivered.", labels=label)
        failed = CounterMetricFamily("lahar_callback_failures", "Attempts to deliver that failed.", labels=label)
        for callback in self._status():
            names = (callback.name,)
            lag.add_metric(names, callback.lag)
            disabled.add_metric(names, callback.disabled is not None)
            done.add_metric(names, callback.delivered)
            failed.add_metric(names, callback.failed)
        yield from (lag, disabled, done, failed)
