"""How long after an input was appended the event that follows from it can be read, and how often shards commit."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Final, Self

from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition
from kafka_place import PARTITIONS, Place

from engine.events.outcomes import Accounted
from engine.events.times import parse_time

_POLL_MS: Final = 200
_NOT_CAUSED: Final = Accounted.TYPE.encode()


@dataclass(slots=True)
class _Seen:
    """What was read of one partition."""

    first: int = -1
    next: int = 0
    records: int = 0


@dataclass(slots=True)
class _Window:
    """What was read within some time."""

    began: float
    latencies: list[float] = field(default_factory=list)
    seen: dict[int, _Seen] = field(default_factory=lambda: defaultdict(_Seen))


def percentile(values: list[float], part: float) -> float:
    """Return the value below which a part (0 … 1) of them lies.

    Raises:
        ValueError: there are none.
    """
    if not values:
        raise ValueError("no values")
    return sorted(values)[min(int(len(values) * part), len(values) - 1)]


class Latencies:
    """A consumer of `job-events`, read committed, in a thread of its own.

    An input's producer stamps it when it is appended, and an output bears the stamp of its shard's newest input: with one producer
    that of the input that it follows from. So the latency is when it was read, less its own `recordedtime`, on one machine's clock.
    """

    def __init__(self, place: Place) -> None:
        """Read what is written from now on."""
        self._place = place
        self._window = _Window(time.monotonic())
        self._ready = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def begin(self) -> None:
        """Forget what was read so far."""
        self._window = _Window(time.monotonic())

    def end(self) -> tuple[list[float], float]:
        """Return the latencies since `begin` (milliseconds), and the mean time between two commits of a shard (milliseconds)."""
        window, self._window = self._window, _Window(time.monotonic())
        seconds = time.monotonic() - window.began
        # Each transaction leaves one marker in the partition: an offset without a record.
        commits = [seen.next - seen.first - seen.records for seen in window.seen.values()]
        return window.latencies, 1000 * seconds * len(commits) / max(sum(commits), 1)

    async def _run(self) -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._place.settings.bootstrap_servers, isolation_level="read_committed", enable_auto_commit=False
        )
        await consumer.start()
        places = [TopicPartition(self._place.name("job-events"), number) for number in range(PARTITIONS)]
        consumer.assign(places)
        await consumer.seek_to_end(*places)
        self._ready.set()
        try:
            while not self._stop.is_set():
                for place, records in (await consumer.getmany(timeout_ms=_POLL_MS)).items():
                    self._note(place.partition, records)
        finally:
            await consumer.stop()

    def _note(self, partition: int, records: list[Any]) -> None:
        window, now = self._window, time.time_ns() // 1000
        seen = window.seen[partition]
        if seen.first < 0:
            seen.first = records[0].offset
        seen.next = records[-1].offset + 1
        seen.records += len(records)
        for record in records:
            headers = dict(record.headers)
            if headers["ce_type"] != _NOT_CAUSED:
                window.latencies.append((now - parse_time(headers["ce_recordedtime"].decode())) / 1000)
