"""Single requests to brokers: fetch records, list end offsets, fetch and commit group offsets.

aiokafka's consumer prefetches, so it cannot report that a partition has no more records; a log must. With these requests an empty
fetch is the leader's answer at that time, and costs less than a request for the end offset (0.2 ms against 0.6 ms). They use
aiokafka's connections and metadata below its documented API: run this package's tests against each new minor version first.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from aiokafka.client import AIOKafkaClient, ConnectionGroup, CoordinationType
from aiokafka.errors import (
    OffsetOutOfRangeError,
    RequestTimedOutError,
    StaleMetadata,
    for_code,
)
from aiokafka.protocol.commit import OffsetCommitRequest, OffsetFetchRequest
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.offset import OffsetRequest
from aiokafka.structs import TopicPartition

from streams.client.connecting import connect
from streams.client.metadata import fetch_merged
from streams.client.record_batches import Chunk, RawRecords, committed
from streams.client.retry import retried

_COMMITTED: Final = 1
_UNCOMMITTED: Final = 0
_LATEST: Final = -1
_EARLIEST: Final = -2
_CHUNK_BYTES: Final = 1 << 20
"""Bytes of one fetch. A larger record is returned alone."""
TEN_YEARS_MS: Final = 10 * 365 * 86_400_000
"""Retention of group offsets (milliseconds); the brokers' default deletes them a week after the last member has left."""
_logger: Final = logging.getLogger(__name__)

T = TypeVar("T")

Place = tuple[int, int, int]
"""Read request of a topic: partition, first offset, maximum number of bytes."""


class Wire:
    """Connections of one log. All methods run in the background loop and raise `KafkaError` at their time limit."""

    def __init__(self, arguments: Mapping[str, Any], seconds: float) -> None:
        """Store the settings; `start` connects.

        Args:
            arguments: arguments of aiokafka's client.
            seconds: time limit of one call, including retries.
        """
        self._arguments = arguments
        self._seconds = seconds
        self._coordinators: dict[str, int] = {}
        self._topics: list[str] = []
        self._counts: dict[str, int] = {}
        """Partition counts found by `learn`, by topic."""
        self._beyond: set[TopicPartition] = set()
        """Partitions whose end is before the read position."""
        self._ended: dict[TopicPartition, int] = {}
        """Highest committed end offset that `ends` has returned, by partition."""
        self.client: Any = None
        """The connections below; `None`: not open."""

    async def start(self, topics: Iterable[str]) -> None:
        """Connect, and fetch the partition leaders of some topics."""
        self.client = AIOKafkaClient(**self._arguments)
        await connect(self.client, self._arguments, self._seconds)
        self._topics = sorted(topics)
        await self.client.set_topics(self._topics)

    async def close(self) -> None:
        """Disconnect. Idempotent."""
        if self.client is not None:
            client, self.client = self.client, None
            await client.close()

    def count(self, topic: str) -> int:
        """Return a topic's partition count by the last metadata (refreshed every 10 s); 0 if the topic does not exist."""
        return max(len(self.client.cluster.partitions_for_topic(topic) or ()), self._counts.get(topic, 0))

    @property
    def refused(self) -> list[str]:
        """Topics that this user may not describe, whether or not they exist; by the last metadata."""
        return sorted(self.client.cluster.unauthorized_topics.intersection(self._topics))

    async def learn(self) -> None:
        """Fetch the partition counts from all brokers; brokers learn of changes at different times."""
        for topic, count in (await fetch_merged(self.client, self._topics, self._seconds)).partitions.items():
            self._counts[topic] = max(count, self._counts.get(topic, 0))

    async def fetch(self, partition: TopicPartition, start: int) -> Chunk:
        """Return committed records from `start` on; an empty chunk means that there is none now.

        A new leader may know an outdated end offset for half a second: an answer that ends before an offset returned by `ends` is
        rejected, and the request is retried.
        """
        at, first = start, 0
        while True:
            chunk = await self._retry(lambda: self._fetch_once(partition, at))  # noqa: B023  called before `at` moves
            first = max(first, chunk.first)
            if chunk.records or chunk.behind >= chunk.stable:
                return chunk._replace(first=first)
            at = chunk.behind

    async def fetch_each(self, places: Mapping[TopicPartition, int]) -> dict[TopicPartition, Chunk]:
        """Return committed records of several partitions from a start offset each, with one request per leader.

        A partition with an inconclusive answer is left out; call `fetch` for it.
        """
        return await self._retry(lambda: self._fetch_each_once(places))

    async def ends(self, partitions: Iterable[TopicPartition], *, committed: bool = True) -> dict[TopicPartition, int]:
        """Return the end offset of each partition.

        Args:
            partitions: partitions; each of their leaders is asked once.
            committed: the last stable offset; otherwise the offset behind the last record, including open transactions.
        """
        wanted = list(partitions)
        return await self._retry(lambda: self._offsets(wanted, _LATEST, _COMMITTED if committed else _UNCOMMITTED))

    async def group_offsets(self, group: str) -> dict[TopicPartition, tuple[int, str]]:
        """Return a group's committed offsets and their metadata, by partition."""
        return await self._retry(lambda: self._group_offsets(group))

    async def commit_group(self, group: str, offsets: Mapping[TopicPartition, int], metadata: str = "") -> None:
        """Commit offsets of a group without members atomically, with the same metadata; they are retained for ten years."""
        by_topic: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
        for partition, offset in offsets.items():
            by_topic[partition.topic].append((partition.partition, offset, metadata))
        request = OffsetCommitRequest(group, OffsetCommitRequest.DEFAULT_GENERATION_ID, "", TEN_YEARS_MS, list(by_topic.items()))
        await self._retry(lambda: self._commit_once(group, request))

    # --- single requests --------------------------------------------------------------------------------------------------

    async def _fetch_each_once(self, places: Mapping[TopicPartition, int]) -> dict[TopicPartition, Chunk]:
        by_leader: dict[int, dict[str, list[Place]]] = defaultdict(lambda: defaultdict(list))
        for partition, start in places.items():
            by_leader[self.leader(partition)][partition.topic].append((partition.partition, start, _CHUNK_BYTES))
        ended = {partition: self._ended.get(partition, 0) for partition in places}
        answers = await asyncio.gather(*(self.client.send(leader, _fetch_request(wanted)) for leader, wanted in by_leader.items()))
        found: dict[TopicPartition, Chunk] = {}
        for answer in answers:
            for topic, parts in _without_replica(answer):
                for number, code, _, stable, *_, aborted, content in parts:
                    if code:
                        continue
                    partition = TopicPartition(topic, number)
                    records, behind = committed(content, aborted, places[partition])
                    if stable >= ended[partition] and (records or behind >= stable):
                        found[partition] = Chunk(records, behind, stable)
        return found

    async def _fetch_once(self, partition: TopicPartition, start: int) -> Chunk:
        request = _fetch_request({partition.topic: [(partition.partition, start, _CHUNK_BYTES)]})
        ended = self._ended.get(partition, 0)
        answer = await self.client.send(self.leader(partition), request)
        parts = [part for _, found in _without_replica(answer) for part in found]
        if not parts:
            raise RequestTimedOutError(f"the leader of {partition.topic}/{partition.partition} is throttled by a consumer quota")
        ((_, code, _, stable, *_, aborted, records),) = parts
        error = for_code(code)
        if error is OffsetOutOfRangeError:
            first = (await self._offsets([partition], _EARLIEST, _COMMITTED))[partition]
            if first <= start <= ended:
                raise _ends_before(partition, ended)
            if start >= first:
                if partition not in self._beyond:
                    self._beyond.add(partition)
                    _logger.warning(
                        "%s ends before %d, where it is read; if this persists, it was recreated or truncated", partition, start
                    )
                return Chunk(RawRecords([], start), start, start)
            _logger.warning("%s from %d to %d was deleted by retention", partition, start, first - 1)
            return Chunk(RawRecords([], first), first, first + 1, first)
        _raise_for(code)
        if stable < ended:
            raise _ends_before(partition, ended)
        self._beyond.discard(partition)
        found, behind = committed(records, aborted, start)
        if behind == start < stable:
            raise RequestTimedOutError(f"{partition.topic}/{partition.partition} gives no record of those that it has")
        return Chunk(found, behind, stable)

    async def _offsets(self, partitions: list[TopicPartition], when: int, isolation: int) -> dict[TopicPartition, int]:
        by_leader: dict[int, dict[str, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
        for partition in partitions:
            by_leader[self.leader(partition)][partition.topic].append((partition.partition, when))
        answers = await asyncio.gather(
            *(self.client.send(leader, OffsetRequest(-1, isolation, list(topics.items()))) for leader, topics in by_leader.items())
        )
        found: dict[TopicPartition, int] = {}
        for answer in answers:
            for topic, parts in answer.topics:
                for number, code, _, offset, *_ in parts:
                    _raise_for(code)
                    found[TopicPartition(topic, number)] = offset
        if (when, isolation) == (_LATEST, _COMMITTED):
            for partition, end in found.items():
                self._ended[partition] = max(end, self._ended.get(partition, 0))
        return found

    async def _group_offsets(self, group: str) -> dict[TopicPartition, tuple[int, str]]:
        answer = await self._ask_coordinator(group, OffsetFetchRequest(group, None))
        self._raise_for_group(group, answer.error_code)
        found: dict[TopicPartition, tuple[int, str]] = {}
        for topic, parts in answer.topics:
            for number, offset, metadata, code in parts:
                self._raise_for_group(group, code)
                if offset >= 0:
                    found[TopicPartition(topic, number)] = offset, metadata
        return found

    async def _commit_once(self, group: str, request: OffsetCommitRequest) -> None:
        answer = await self._ask_coordinator(group, request)
        for _, parts in answer.topics:
            for _, code in parts:
                self._raise_for_group(group, code)

    async def _ask_coordinator(self, group: str, request: Any) -> Any:  # noqa: ANN401  aiokafka has no types
        node = self._coordinators.get(group)
        if node is None:
            node = self._coordinators[group] = await self.client.coordinator_lookup(CoordinationType.GROUP, group)
        try:
            return await self.client.send(node, request, group=ConnectionGroup.COORDINATION)
        except BaseException:
            # Also on cancellation: a frozen coordinator that never answers would otherwise be asked forever.
            self._coordinators.pop(group, None)
            raise

    def _raise_for_group(self, group: str, code: int) -> None:
        if code:
            self._coordinators.pop(group, None)
            _raise_for(code)

    def leader(self, partition: TopicPartition) -> int:
        """Return the id of the broker that leads a partition.

        Raises:
            StaleMetadata: the metadata has no leader of the partition.
        """
        leader: int | None = self.client.cluster.leader_for_partition(partition)
        if leader is None or leader < 0:
            raise StaleMetadata(f"no broker leads {partition.topic}/{partition.partition} at this moment")
        return leader

    async def _retry(self, ask: Callable[[], Awaitable[T]]) -> T:
        return await retried(ask, self._seconds, self.client)


def _fetch_request(wanted: Mapping[str, list[Place]]) -> FetchRequest:
    size = sum(len(places) for places in wanted.values()) * _CHUNK_BYTES
    # The broker answers at once with the records that it has.
    return FetchRequest(0, 1, size, _COMMITTED, list(wanted.items()))


def _ends_before(partition: TopicPartition, ended: int) -> StaleMetadata:
    name = f"{partition.topic}/{partition.partition}"
    return StaleMetadata(
        f"the leader of {name} does not know {ended} of its offsets; if this persists, the topic was recreated or cut"
    )


def _raise_for(code: int) -> None:
    if code:
        raise for_code(code)


def _without_replica(answer: Any) -> Iterator[tuple[str, list[tuple[Any, ...]]]]:  # noqa: ANN401  aiokafka has no types
    """Yield the topics of a fetch response, without the preferred replica that newer versions add before the records."""
    for topic, parts in answer.topics:
        yield topic, [(*part[:-2], part[-1]) if answer.API_VERSION >= 11 else part for part in parts]
