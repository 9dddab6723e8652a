"""Producer: batches are built in the caller's thread and sent in the loop; it can be stopped at any time."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, TypeVar

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, KafkaTimeoutError, MessageSizeTooLargeError, ProducerFenced, RecordListTooLargeError
from aiokafka.structs import OffsetAndMetadata, TopicPartition

from streams.client.connecting import connect
from streams.client.loop import BackgroundLoop, TaskOwner
from streams.codec import Fields
from streams.errors import REFUSALS
from streams.settings import KafkaSettings

BATCH_BYTES: Final = 512 << 10
"""Bytes of a batch before compression. A larger record gets a batch of its own."""
_REQUEST_BYTES: Final = (4 << 20) + (64 << 10)
_RETRY_MS: Final = 20
"""Retry delay (milliseconds). Brokers of Kafka 4 often ask aiokafka to resend a transaction's first batches. aiokafka's default
delay is 100 ms, while a commit takes 7 ms."""
_STOP_SECONDS: Final = 1.0
_NOTICE_SECONDS: Final = 5.0
_TOO_LARGE: Final = (MessageSizeTooLargeError, RecordListTooLargeError)

T = TypeVar("T")


class BatchTooLargeError(Exception):
    """Raised when a broker rejects records because they are too large."""

    def __init__(self, partition: TopicPartition, first: int, count: int) -> None:
        """Store the location of the records.

        Args:
            partition: partition of the records.
            first: index of the first one among the records for that partition.
            count: number of records in the request.
        """
        super().__init__(f"{partition.topic} does not take records of that size")
        self.partition: Final = partition
        self.first: Final = first
        self.count: Final = count


class Batches:
    """Records in write order, by partition."""

    def __init__(self, producer: Any) -> None:  # noqa: ANN401  aiokafka has no types
        """Collect records for a producer of aiokafka."""
        self._producer = producer
        self.by_partition: dict[TopicPartition, list[Any]] = defaultdict(list)

    def add(self, partition: TopicPartition, fields: Fields) -> None:
        """Append a record to its partition's batches."""
        self.append(partition, fields.key, fields.value, fields.headers)

    def add_state(self, partition: TopicPartition, key: bytes, value: bytes | None) -> None:
        """Append a record of a compacted topic; without a value it is a tombstone for its key."""
        self.append(partition, key, value, [])

    def append(self, partition: TopicPartition, key: bytes, value: bytes | None, headers: list[tuple[str, bytes]]) -> None:
        """Append a record of any key, value and headers to its partition's batches."""
        batches = self.by_partition[partition]
        if batches and batches[-1].append(timestamp=None, key=key, value=value, headers=headers) is not None:
            return
        # A new batch accepts its first record, whatever its size.
        batches.append(self._producer.create_batch())
        batches[-1].append(timestamp=None, key=key, value=value, headers=headers)


class Producer:
    """Wrapper around aiokafka's producer, for one thread at a time; unusable after an error."""

    def __init__(
        self,
        background: BackgroundLoop,
        settings: KafkaSettings,
        transactional_id: str | None = None,
        batch_bytes: int = BATCH_BYTES,
    ) -> None:
        """Connect.

        Args:
            background: thread of the event loop.
            settings: settings of the cluster.
            transactional_id: fences other producers with the same id; `None`: idempotent without transactions.
            batch_bytes: maximum size of a batch before compression.

        Raises:
            KafkaError: no broker answers in time, or one rejects the request.
        """
        self._background = background
        self.owner: Final = TaskOwner()
        """Owner of its tasks in the loop, which end with it."""
        self.seconds = settings.transaction_seconds if transactional_id else settings.delivery_seconds
        """Time limit of each call."""
        self.aiokafka: Any = None
        """The producer below; `None`: closed."""
        # A batch waits this long for its partition's leader.
        more: dict[str, Any] = {"enable_idempotence": True, "request_timeout_ms": int(settings.delivery_seconds * 1000)}
        self._batch_bytes: Final = batch_bytes
        if transactional_id:
            more = {
                "transactional_id": transactional_id,
                "retry_backoff_ms": _RETRY_MS,
                # Longer than the limit for a commit here, so that no broker aborts a transaction whose commit is awaited.
                "transaction_timeout_ms": int(settings.transaction_seconds * 1000) + 1_000,
            }
        try:
            self._background.run(self._start(settings, more), self.owner)
        except BaseException:
            self.close()
            raise

    @property
    def epoch(self) -> int:
        """Producer epoch of its transactional id."""
        return int(self.aiokafka._txn_manager.producer_epoch)  # noqa: SLF001  aiokafka has no public access

    def batches(self) -> Batches:
        """Return empty batches."""
        return Batches(self.aiokafka)

    def write(self, batches: Batches, on_wait: Callable[[], object] = lambda: None) -> dict[TopicPartition, int]:
        """Write records; return the end offset of each partition written.

        Args:
            batches: records to write.
            on_wait: called once, in the loop's thread, if brokers have not answered after 5 s.

        Raises:
            BatchTooLargeError: a broker rejects some records; others may have been written.
            KafkaError: some records may have been written.
        """
        return self._run(self._write(batches, on_wait), self.seconds)

    def transact(
        self, batches: Batches, offsets: Mapping[TopicPartition, tuple[int, str]], group: str
    ) -> dict[TopicPartition, int]:
        """Write records and a group's offsets in one transaction; return the end offset of each partition written.

        Raises:
            ProducerFenced: another producer has the transactional id; nothing was written.
            BatchTooLargeError: a broker rejects some records; `abort` discards the transaction.
            KafkaError: the outcome is unknown.
        """
        return self._run(self._transaction(batches, offsets, group), self.seconds)

    def abort(self) -> None:
        """Abort the current transaction.

        Raises:
            ProducerFenced: another producer has the transactional id.
            KafkaError: no broker answers.
        """
        self._run(self.aiokafka.abort_transaction(), self.seconds)

    def close(self) -> None:
        """Stop the producer, even during a request. Idempotent."""
        self._background.run(self._stop(), self.owner)

    def _run(self, coroutine: Coroutine[Any, Any, T], seconds: float) -> T:
        return self._background.run(_within(seconds, coroutine), self.owner)

    async def _start(self, settings: KafkaSettings, more: dict[str, Any]) -> None:
        arguments = settings.client_arguments()
        self.aiokafka = AIOKafkaProducer(
            **(arguments | more),
            acks="all",
            compression_type=None if settings.compression == "none" else settings.compression,
            max_batch_size=self._batch_bytes,
            max_request_size=_REQUEST_BYTES,
        )
        # Unanswered requests are retried long before the delivery time-out of a batch.
        for part in (self.aiokafka.client, self.aiokafka._sender):  # noqa: SLF001
            part._request_timeout_ms = arguments["request_timeout_ms"]  # noqa: SLF001
        await connect(self.aiokafka.client, arguments, settings.request_seconds)
        # aiokafka's `start` tries once, and does not report the cause of a failure.
        await _within(settings.request_seconds, self.aiokafka._sender.start())  # noqa: SLF001

    async def _write(self, batches: Batches, on_wait: Callable[[], object]) -> dict[TopicPartition, int]:
        notice = asyncio.get_running_loop().call_later(_NOTICE_SECONDS, on_wait)
        try:
            return await self.send_in_loop(batches)
        finally:
            notice.cancel()

    async def send_in_loop(self, batches: Batches) -> dict[TopicPartition, int]:
        """Send batches, in the loop, and return the offset behind the last record of each partition."""
        ends = await _all(self._send_in_order(*found) for found in batches.by_partition.items())
        return dict(zip(batches.by_partition, ends, strict=True))

    async def _send_in_order(self, partition: TopicPartition, batches: list[Any]) -> int:
        futures = [await self.aiokafka.send_batch(batch, partition.topic, partition=partition.partition) for batch in batches]
        counts = [batch.record_count() for batch in batches]
        # After a rejected batch, the later ones of the partition cannot succeed.
        await asyncio.wait(futures, return_when=asyncio.FIRST_EXCEPTION)
        for place, future in enumerate(futures):
            if future.done() and not future.cancelled() and isinstance(future.exception(), _TOO_LARGE):
                raise BatchTooLargeError(partition, sum(counts[:place]), counts[place])
        written = await _all(futures)
        end: int = written[-1].offset + counts[-1]
        return end

    async def _transaction(
        self, batches: Batches, offsets: Mapping[TopicPartition, tuple[int, str]], group: str
    ) -> dict[TopicPartition, int]:
        producer = self.aiokafka
        await producer.begin_transaction()
        taken = {partition: OffsetAndMetadata(*found) for partition, found in offsets.items()}
        # Batches and offsets are sent concurrently; await every acknowledgement here: aiokafka would commit without a batch that
        # failed.
        ends, _ = await _all((self.send_in_loop(batches), producer.send_offsets_to_transaction(taken, group)))
        await producer.commit_transaction()
        return dict(ends)

    async def _stop(self) -> None:
        producer, self.aiokafka = self.aiokafka, None
        if producer is None:
            return
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await producer.stop()
        except (Exception, asyncio.CancelledError):  # noqa: BLE001  it is stopped after any error
            with contextlib.suppress(Exception):
                async with asyncio.timeout(_STOP_SECONDS):
                    await producer.client.close()
        finally:
            # aiokafka would retry unsent batches forever.
            self.owner.cancel()


async def _within(seconds: float, coroutine: Coroutine[Any, Any, T]) -> T:
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await coroutine
    except TimeoutError:
        if limit.expired():
            raise KafkaTimeoutError(f"no answer within {seconds:g} s") from None
        raise


async def _all(waited_for: Any) -> list[Any]:  # noqa: ANN401  aiokafka has no types
    """Wait for all results; raise the most specific error.

    aiokafka sends a transaction's batches even after the offsets were rejected; these batches then fail with a less specific error.
    """
    found = await asyncio.gather(*waited_for, return_exceptions=True)
    errors = [answer for answer in found if isinstance(answer, BaseException)]
    for explains in (ProducerFenced, BatchTooLargeError, REFUSALS):
        for error in errors:
            if isinstance(error, explains):
                raise error
    for error in errors:
        raise error if isinstance(error, KafkaError | asyncio.CancelledError) else KafkaError(repr(error))
    return found
