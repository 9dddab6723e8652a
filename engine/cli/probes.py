"""What a process that runs shards answers to whoever runs it: is it alive, does it do its work?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Final

import typer
from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector

from engine.cli.output import Output
from engine.cli.serving import Reasons, Server, parse_address
from engine.log.metrics import ProcessorMetrics

__all__ = ["MetricsOption", "served", "shards_hang", "shards_not_ready"]

_LAG_SECONDS: Final = 60.0
"""A shard that is further behind has not caught up: in a rolling update the next worker is not to be stopped yet."""

_STILL_SECONDS: Final = 180.0
"""A loop turns several times a second, unless the log does not answer: then after its time limits, which are shorter than this."""

MetricsOption = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        metavar="[HOST:]PORT",
        help="Serve /metrics, /healthz and /readyz there, without a host on 127.0.0.1 only; port 0 takes a free one.",
    ),
]


@contextmanager
def served(address: str | None, registry: CollectorRegistry, output: Output, healthy: Reasons, ready: Reasons) -> Iterator[None]:
    """Serve what a process shows for the length of a `with` block; `None`: nowhere.

    Raises:
        ValueError: it is no address, or it is taken.
    """
    if address is None:
        yield
        return
    # Both register themselves.
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    with Server(parse_address(address), registry, healthy=healthy, ready=ready) as server:
        output.notes.print(f"metrics: {server.url}", style="dim")
        yield


def shards_hang(metrics: ProcessorMetrics) -> Reasons:
    """Return what says which shards hang."""
    return lambda: [
        f"shard {found.shard} has not moved for {found.still:.0f} s"
        for found in metrics.standings()
        if found.still is not None and found.still > _STILL_SECONDS
    ]


def shards_not_ready(metrics: ProcessorMetrics, waiting: Callable[[], Sequence[str]]) -> Reasons:
    """Return what says which shards are not open, or far behind.

    Args:
        metrics: know the shards that are open.
        waiting: says why others are not.
    """
    return lambda: [
        *waiting(),
        *(f"shard {found.shard} is {found.behind:.0f} s behind" for found in metrics.standings() if found.behind > _LAG_SECONDS),
    ]
