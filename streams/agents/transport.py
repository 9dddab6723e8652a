"""Faust transport for agents that loses no records and reads committed records only.

Faust 0.15 with `at_least_once` reads uncommitted records, so an agent would receive events of aborted transactions. It may also
commit the offset of a record that no agent has finished: if a codec rejects a later one, if aborted records precede it, or if a
rebalance drops it from an agent's queue. This transport creates the consumer from Lahar's settings, reads committed records only,
and commits an offset once all agents are done with all records before it.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, cast

from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaError
from aiokafka.protocol.commit import OffsetCommitRequest
from aiokafka.structs import OffsetAndMetadata, TopicPartition
from faust.transport.drivers import aiokafka as driver
from faust.types.tuples import TP, ConsumerMessage

from streams.client.broker_requests import TEN_YEARS_MS
from streams.client.group_member import FENCED_INSTANCE, Heartbeat
from streams.errors import REFUSALS

_FETCH_WAIT_MS: Final = 500
_POSITION_SECONDS: Final = 0.5
_MAX_POLL_MS: Final = 24 * 3_600_000
"""`max.poll.interval` of agents (milliseconds): a failing event blocks its partition, and would fail in any other process too."""

_log = logging.getLogger("lahar.agents")


class ReadPosition(NamedTuple):
    """Read position and end of a partition."""

    at: int
    """Next offset."""
    end: int
    """Last known end offset of the readable records."""


class Given(ConsumerMessage):
    """A record in delivery to the agents."""

    done: bool = False
    """True once all agents have acknowledged it. Faust's `acked` is also true for records that it has discarded."""

    def on_final_ack(self, consumer: Any) -> bool:  # noqa: ANN401  Faust's interface
        """Record that the last agent is done."""
        self.done = True
        return bool(super().on_final_ack(consumer))


class _Thread(driver.AIOKafkaConsumerThread):
    """Consumer thread, separate from the agents, so that heartbeats continue while they run."""

    app: Any
    """The `AgentApp`; typed as `Any`, because its module imports this one."""

    def __post_init__(self) -> None:
        """Close the loop with the thread, even if the thread never ran, as in a test context."""
        super().__post_init__()
        weakref.finalize(self, self.thread_loop.close)

    def _create_worker_consumer(self, transport: Any) -> AIOKafkaConsumer:  # noqa: ANN401, ARG002  as Faust calls it
        conf = self.app.conf
        self._assignor = RangePartitionAssignor
        return AIOKafkaConsumer(
            **self.app.settings.client_arguments(),
            group_id=conf.id,
            group_instance_id=conf.consumer_group_instance_id,
            partition_assignment_strategy=[RangePartitionAssignor],
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            max_poll_records=conf.broker_max_poll_records,
            max_poll_interval_ms=_MAX_POLL_MS,
            max_partition_fetch_bytes=conf.consumer_max_fetch_size,
            fetch_max_wait_ms=_FETCH_WAIT_MS,
            session_timeout_ms=int(conf.broker_session_timeout * 1_000),
            rebalance_timeout_ms=int(conf.broker_rebalance_timeout * 1_000),
            heartbeat_interval_ms=int(conf.broker_heartbeat_interval * 1_000),
        )

    async def _commit(self, offsets: Mapping[TP, int]) -> bool:
        """Commit offsets; on a failure or after losing the partitions, leave it to a later commit or to the new owner."""
        consumer = self._ensure_consumer()
        assigned = consumer.assignment()
        found = {TopicPartition(*tp): OffsetAndMetadata(offset, "") for tp, offset in offsets.items() if tp in assigned}
        try:
            # aiokafka would retry until a broker answers, which would block the shutdown.
            async with asyncio.timeout(self.app.settings.request_seconds):
                await consumer.commit(found)
        except (KafkaError, TimeoutError) as error:
            _log.warning("the position cannot be committed now: %s", type(error).__name__)
            return False
        return True

    async def on_start(self) -> None:
        """Connect, with changed group requests: offsets are retained, and heartbeats of a static member include its instance id.

        aiokafka's own heartbeats lack it, so that two processes with one instance id would take the membership from each other
        forever.
        """
        await super().on_start()
        coordinator = self._ensure_consumer()._coordinator  # noqa: SLF001  aiokafka has no public access
        coordinator._send_req = partial(_send, coordinator._send_req)  # noqa: SLF001  the same
        if self.app.conf.consumer_group_instance_id is not None:
            coordinator._do_heartbeat = partial(self._heartbeat, coordinator, coordinator._do_heartbeat)  # noqa: SLF001  the same

    async def _heartbeat(self, coordinator: Any, as_ever: Callable[[], Awaitable[bool]]) -> bool:  # noqa: ANN401  no types
        instance = self.app.conf.consumer_group_instance_id
        asked = Heartbeat(coordinator.group_id, coordinator.generation, coordinator.member_id, instance)
        try:
            answer = await coordinator._send_req(asked)  # noqa: SLF001  the same
        except KafkaError:
            return False
        if answer.error_code == FENCED_INSTANCE:
            self.app.replaced = True
            return False
        return await as_ever()

    async def on_thread_stop(self) -> None:
        """Leave the group, if a broker answers."""
        try:
            async with asyncio.timeout(self.app.settings.request_seconds):
                await super().on_thread_stop()
        except (asyncio.CancelledError, KafkaError, TimeoutError) as error:
            # Without a broker aiokafka cancels itself, and Faust would wait for this thread forever.
            _log.warning("the group could not be left: %s", type(error).__name__)

    @property
    def refused(self) -> BaseException | None:
        """Error with which the group rejects this process; aiokafka does not raise it while no partition is assigned."""
        coordinator = None if self._consumer is None else self._consumer._coordinator  # noqa: SLF001  the same
        error: BaseException | None = getattr(coordinator, "_pending_exception", None)
        return error if isinstance(error, REFUSALS) else None

    async def seek_to(self, offsets: Mapping[TP, int | None]) -> None:
        """Continue at these offsets; `None`: the beginning."""
        await self.call_thread(self._seek_to, offsets)

    async def _seek_to(self, offsets: Mapping[TP, int | None]) -> None:
        consumer = self._ensure_consumer()
        for tp, offset in offsets.items():
            if offset is None:
                await consumer.seek_to_beginning(TopicPartition(*tp))
            else:
                consumer.seek(TopicPartition(*tp), offset)

    async def read_positions(self, tps: Collection[TP]) -> dict[TP, ReadPosition]:
        """Return the fetch positions of this process's partitions."""
        found: dict[TP, ReadPosition] = await self.call_thread(self._read_positions, tps)
        return found

    async def _read_positions(self, tps: Collection[TP]) -> dict[TP, ReadPosition]:
        consumer, found = self._ensure_consumer(), {}
        for tp in tps:
            partition = TopicPartition(*tp)
            try:
                # Skipped: `position` blocks while Kafka has not reported where the partition begins.
                at = await asyncio.wait_for(consumer.position(partition), _POSITION_SECONDS)
            except (KafkaError, TimeoutError):
                continue
            if partition in consumer.assignment():
                found[tp] = ReadPosition(at, consumer.last_stable_offset(partition) or 0)
        return found


async def _send(as_ever: Callable[[Any], Awaitable[Any]], request: Any) -> Any:  # noqa: ANN401  aiokafka has no types
    """Send a group request; commits ask for a retention of ten years, because the brokers' default deletes offsets after a week."""
    if isinstance(request, OffsetCommitRequest):
        request._retention_time = TEN_YEARS_MS  # noqa: SLF001  aiokafka always uses the brokers' default
    return await as_ever(request)


class Consumer(driver.Consumer):
    """Consumer that commits an offset once all records before it are done."""

    app: Any
    _thread: _Thread

    def __init__(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401  handed on
        super().__init__(*arguments, **named)
        self._given: defaultdict[TP, deque[Given]] = defaultdict(deque)
        self._reached: dict[TP, int] = {}
        """Offsets that are not committed yet."""
        self._seeking = asyncio.Lock()
        self._held: dict[TP, int] = {}
        """Offsets of agents that read from the beginning; never committed to Kafka."""

    def _new_consumer_thread(self) -> _Thread:
        return _Thread(self, loop=self.loop, beacon=self.beacon)

    def _to_message(self, tp: TP, record: Any) -> Given:  # noqa: ANN401  aiokafka has no types
        given = cast("Given", Given.from_message(super()._to_message(tp, record), tp))
        given.generation_id = self.app.consumer_generation_id
        self._given[tp].append(given)
        return given

    @property
    def refused(self) -> BaseException | None:
        """Error with which the group rejects this process; `None` if there is none."""
        return self._thread.refused if self._thread else None

    async def read_positions(self, tps: Collection[TP]) -> dict[TP, ReadPosition]:
        """Return the positions up to which all records are done."""
        found = await self._thread.read_positions(tps)
        for tp, position in found.items():
            waiting = next((given.offset for given in self._given[tp] if not given.done), None)
            if waiting is not None:
                found[tp] = position._replace(at=waiting)
        return found

    def _new_offset(self, tp: TP) -> int | None:
        self._acked[tp].clear()
        self._acked_index[tp].clear()
        # Faust acknowledges the records that it discards when it empties its queues.
        if not self.app.flow_control.is_active():
            return None
        given = self._given[tp]
        while given and given[0].done:
            self._reached[tp] = given.popleft().offset + 1
        return self._reached.get(tp)

    def _should_commit(self, tp: TP, offset: int) -> bool:  # noqa: ARG002  as Faust calls it
        """Faust treats a failed commit as committed, and would not retry before the position advances."""
        return True

    async def maybe_wait_for_commit_to_finish(self) -> bool:
        """Wait for a running commit, then commit again, which Faust omits: records done since it began would be delivered again."""
        while (under_way := self._commit_fut) is not None:
            await asyncio.wait({under_way})
        return False

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        """Do nothing: only delivered records count, so gaps between offsets need no bookkeeping."""

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Commit the records done before the partitions move."""
        await self.commit()
        self._forget()
        await super().on_partitions_revoked(revoked)

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        """Suspend delivery until the starting offsets are found. Faust does so only if it had a partition before."""
        self.stop_flow()
        self.app.flow_control.suspend()
        await super().on_partitions_assigned(assigned, generation_id)
        if not assigned:
            # Faust looks up no offsets if no partition is assigned, so the app is notified here.
            self.add_future(self._left_without())

    async def _left_without(self) -> None:
        async with self._seeking:
            if not self.assignment():
                await self.app.resumed({})

    async def perform_seek(self) -> None:
        """Seek to the first record that is not done; fetched records are delivered again. Faust may call this concurrently."""
        async with self._seeking:
            self._forget()
            await super().perform_seek()

    def _forget(self) -> None:
        self._given.clear()
        self._reached.clear()

    async def seek_to_committed(self) -> Mapping[TP, int]:
        """Seek to the position of these agents, and notify the app."""
        assigned = self.assignment()
        if self.app.agents_declared.from_beginning:
            found: dict[TP, int | None] = await self.app.resumed({tp: self._held.get(tp) for tp in assigned})
            self._held = {tp: offset for tp, offset in found.items() if offset is not None}
            await self._thread.seek_to(found)
        else:
            found = {TP(*tp): offset for tp, offset in (await super().seek_to_committed()).items()}
            await self.app.resumed(found)
        # `None` makes Faust use the positions that it has seen.
        return cast("Mapping[TP, int]", found)

    async def _commit(self, offsets: Mapping[TP, int]) -> bool:
        if self.app.agents_declared.from_beginning:
            self._held.update(offsets)
        elif not await super()._commit(offsets):
            return False
        for tp, offset in offsets.items():
            if self._reached.get(tp) == offset:
                del self._reached[tp]
        return True


class Producer(driver.Producer):
    """Producer with Lahar's connection settings; all in-sync replicas acknowledge.

    It is not idempotent: that requires write permission, and most agents send nothing. A sent message may be duplicated, as
    delivered events may; the order within a partition is kept, because only one batch is in flight.
    """

    app: Any

    def _settings_auth(self) -> dict[str, Any]:
        return dict(self.app.settings.client_arguments())

    def _settings_extra(self) -> dict[str, Any]:
        return {"acks": "all"}


class Transport(driver.Transport):
    """Faust's transport with this consumer and producer."""

    Consumer = Consumer
    Producer = Producer
