"""Inputs appended while workers are at work, and what an outside consumer sees of the outputs meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition
from lifecycle_inputs import inputs

from engine.events import Message, Topic
from engine.log.errors import LogUnavailableError
from engine.log.partitioner import partition_of
from streams.client.producer import Producer
from streams.log import KafkaLog
from streams.settings import KafkaSettings

_CHUNK = 250
_AHEAD = 10
"""The part of all inputs that may wait at most, so that workers never have all of them before them."""
_FLAPS = 40
_PAUSE_SECONDS = 0.02


class Raw(NamedTuple):
    """A record as another producer may write it."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]


Given = tuple[Topic, Message | Raw]


@cache
def workload(count: int) -> tuple[Given, ...]:
    """Return at least so many inputs: managed and observed jobs, retries, timers, orphans, commands, nodes, garbage."""
    jobs = count // 15
    while len(made := [*_calmer(inputs(jobs))]) < count:
        jobs += count // 100 + 1
    return tuple(made)


def _calmer(made: Sequence[Given]) -> Iterator[Given]:
    """Leave out most of the flapping of nodes: an event for each pod on the node follows, and thousands of pods are open."""
    flaps = 0
    for topic, message in made:
        if topic == "cluster" and isinstance(message, Message) and message.id.startswith("flaky"):
            flaps += 1
            if flaps % _FLAPS:
                continue
        yield topic, message


class Feeder:
    """Appends inputs in a thread, never many more than are taken."""

    def __init__(self, log: KafkaLog, given: Sequence[Given], taken: Callable[[], int], *, held: bool = False) -> None:
        """Begin.

        Args:
            log: to which they go.
            given: in this order, of each topic.
            taken: tells how many have been taken.
            held: append nothing until `go_on`.
        """
        self._log = log
        self._given = given
        self._taken = taken
        self._raw: Producer | None = None
        self._stop = threading.Event()
        self._hold = threading.Event()
        if held:
            self._hold.set()
        self._limit = len(given)
        self.appended = 0
        self.repeated = 0
        """Appends that failed, so that it is not known whether they were done, and were done again."""
        self.fault: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)
        self._thread.start()

    @property
    def done(self) -> bool:
        """Tell whether all are appended."""
        return self.appended == len(self._given)

    @property
    def rests(self) -> bool:
        """Tell whether it waits until more is taken, or until it may append more."""
        return self.is_at_limit or self._is_ahead()

    @property
    def is_at_limit(self) -> bool:
        """Tell whether it has appended all that it may."""
        return self.appended >= self._limit

    def allow(self, part: float) -> None:
        """Append no more than a part of all inputs; what is appended by now stays."""
        self._limit = min(int(part * len(self._given)), len(self._given))

    def allow_more(self, part: float) -> None:
        """Append a part of all inputs more than now."""
        self.allow(self.appended / len(self._given) + part)

    def hold(self) -> None:
        """Append nothing until `go_on`."""
        self._hold.set()

    def go_on(self) -> None:
        """Append again."""
        self._hold.clear()

    def stop(self) -> None:
        """Append nothing more."""
        self._stop.set()
        self._thread.join(60)

    def _run(self) -> None:
        try:
            while not self._stop.is_set() and not self.done:
                chunk = self._given[self.appended : min(self.appended + _CHUNK, self._limit)]
                if not chunk or self._hold.is_set() or self._is_ahead():
                    self._stop.wait(_PAUSE_SECONDS)
                    continue
                # Topics have producers of their own: which of their records comes first is left to chance.
                runs: dict[tuple[Topic, bool], list[Message | Raw]] = {}
                for topic, record in chunk:
                    runs.setdefault((topic, isinstance(record, Raw)), []).append(record)
                for (topic, raw), run in runs.items():
                    self._append(topic, run, raw)
                if self._stop.is_set():
                    return
                self.appended += len(chunk)
        except BaseException as error:  # noqa: BLE001  the test's own thread raises it
            self.fault = error

    def _is_ahead(self) -> bool:
        return self.appended - self._taken() > len(self._given) // _AHEAD

    def _append(self, topic: Topic, records: list[Message | Raw], raw: bool) -> None:
        done = False
        while not done and not self._stop.is_set():
            try:
                if raw:
                    self._write(topic, records)  # type: ignore[arg-type]  # all are raw
                else:
                    self._log.append(topic, records)  # type: ignore[arg-type]  # none is raw
                done = True
            except LogUnavailableError:
                self.repeated += 1

    def _write(self, topic: Topic, records: list[Raw]) -> None:
        if self._raw is None:
            self._raw = Producer(self._log.background, self._log.settings)
        batches, count = self._raw.batches(), self._log.partitions(topic)
        for key, value, headers in records:
            text = (key or b"").decode(errors="backslashreplace")
            batches.append(
                TopicPartition(f"{self._log.settings.topic_prefix}{topic}", partition_of(text, count)), key, value, headers
            )
        self._raw.write(batches)


class Subscriber:
    """A consumer of a topic as anybody may write one: it reads what is committed, from the beginning, while faults happen."""

    def __init__(self, settings: KafkaSettings, topic: Topic, partitions: int) -> None:
        """Begin."""
        name = f"{settings.topic_prefix}{topic}"
        self._settings = settings
        self._places = [TopicPartition(name, number) for number in range(partitions)]
        self.seen: dict[int, list[tuple[int, str]]] = {number: [] for number in range(partitions)}
        """Of each partition: offset and id of every record."""
        self._ends: dict[TopicPartition, int] | None = None
        self._asked = threading.Event()
        self._left = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._read()), name="subscriber", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Read all that is there now, then end."""
        self._asked.set()
        self._thread.join(180)
        assert not self._thread.is_alive(), "the subscriber does not come to the end"

    def leave(self) -> None:
        """Read nothing more. Idempotent."""
        self._left.set()
        self._thread.join(60)

    async def _read(self) -> None:
        consumer = AIOKafkaConsumer(
            **self._settings.client_arguments(),
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await consumer.start()
        consumer.assign(self._places)
        ends: dict[TopicPartition, int] = {}
        try:
            while not self._left.is_set():
                found = await consumer.getmany(timeout_ms=200, max_records=5_000)
                for place, records in found.items():
                    self.seen[place.partition] += [(record.offset, _id(record.headers)) for record in records]
                if self._asked.is_set() and not ends:
                    ends = await consumer.end_offsets(self._places)
                if ends and not found:
                    with contextlib.suppress(Exception):
                        if all([await consumer.position(place) >= end for place, end in ends.items()]):
                            return
        finally:
            await consumer.stop()


def _id(headers: Sequence[tuple[str, bytes]]) -> str:
    return next((value.decode() for name, value in headers if name == "ce_id"), "")


def dice(seed: int) -> random.Random:
    """Return what chooses the faults of a schedule."""
    return random.Random(seed)  # noqa: S311  faults are to be random, not secret
