"""Faust's Kafka transport for agents, with fixes for lost and uncommitted records.

Faust 0.15 with `at_least_once` reads uncommitted records, so an agent would receive events of aborted transactions. It can also
commit the offset of a record that no agent has finished: when a codec refuses one behind it, when aborted records stand before it,
or when a rebalance throws it out of an agent's queue. Here the consumer is made from Lahar's own settings and reads committed
records only, and an offset is committed when all agents are done with all records before it.
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

__all__ = ["Consumer", "Given", "ReadPosition", "Transport"]

_FETCH_WAIT_MS: Final = 500
_POSITION_SECONDS: Final = 0.5
_MAX_POLL_MS: Final = 24 * 3_600_000
"""`max.poll.interval` of agents: an event that keeps failing blocks its partition, and would fail in any other process too."""

_log = logging.getLogger("lahar.agents")


class ReadPosition(NamedTuple):
    """How far a partition has been read."""

    at: int
    """Next offset."""
    end: int
    """Offset behind what may be read, as far as is known."""


class Given(ConsumerMessage):
    """A record on its way through the agents."""

    done: bool = False
    """All agents have acknowledged it. Faust's own `acked` also says so of what it has thrown away."""

    def on_final_ack(self, consumer: Any) -> bool:  # noqa: ANN401  Faust's interface
        """Note that the last agent is done."""
        self.done = True
        return bool(super().on_final_ack(consumer))


class _Thread(driver.AIOKafkaConsumerThread):
    """Talks to Kafka in a thread of its own, so that heartbeats continue while agents run."""

    app: Any
    """An `AgentApp`, which imports this module."""

    def __post_init__(self) -> None:
        """Let the loop of a thread that never ran (a test context starts none) be closed with it."""
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
        """Commit; where Kafka cannot be reached, or the partitions are lost, leave it to a later commit, or to who has them now."""
        consumer = self._ensure_consumer()
        assigned = consumer.assignment()
        found = {TopicPartition(*tp): OffsetAndMetadata(offset, "") for tp, offset in offsets.items() if tp in assigned}
        try:
            # aiokafka would go on until a broker answers, and so hold up the end of the process.
            async with asyncio.timeout(self.app.settings.request_seconds):
                await consumer.commit(found)
        except (KafkaError, TimeoutError) as error:
            _log.warning("the position cannot be committed now: %s", type(error).__name__)
            return False
        return True

    async def on_start(self) -> None:
        """Connect, so that what is committed is kept.

        With an instance, heartbeats ask who it is: aiokafka's do not, and would take the name back without end.
        """
        await super().on_start()
        coordinator = self._ensure_consumer()._coordinator  # noqa: SLF001  aiokafka has no other way to it
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
            # Without a broker aiokafka cancels itself, and Faust would wait for this thread for ever.
            _log.warning("the group could not be left: %s", type(error).__name__)

    @property
    def refused(self) -> BaseException | None:
        """Why the group does not let this process in: aiokafka tells it to nobody while there are no partitions."""
        coordinator = None if self._consumer is None else self._consumer._coordinator  # noqa: SLF001  the same
        error: BaseException | None = getattr(coordinator, "_pending_exception", None)
        return error if isinstance(error, REFUSALS) else None

    async def seek_to(self, offsets: Mapping[TP, int | None]) -> None:
        """Go on at these offsets; `None`: at the beginning."""
        await self.call_thread(self._seek_to, offsets)

    async def _seek_to(self, offsets: Mapping[TP, int | None]) -> None:
        consumer = self._ensure_consumer()
        for tp, offset in offsets.items():
            if offset is None:
                await consumer.seek_to_beginning(TopicPartition(*tp))
            else:
                consumer.seek(TopicPartition(*tp), offset)

    async def standings(self, tps: Collection[TP]) -> dict[TP, ReadPosition]:
        """Return the fetch positions of this process's partitions."""
        found: dict[TP, ReadPosition] = await self.call_thread(self._standings, tps)
        return found

    async def _standings(self, tps: Collection[TP]) -> dict[TP, ReadPosition]:
        consumer, found = self._ensure_consumer(), {}
        for tp in tps:
            partition = TopicPartition(*tp)
            try:
                # It waits where Kafka has not said yet where the partition begins.
                at = await asyncio.wait_for(consumer.position(partition), _POSITION_SECONDS)
            except (KafkaError, TimeoutError):
                continue
            if partition in consumer.assignment():
                found[tp] = ReadPosition(at, consumer.last_stable_offset(partition) or 0)
        return found


async def _send(as_ever: Callable[[Any], Awaitable[Any]], request: Any) -> Any:  # noqa: ANN401  aiokafka has no types
    """Send a request of the group. Positions would be forgotten a week after the last process has left, and all be given again."""
    if isinstance(request, OffsetCommitRequest):
        request._retention_time = TEN_YEARS_MS  # noqa: SLF001  aiokafka always asks for what the brokers have as default
    return await as_ever(request)


class Consumer(driver.Consumer):
    """Counts an offset as done when everything before it is."""

    app: Any
    _thread: _Thread

    def __init__(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401  handed on
        super().__init__(*arguments, **named)
        self._given: defaultdict[TP, deque[Given]] = defaultdict(deque)
        self._reached: dict[TP, int] = {}
        """Positions that are not committed yet."""
        self._seeking = asyncio.Lock()
        self._held: dict[TP, int] = {}
        """Positions of agents that read from the beginning; they are never committed to Kafka."""

    def _new_consumer_thread(self) -> _Thread:
        return _Thread(self, loop=self.loop, beacon=self.beacon)

    def _to_message(self, tp: TP, record: Any) -> Given:  # noqa: ANN401  aiokafka has no types
        given = cast("Given", Given.from_message(super()._to_message(tp, record), tp))
        given.generation_id = self.app.consumer_generation_id
        self._given[tp].append(given)
        return given

    @property
    def refused(self) -> BaseException | None:
        """Why the group does not let this process in; `None`: it does, as far as is known."""
        return self._thread.refused if self._thread else None

    async def standings(self, tps: Collection[TP]) -> dict[TP, ReadPosition]:
        """Return the done positions of this process's partitions."""
        found = await self._thread.standings(tps)
        for tp, standing in found.items():
            waiting = next((given.offset for given in self._given[tp] if not given.done), None)
            if waiting is not None:
                found[tp] = standing._replace(at=waiting)
        return found

    def _new_offset(self, tp: TP) -> int | None:
        self._acked[tp].clear()
        self._acked_index[tp].clear()
        # While Faust empties its queues it acknowledges the records that it discards.
        if not self.app.flow_control.is_active():
            return None
        given = self._given[tp]
        while given and given[0].done:
            self._reached[tp] = given.popleft().offset + 1
        return self._reached.get(tp)

    def _should_commit(self, tp: TP, offset: int) -> bool:  # noqa: ARG002  as Faust calls it
        """Faust takes a position whose commit failed for committed, and would not try again before there is a later one."""
        return True

    async def maybe_wait_for_commit_to_finish(self) -> bool:
        """Wait for a commit that is under way, then commit: Faust would not, so what was done since it began would come again."""
        while (under_way := self._commit_fut) is not None:
            await asyncio.wait({under_way})
        return False

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        """Gaps between offsets need no bookkeeping: only delivered records count."""

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Commit done records before the partitions move."""
        await self.commit()
        self._forget()
        await super().on_partitions_revoked(revoked)

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        """Deliver nothing until the starting offsets are known. Faust waits only where it had a partition before."""
        self.stop_flow()
        self.app.flow_control.suspend()
        await super().on_partitions_assigned(assigned, generation_id)
        if not assigned:
            # Faust looks for no position then, so the app would not hear of it.
            self.add_future(self._left_without())

    async def _left_without(self) -> None:
        async with self._seeking:
            if not self.assignment():
                await self.app.resumed({})

    async def perform_seek(self) -> None:
        """Seek back to the first record not done; fetched records come again. Faust may call it twice at a time."""
        async with self._seeking:
            self._forget()
            await super().perform_seek()

    def _forget(self) -> None:
        self._given.clear()
        self._reached.clear()

    async def seek_to_committed(self) -> Mapping[TP, int]:
        """Go to the position of these agents, and tell the app."""
        assigned = self.assignment()
        if self.app.agents_declared.from_beginning:
            found: dict[TP, int | None] = await self.app.resumed({tp: self._held.get(tp) for tp in assigned})
            self._held = {tp: offset for tp, offset in found.items() if offset is not None}
            await self._thread.seek_to(found)
        else:
            found = {TP(*tp): offset for tp, offset in (await super().seek_to_committed()).items()}
            await self.app.resumed(found)
        # `None` makes Faust take what it has seen before.
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
    """Connects as Lahar's settings say; all in-sync copies acknowledge.

    Not idempotent: brokers give such a producer only to who may write, and most agents send nothing. What one sends may come twice
    anyway, as the events do that it is given; the order within a partition stays, as one batch at a time is on its way.
    """

    app: Any

    def _settings_auth(self) -> dict[str, Any]:
        return dict(self.app.settings.client_arguments())

    def _settings_extra(self) -> dict[str, Any]:
        return {"acks": "all"}


class Transport(driver.Transport):
    """Faust's transport with these two."""

    Consumer = Consumer
    Producer = Producer
