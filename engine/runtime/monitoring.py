"""Monitoring of a process that runs shards or callbacks: liveness, readiness, metrics and traces."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, Self

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector

from engine.effects.executor import Executor, ThreadExecutor
from engine.events.times import SECOND
from engine.processor.observer import Observer, Observers
from engine.runtime.metrics import ProcessorMetrics
from engine.runtime.reporter import Reporter
from engine.runtime.serving import Server, parse_address
from engine.runtime.settings import Settings
from engine.runtime.tracing import Spans, TracedExecutor, provider_of, tracer_of

STILL_SECONDS: Final = 180.0
"""Time after which a loop counts as hanging (seconds). It normally turns several times a second, or after the log's time limits,
which are shorter."""


class Monitoring:
    """Observers of one process: metrics, health, and traces if the environment requests them."""

    def __init__(
        self,
        settings: Settings,
        environment: Mapping[str, str] = os.environ,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start without observations.

        Args:
            settings: settings with the maximum lag of a ready process.
            environment: environment variables; `OTEL_…` request traces.
            monotonic: monotonic clock (seconds).

        Raises:
            ValueError: the requested traces cannot be created.
        """
        self.registry: Final = CollectorRegistry()
        self.metrics: Final = ProcessorMetrics(self.registry, monotonic=monotonic)
        self._lag = settings.ready_lag / SECOND
        self._monotonic = monotonic
        self._turned: float | None = None
        self._provider = provider_of(environment)
        self._tracer = None if self._provider is None else tracer_of(self._provider)
        self.observer: Final[Observer] = self.metrics if self._tracer is None else Observers(self.metrics, Spans(self._tracer))

    def executor(self) -> Executor:
        """Return the executor of callbacks."""
        threads = ThreadExecutor()
        return threads if self._tracer is None else TracedExecutor(threads, self._tracer)

    def beat(self) -> None:
        """Record a turn of the process's own loop; from the first one on, the loop is checked."""
        self._turned = self._monotonic()

    def hangs(self) -> list[str]:
        """Return a reason for each loop that hangs. Never blocks; callable from any thread."""
        still = {f"shard {found.shard}": found.still for found in self.metrics.health()}
        still["the process's own loop"] = None if self._turned is None else self._monotonic() - self._turned
        return [
            f"{name} has not moved for {seconds:.0f} s"
            for name, seconds in still.items()
            if seconds is not None and seconds > STILL_SECONDS
        ]

    def behind(self) -> list[str]:
        """Return a reason for each open shard that lags too far. Never blocks; callable from any thread."""
        return [
            f"shard {found.shard} is {found.behind:.0f} s behind, {self._lag:g} s are allowed"
            for found in self.metrics.health()
            if found.behind > self._lag
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Send the remaining spans."""
        if self._provider is not None:
            self._provider.shutdown()


@contextmanager
def served(
    address: str | None, monitoring: Monitoring, reporter: Reporter, waiting: Callable[[], Sequence[str]] = lambda: ()
) -> Iterator[None]:
    """Serve a process's metrics and health during a `with` block.

    Args:
        address: address to listen on; `None`: serve nothing.
        monitoring: metrics and health.
        reporter: receives the address.
        waiting: returns the reasons why the process is not ready; callable from any thread; never blocks.

    Raises:
        ValueError: the address is invalid or in use.
    """
    if address is None:
        yield
        return
    # Both register themselves on entry.
    ProcessCollector(registry=monitoring.registry)
    PlatformCollector(registry=monitoring.registry)

    def not_ready() -> list[str]:
        return [*waiting(), *monitoring.behind(), *monitoring.hangs()]

    with Server(parse_address(address), monitoring.registry, healthy=monitoring.hangs, ready=not_ready) as server:
        reporter.note(f"metrics: {server.url}")
        yield
