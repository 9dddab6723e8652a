"""Faust app of the agents: Lahar's topics, codec and connection settings."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final, Literal, cast

import faust
from faust.app.base import BootStrategy
from faust.types.tuples import TP
from prometheus_client import CollectorRegistry

from engine.effects.lane import BACK_OFF
from engine.events.back_off import BackOff
from streams.agents.declaration import Agents, Handler, Source
from streams.agents.delivery import Delivery
from streams.agents.metrics import AgentMetrics
from streams.agents.progress import Place, Progress
from streams.agents.received import Received
from streams.agents.seeding import Seed, Seeded, read_seeds
from streams.agents.transport import Consumer, ReadPosition, Transport
from streams.codec import decode
from streams.settings import KafkaSettings
from streams.topics import topic_name

_COMMIT_SECONDS: Final = 1.0
"""Interval of offset commits (seconds): events of about this period are delivered again after a crash."""
_HEARTBEAT_SECONDS: Final = 1.0
_SESSION_SECONDS: Final = 10.0
"""Time until the partitions of a killed process are reassigned (seconds). A separate thread sends the heartbeats."""
_WATCH_SECONDS: Final = 0.5
_SEEK_SECONDS: Final = 24 * 3_600.0
"""Time limit (seconds) for finding the starting offsets; snapshots are retried while no broker answers. After the limit Faust would
start at wrong offsets."""
_POLL_RECORDS: Final = 2_000
"""Records per poll. Without a bound, all fetched records become objects: 0.7 GB in place of 0.15 GB with four partitions."""

# Without a handler, Python prints their messages about unreachable brokers to stderr.
for _name in ("faust", "mode"):
    logging.getLogger(_name).addHandler(logging.NullHandler())


class _WithoutWeb(BootStrategy):
    """Starts no web server, whatever the options of `faust worker` are; it would listen on all addresses."""

    enable_web = False


class EventSchema(faust.Schema[Any, Any]):
    """Deserializes records in CloudEvents' binary or structured mode: keys as bytes, values as `Received`.

    Deserialization never fails; an invalid record raises when its event is read. Faust would acknowledge a record with a codec
    error at once, before the records ahead of it are done.
    """

    def loads_key(self, app: Any, message: Any, **_: Any) -> Any:  # noqa: ANN401, ARG002  as Faust calls it
        """Return the key unchanged."""
        return message.key

    def loads_value(self, app: Any, message: Any, **_: Any) -> Any:  # noqa: ANN401, ARG002  as Faust calls it
        """Return the record with its headers."""
        held, _metadata = decode(message.key, message.value, message.headers or (), int((message.timestamp or 0) * 1_000))
        return Received(held, message.topic, message.partition, message.offset)


class AgentApp(faust.App):
    """Faust app of one `Agents`; plain Faust agents can be added with `@app.agent(app.source(job_events))`.

    It has no tables on disk, no pickle, no web server, and creates no topics.
    """

    BootStrategy = _WithoutWeb

    def __init__(
        self, declared: Agents, settings: KafkaSettings, *, instance: str | None = None, back_off: BackOff = BACK_OFF
    ) -> None:
        """Configure the app; it connects when it starts.

        Args:
            declared: agents to run.
            settings: connection, and prefix of topic names.
            instance: name of the process in the group, stable across restarts, so that it gets its partitions back at once (static
                membership); `None`: a killed process's partitions are reassigned after 10 s.
            back_off: delays before an event is delivered again to a function that failed.
        """
        self.settings: Final = settings
        self.agents_declared: Final = declared
        self.registry: Final = CollectorRegistry()
        self.metrics: Final = AgentMetrics(self.registry)
        for collector in declared.collectors:
            self.registry.register(collector)
        self.deliveries: Final = [Delivery(handler, self.metrics, Progress(), back_off) for handler in declared.handlers]
        self._assigned: set[TP] | None = None
        self._to_rebuild: dict[TP, int] = {}
        self._seeding = 0
        self._turned: float | None = None
        self.replaced = False
        """Set when another process of the group has taken over this one's instance name."""
        super().__init__(
            settings.group("agents", declared.name),
            # Faust reads its own settings from the environment, with names and defaults that differ from Lahar's.
            env={},
            broker=[f"kafka://{server.strip()}" for server in settings.bootstrap_servers.split(",")],
            autodiscover=False,
            broker_commit_interval=_COMMIT_SECONDS,
            broker_heartbeat_interval=_HEARTBEAT_SECONDS,
            broker_request_timeout=_SEEK_SECONDS,
            broker_max_poll_records=_POLL_RECORDS,
            broker_session_timeout=_SESSION_SECONDS,
            consumer_auto_offset_reset="earliest",
            consumer_group_instance_id=instance,
            key_serializer="raw",
            processing_guarantee="at_least_once",
            producer_compression_type=None if settings.compression == "none" else settings.compression,
            store="memory://",
            # A function that keeps failing would delay every rebalance and the shutdown.
            stream_wait_empty=False,
            topic_allow_declare=False,
            topic_disable_leader=True,
            value_serializer="raw",
            web_enabled=False,
            worker_redirect_stdouts=False,
        )
        for delivery in self.deliveries:
            self.agent(self.source(delivery.handler.source), name=delivery.handler.name)(_actor(delivery))
        self.task(self._turn)
        self.task(self._watch)

    def source(self, source: Source) -> Any:  # noqa: ANN401  a channel of Faust
        """Return the Faust topic of a source; its values are `Received`."""
        return self.topic(topic_name(self.settings, source.topic), schema=EventSchema())

    @property
    def topics_read(self) -> list[str]:
        """Names in the cluster of the topics that the declared agents consume."""
        return sorted({topic_name(self.settings, delivery.handler.source.topic) for delivery in self.deliveries})

    @property
    def refused(self) -> BaseException | None:
        """Error with which Kafka rejects this process from its group; `None` if there is none."""
        return None if self._consumer is None else cast("Consumer", self._consumer).refused

    def not_ready(self) -> list[str]:
        """Return the reasons why the agents are not ready; empty if they are."""
        reasons = []
        if self._seeding:
            reasons.append(f"the snapshots of {self._seeding} partitions are being read")
        elif self._assigned is None:
            reasons.append(f"{self.conf.id} has no place in its consumer group yet")
        if self._to_rebuild:
            reasons.append(f"{len(self._to_rebuild)} partitions have not been read up to their end yet")
        return reasons

    def hangs(self, patience: float) -> list[str]:
        """Return a reason if the event loop of the agents has been blocked for `patience` seconds. Never blocks; thread-safe."""
        still = 0.0 if self._turned is None else time.monotonic() - self._turned
        return [f"the agents' loop has not moved for {still:.0f} s: one of them blocks it"] if still > patience else []

    async def resumed(self, offsets: Mapping[TP, int | None]) -> dict[TP, int | None]:
        """Start at these offsets after a rebalance.

        Args:
            offsets: next offset of each assigned partition; `None`: the beginning.

        Returns:
            Starting offsets; a new partition starts from a snapshot if one is usable.
        """
        self._lose((self._assigned or set()) - set(offsets))
        for delivery in self.deliveries:
            _notify(delivery.handler, "assigned", {Place(*tp) for tp in offsets})
        new = set(offsets) - (self._assigned or set())
        seeds: dict[TP, list[Seed]] = {}
        if self.agents_declared.from_beginning and new:
            # A rebalance may cancel the seeding; the partitions then still count as new.
            seeds = await self._seeds(new)
            ends = await self.consumer.highwaters(*new)
            self._forget(new)
            self._to_rebuild |= {TP(*tp): end for tp, end in ends.items()}
            starts = {tp: min(seed.offset for seed in found) for tp, found in seeds.items()}
            offsets = {tp: starts.get(tp) if tp in new else offset for tp, offset in offsets.items()}
        self._assigned = set(offsets)
        for delivery in self.deliveries:
            delivery.progress.resumed({Place(*tp): offset for tp, offset in offsets.items()})
        for tp, found in seeds.items():
            for delivery, seed in zip(self.deliveries, found, strict=True):
                cast("Seeded", delivery.handler).begin(Place(*tp), seed)
        return dict(offsets)

    def _lose(self, tps: set[TP]) -> None:
        """Drop partitions that were assigned to another process."""
        if self._assigned is not None:
            self._assigned -= tps
        for tp in tps:
            self.metrics.lag.remove(*map(str, tp))
            self._to_rebuild.pop(tp, None)
        for delivery in self.deliveries:
            delivery.lost({Place(*tp) for tp in tps})
        if self.agents_declared.from_beginning:
            self._forget(tps)

    def _forget(self, tps: set[TP]) -> None:
        """Drop the state of partitions, also of new ones: a record in delivery when they were lost may have left some."""
        places = {Place(*tp) for tp in tps}
        for delivery in self.deliveries:
            delivery.progress.forget(places)
            _notify(delivery.handler, "lost", places)

    async def _seeds(self, new: set[TP]) -> dict[TP, list[Seed]]:
        self._seeding = len(new)
        try:
            handlers = [delivery.handler for delivery in self.deliveries]
            found = await read_seeds(self.settings, handlers, {tp.partition for tp in new})
        finally:
            self._seeding = 0
        return {tp: found[tp.partition] for tp in new if tp.partition in found}

    async def drain(self) -> None:
        """Wait for running calls, start no others, and commit."""
        await asyncio.gather(*(delivery.drain() for delivery in self.deliveries))
        if self._consumer is not None and self._assigned:
            await self.consumer.commit()

    async def _turn(self) -> None:
        """Record that the event loop is running."""
        while not self.should_stop:
            self._turned = time.monotonic()
            await self.sleep(_WATCH_SECONDS)

    async def _watch(self) -> None:
        """Measure the lag, and detect when a partition was read up to the end that it had at the start."""
        while not self.should_stop:
            if self._assigned:
                positions = await cast("Consumer", self.consumer).read_positions(list(self._assigned))
                for tp, position in positions.items():
                    if tp in self._assigned:
                        self._update_lag(tp, position)
            await self.sleep(_WATCH_SECONDS)

    def _update_lag(self, tp: TP, position: ReadPosition) -> None:
        self.metrics.lag.labels(*map(str, tp)).set(max(position.end - position.at, 0))
        if tp in self._to_rebuild and position.at >= self._to_rebuild[tp]:
            del self._to_rebuild[tp]
            for delivery in self.deliveries:
                _notify(delivery.handler, "rebuilt", {Place(*tp)})

    def _new_transport(self) -> Transport:
        return Transport(self.conf.broker_consumer, self)

    def _create_directories(self) -> None:
        """Do nothing: there are no tables on disk."""


def _notify(handler: Handler, what: Literal["assigned", "lost", "rebuilt"], places: set[Place]) -> None:
    """Notify a handler that keeps state per partition."""
    listener = cast("Callable[[set[Place]], None] | None", getattr(handler, what, None))
    if listener is not None:
        listener(places)


def _actor(delivery: Delivery) -> Callable[[Any], AsyncIterator[str]]:
    """Return the Faust actor of a delivery; it yields each record's outcome for `Agent.test_context`."""

    async def take(stream: Any) -> AsyncIterator[str]:  # noqa: ANN401  a stream of Faust
        stream.enable_acks = False
        async for event in stream.events():
            outcome = await delivery.take(event.value)
            if outcome is None:
                # Neither done nor acknowledged: the partition's next owner receives it. Faust cancels this task when the app stops.
                await asyncio.Event().wait()
                return
            event.ack()
            yield outcome

    return take
