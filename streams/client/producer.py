"""Writing to Kafka: records put into batches in the caller's thread, sent in the loop, by a producer that can always be ended."""

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

__all__ = ["BATCH_BYTES", "BatchTooLargeError", "Batches", "Producer"]

BATCH_BYTES: Final = 512 << 10
"""Of records that are sent together, before they are compressed. A larger record goes alone."""
_REQUEST_BYTES: Final = (4 << 20) + (64 << 10)
_RETRY_MS: Final = 20
"""A broker of Kafka 4 often asks a client of aiokafka's age to send a transaction's first batches again, at once; it takes 100 ms
unless told otherwise, and a commit takes 7."""
_STOP_SECONDS: Final = 1.0
_NOTICE_SECONDS: Final = 5.0
_TOO_LARGE: Final = (MessageSizeTooLargeError, RecordListTooLargeError)

T = TypeVar("T")


class BatchTooLargeError(Exception):
    """Raised when a broker does not take records because they are too large."""

    def __init__(self, partition: TopicPartition, first: int, count: int) -> None:
        """Describe them.

        Args:
            partition: their partition.
            first: place of the first of them among the records for that partition.
            count: records in the request.
        """
        super().__init__(f"{partition.topic} does not take records of that size")
        self.partition: Final = partition
        self.first: Final = first
        self.count: Final = count


class Batches:
    """Records in the order in which they are to be written, by partition."""

    def __init__(self, producer: Any) -> None:  # noqa: ANN401  aiokafka has no types
        """Collect for a producer of aiokafka's."""
        self._producer = producer
        self.by_partition: dict[TopicPartition, list[Any]] = defaultdict(list)

    def add(self, partition: TopicPartition, fields: Fields) -> None:
        """Put a record behind the others of its partition."""
        self.append(partition, fields.key, fields.value, fields.headers)

    def add_state(self, partition: TopicPartition, key: bytes, value: bytes | None) -> None:
        """Put a record of a compacted topic behind the others; without a value it deletes its key."""
        self.append(partition, key, value, [])

    def append(self, partition: TopicPartition, key: bytes, value: bytes | None, headers: list[tuple[str, bytes]]) -> None:
        """Put a record of any key, value and headers behind the others of its partition."""
        batches = self.by_partition[partition]
        if batches and batches[-1].append(timestamp=None, key=key, value=value, headers=headers) is not None:
            return
        # The first record of a batch is taken, however large it is.
        batches.append(self._producer.create_batch())
        batches[-1].append(timestamp=None, key=key, value=value, headers=headers)


class Producer:
    """A producer of aiokafka's behind a loop. It is used by one thread at a time, and not again after an error."""

    def __init__(
        self,
        background: BackgroundLoop,
        settings: KafkaSettings,
        transactional_id: str | None = None,
        batch_bytes: int = BATCH_BYTES,
    ) -> None:
        """Connect.

        Args:
            background: its event loop's thread.
            settings: of the cluster.
            transactional_id: fences other producers with the same id; `None`: idempotent without transactions.
            batch_bytes: of records that are sent together.

        Raises:
            KafkaError: no broker answers in time, or one says no.
        """
        self._background = background
        self.owner: Final = TaskOwner()
        """Owner of its tasks in the loop, which end with it."""
        self._seconds = settings.transaction_seconds if transactional_id else settings.delivery_seconds
        self.aiokafka: Any = None
        """The producer below; `None`: closed."""
        # As long a batch waits for its partition's leader.
        more: dict[str, Any] = {"enable_idempotence": True, "request_timeout_ms": int(settings.delivery_seconds * 1000)}
        self._batch_bytes: Final = batch_bytes
        if transactional_id:
            more = {
                "transactional_id": transactional_id,
                "retry_backoff_ms": _RETRY_MS,
                # Longer than a commit may take here, so that no broker aborts a transaction whose commit is still awaited.
                "transaction_timeout_ms": int(settings.transaction_seconds * 1000) + 1_000,
            }
        try:
            self._background.run(self._start(settings, more), self.owner)
        except BaseException:
            self.close()
            raise

    @property
    def epoch(self) -> int:
        """Which holder of its transactional id it is."""
        return int(self.aiokafka._txn_manager.producer_epoch)  # noqa: SLF001  aiokafka does not show it

    def batches(self) -> Batches:
        """Return an empty collection of records."""
        return Batches(self.aiokafka)

    def write(self, batches: Batches, on_wait: Callable[[], object] = lambda: None) -> dict[TopicPartition, int]:
        """Write records; return the offset behind the last one in each partition.

        Args:
            batches: the records.
            on_wait: called once, in the loop's thread, if brokers have not answered after 5 s.

        Raises:
            BatchTooLargeError: a broker does not take some of them; others may have been written.
            KafkaError: some may have been written, some not.
        """
        return self._run(self._write(batches, on_wait), self._seconds)

    def transact(
        self, batches: Batches, offsets: Mapping[TopicPartition, tuple[int, str]], group: str
    ) -> dict[TopicPartition, int]:
        """Write records and a group's offsets, all or none; return the offset behind the last record in each partition.

        Raises:
            ProducerFenced: another producer has the transactional id; nothing was written.
            BatchTooLargeError: a broker does not take some of them; nothing will be written if it is told to `abort`.
            KafkaError: it is not known what was written.
        """
        return self._run(self._transaction(batches, offsets, group), self._seconds)

    def abort(self) -> None:
        """Abort the current transaction.

        Raises:
            ProducerFenced: another producer has the transactional id.
            KafkaError: no broker answers.
        """
        self._run(self.aiokafka.abort_transaction(), self._seconds)

    def close(self) -> None:
        """Stop it, also within a request. Idempotent."""
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
        # A request that is not answered is sent again long before a batch is given up.
        for part in (self.aiokafka.client, self.aiokafka._sender):  # noqa: SLF001
            part._request_timeout_ms = arguments["request_timeout_ms"]  # noqa: SLF001
        await connect(self.aiokafka.client, arguments, settings.request_seconds)
        # Its own `start` connects once, and does not say why it failed.
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
        # Behind a batch that was not taken the others wait in vain.
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
        # Both are on their way at once; await every acknowledgement here: aiokafka would commit without a batch that failed.
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
        except (Exception, asyncio.CancelledError):  # noqa: BLE001  it is stopped, whatever the error
            with contextlib.suppress(Exception):
                async with asyncio.timeout(_STOP_SECONDS):
                    await producer.client.close()
        finally:
            # It would retry unsent batches for ever.
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
    """Wait for all, then raise what went wrong: first what explains the rest.

    A refusal ends a transaction for aiokafka, which sends its batches nevertheless; they fail by another error.
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
