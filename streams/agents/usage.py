"""Built-in agents: usage by tenant and queue, for Prometheus.

    lahar --log kafka://localhost:9092 agents run streams.agents.usage:app --metrics 9101

| metric | labels | meaning |
|---|---|---|
| `lahar_usage_jobs_entered_total` | `tenant`, `queue`, `phase`, `partition` | jobs that have entered a phase: submissions are `Pending`, completions `Completed`, failures `Failed` |
| `lahar_usage_replicas_ended_total` | `tenant`, `queue`, `phase`, `partition` | attempts that have ended: `Succeeded`, `Failed`, `Lost` |
| `lahar_usage_jobs` | `tenant`, `queue`, `phase` | jobs in a phase, without finished ones |
| `lahar_usage_replicas` | `tenant`, `queue`, `phase` | live replicas: `Pending`, `Bound`, `Running`, `Terminating` |
| `lahar_usage_requested_cpu_cores`, `…_memory_bytes`, `…_gpus` | `tenant`, `queue`, `phase` | requests of these replicas |
| `lahar_usage_partitions_rebuilding` | | partitions that are not exported yet |

Values are folded from `job-events`; nothing is stored. A partition starts from the lifecycle stage's snapshot (without one, from
its first event) and is exported once it has been read up to the end that it had at the start. Its counters start then. Several
processes share the partitions: sum their values. Counters are exported per partition, so that none falls when another partition
moves: `rate` would take that for a restart.
"""  # noqa: E501  a table

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from engine.events import TYPES
from engine.log.port import Log
from statemachines.spec import GPU
from streams.agents.declaration import Agents, Source, current_type, job_events
from streams.agents.progress import Place
from streams.agents.received import Received
from streams.agents.usage_book import FOLDED, Key, Owner, UsageBook
from streams.agents.usage_seed import UsageSeed, read_seed

_OWNERS: Final = 2_000
"""Maximum number of distinct pairs of tenant and queue; each has about thirty series."""

OTHER: Final = Owner("(other)", "(other)")
"""Owner of all jobs of further pairs."""

_LABELS: Final = ("tenant", "queue", "phase")

Figures = Callable[[UsageBook], Counter[Key]]
"""Selects one metric of a partition."""


class Usage(Collector):
    """Folds the job events of this process's partitions, and exports the sums."""

    name = "usage"
    source: Source = job_events
    time_limit = 30.0

    def __init__(self, owners: int = _OWNERS) -> None:
        """Start empty.

        Args:
            owners: maximum number of distinct pairs of tenant and queue.
        """
        self._most_owners = owners
        self._owners: set[Owner] = set()
        self._owners_lock = threading.Lock()
        self._books: dict[Place, UsageBook] = {}
        self._shown: dict[Place, UsageBook] = {}
        self._assigned: frozenset[Place] = frozenset()

    def wants(self, received: Received) -> bool:
        """Return true if an event changes a metric.

        Raises:
            UndecodableError: the record is not an event.
            UnknownTypeError: its type is not in the vocabulary.
        """
        return TYPES[current_type(received.message.type or received.event.type)] in FOLDED

    async def handle(self, received: Received) -> None:
        """Fold an event."""
        place = Place(received.topic, received.partition)
        book = self._books.get(place)
        if book is None:
            book = self._books[place] = UsageBook(self._owner)
        book.fold(received.event)

    def assigned(self, places: Collection[Place]) -> None:
        """Set the partitions of this process."""
        self._assigned = frozenset(places)

    def seed(self, log: Log, number: int) -> UsageSeed | None:
        """Read the seed of a partition; called in another thread.

        Raises:
            LogError: the log cannot be read.
        """
        return read_seed(log, number, self._owner)

    def begin(self, place: Place, seed: UsageSeed) -> None:
        """Start a partition from a snapshot."""
        self.lost({place})
        self._books[place] = seed.book

    def lost(self, places: Collection[Place]) -> None:
        """Drop partitions that are now assigned to another process."""
        for place in places:
            self._books.pop(place, None)
            self._shown.pop(place, None)

    def rebuilt(self, places: Collection[Place]) -> None:
        """Export partitions, and start their counters."""
        for place in places:
            book = self._books.setdefault(place, UsageBook(self._owner))
            book.begin_counting()
            self._shown[place] = book

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the exported partitions, gauges as sums; called from another thread."""
        shown = self._shown.copy()
        counters: Sequence[tuple[str, str, Figures]] = (
            ("lahar_usage_jobs_entered", "Jobs that have entered a phase.", lambda book: book.entered),
            ("lahar_usage_replicas_ended", "Attempts that have ended in a phase.", lambda book: book.ended),
        )
        gauges = (
            ("lahar_usage_jobs", "Jobs in a phase.", lambda book: book.jobs, 1),
            ("lahar_usage_replicas", "Live replicas in a phase.", lambda book: book.replicas, 1),
            ("lahar_usage_requested_cpu_cores", "CPU that they ask for.", lambda book: book.cpu_milli, 1_000),
            ("lahar_usage_requested_memory_bytes", "Memory that they ask for.", lambda book: book.memory_bytes, 1),
            ("lahar_usage_requested_gpus", "GPUs that they ask for.", lambda book: book.gpu_billionths, GPU),
        )
        for name, text, figures in counters:
            counter = CounterMetricFamily(name, text, labels=(*_LABELS, "partition"))
            for place, book in shown.items():
                for (owner, phase), value in sorted(figures(book).copy().items()):
                    counter.add_metric((*owner, phase, str(place.partition)), value)
            yield counter
        for name, text, figures, unit in gauges:
            gauge = GaugeMetricFamily(name, text, labels=_LABELS)
            for (owner, phase), value in sorted(_sums(shown.values(), figures).items()):
                gauge.add_metric((*owner, phase), value / unit)
            yield gauge
        waiting = len(self._assigned - shown.keys())
        yield GaugeMetricFamily("lahar_usage_partitions_rebuilding", "Partitions not shown yet.", value=waiting)

    def _owner(self, tenant: str, queue: str) -> Owner:
        owner = Owner(tenant, queue)
        with self._owners_lock:
            if owner not in self._owners:
                if len(self._owners) >= self._most_owners:
                    return OTHER
                self._owners.add(owner)
        return owner


def _sums(books: Iterable[UsageBook], figures: Figures) -> dict[Key, int]:
    totals: dict[Key, int] = {}
    for book in books:
        for key, value in figures(book).copy().items():
            totals[key] = totals.get(key, 0) + value
    return totals


_usage: Final = Usage()
app: Final = Agents(_usage.name, [_usage], from_beginning=True, collectors=[_usage])
"""Agents of `lahar agents run streams.agents.usage:app`."""
