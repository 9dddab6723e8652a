"""Log on Kafka: topics of records, one transaction per commit, in a cluster of any size.

It fulfils the contract of `engine.log.port`, with three differences:
- Records of one transaction become visible partition by partition, within milliseconds, so a reader of several partitions may see
  one before another. Within one partition a transaction becomes visible as a whole.
- `append` writes each partition's records in order and once. After an error some partitions may have theirs: append again;
  duplicate inputs are detected by their ids.
- Commit order across partitions is append time by the brokers' clocks; within one millisecond, inputs precede outputs of stages. A
  shard's outputs keep their order and follow the inputs that it had read, whatever the clocks are.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final

from aiokafka.structs import TopicPartition

from engine.events import Message, Topic
from engine.log.errors import FencedError, LogUnavailableError, RecordTooLargeError
from engine.log.partitioner import partition_of
from engine.log.port import Partition, Record, ShardId, ShardView, size_of
from engine.log.start import StartWait
from streams.client.producer import BatchTooLargeError, Producer
from streams.client.record_batches import RawRecord
from streams.cluster import Cluster
from streams.codec import encode
from streams.errors import TopicsMissingError, must_be_described, unavailable_if
from streams.layout import equal, narrowed
from streams.search import scan
from streams.settings import KafkaSettings
from streams.shard import KafkaShard
from streams.shard_positions import last_known, look, must_not_have_moved, positions_of, shards_of

_log: Final = logging.getLogger(__name__)
_POLL_SECONDS: Final = 0.02
"""Longest delay until `wait` notices appends of other processes (seconds)."""


class KafkaLog(Cluster):
    """Log in a Kafka cluster, with one holder per shard and any number of appenders and readers, in any threads and processes."""

    finds_by_key: Final = False
    """Kafka has no index by key."""

    def __init__(self, settings: KafkaSettings, *, readonly: bool = False) -> None:
        """Connect.

        Args:
            settings: address and options of the cluster.
            readonly: reject writes. Records written before the topics grew can then be read.

        Raises:
            LogUnavailableError: the cluster cannot be reached.
            TopicsMissingError: the topics do not exist.
            LayoutError: topics that must have equal numbers of partitions do not.
        """
        super().__init__(settings, readonly=readonly)
        self._appender: Producer | None = None
        self._append_lock = threading.Lock()
        self._seen = threading.local()
        self._read: set[Partition] = set()
        try:
            self.counts = self._layout()
        except BaseException:
            self.close()
            raise

    def append(self, topic: Topic, messages: Sequence[Message]) -> None:
        """Append inputs in order; each goes to the partition of its key.

        Waits up to `delivery_seconds` for unavailable brokers, with one warning.

        Raises:
            LogUnavailableError: the cluster cannot be written; some partitions may have their records: append again.
            RecordTooLargeError: a broker rejects the size of a message; others may have been written.
            LayoutError: the topic has grown.
            ValueError: a message has text that is not valid Unicode; nothing was appended.
        """
        if not messages:
            return
        self._must_be_writable()
        name, count = self.names[topic], self.counts[topic]
        unwritten = f"{name} of {self.settings.where} cannot be written"
        with self._append_lock, unavailable_if(unwritten):
            appender = self._connected(unwritten)
            batches = appender.batches()
            for message in messages:
                batches.add(TopicPartition(name, partition_of(message.key, count)), encode(message))
            try:
                written = appender.write(
                    batches, lambda: _log.warning("waiting up to %g s: %s", self.settings.delivery_seconds, unwritten)
                )
            except BaseException as error:
                self._appender = None
                self.held.discard(appender)
                appender.close()
                if isinstance(error, BatchTooLargeError):
                    raise self._too_large(messages, error) from error
                raise
        self.wrote(written)

    def _connected(self, unwritten: str) -> Producer:
        wait = StartWait(self.settings.delivery_seconds, _log.warning)
        while self._appender is None:
            try:
                with unavailable_if(unwritten):
                    self._appender = Producer(self.background, self.settings)
                    self.held.add(self._appender)
            except LogUnavailableError as error:
                time.sleep(wait.pause(error))
        return self._appender

    def read(self, partition: Partition, start: int, limit: int) -> list[Record]:
        """Return up to `limit` committed records at offsets ≥ `start`, in order; fewer if they are large.

        Raises:
            LogUnavailableError: no broker answers.
            LogDamagedError: a checksum does not match.
            LayoutError: a topic has grown.
        """
        self.must_not_have_grown()
        self._read.add(partition)
        return self.reader.read(partition, start, limit)

    def read_each(self, places: Sequence[tuple[Partition, int]], limit: int) -> list[list[Record]]:
        """Return the result of `read` for several distinct partitions, each from its own offset, in one round of requests.

        Raises:
            LogUnavailableError: no broker answers.
            LogDamagedError: a checksum does not match.
            LayoutError: a topic has grown.
        """
        self.must_not_have_grown()
        self._read.update(partition for partition, _ in places)
        return self.reader.read_each(places, limit)

    def gone(self, partition: Partition) -> int:
        """Return the number of offsets that `read` has skipped because retention had deleted their records."""
        return self.reader.gone(partition)

    def end(self, partition: Partition) -> int:
        """Return the end offset: the offset behind the last committed record.

        Raises:
            LogUnavailableError: no broker answers.
        """
        return self.reader.ends([partition])[0]

    def open(self, shard: ShardId, inputs: Sequence[Partition]) -> KafkaShard:
        """Open a shard and fence its earlier holder.

        Raises:
            FencedError: a commit of this process failed, and another process has run the shard since; raised once, without fencing
                that process.
            LogUnavailableError: the cluster cannot be reached.
            LayoutError: the shard ran before with other inputs, or a topic has grown.
            LogDamagedError: the shard has written before, but its position is lost.
        """
        self._must_be_writable()
        if (mine := self.unsure.get(shard)) is not None:
            try:
                must_not_have_moved(self, shard, *mine)
            except FencedError:
                del self.unsure[shard]
                raise
        held = KafkaShard(self, shard, inputs)
        self.unsure.pop(shard, None)
        self.held.add(held)
        return held

    def look(self, shard: ShardId) -> ShardView | None:
        """Return position and snapshot of a shard without opening it; `None` if it has never committed.

        Raises:
            LogUnavailableError: the cluster cannot be reached.
        """
        return look(self, shard)

    def cursor(self, name: str) -> dict[Partition, int]:
        """Return a consumer's next offset by partition, from a consumer group of its own.

        Raises:
            LogUnavailableError: the cluster cannot be reached.
        """
        with unavailable_if(f"the cursor {name} on {self.settings.where} cannot be read"):
            found = self.background.run(self.group_offsets(self._cursor_group(name)))
        return {partition: offset for partition, (offset, _) in found.items()}

    def move_cursor(self, name: str, positions: Mapping[Partition, int]) -> None:
        """Store a consumer's next offsets of some partitions atomically.

        Raises:
            LogUnavailableError: the cluster cannot be written; the position is probably unchanged.
        """
        if positions:
            offsets = {self.name(partition): offset for partition, offset in positions.items()}
            with unavailable_if(f"the cursor {name} on {self.settings.where} cannot be moved"):
                self.background.run(self.wire.commit_group(self._cursor_group(name), offsets))

    def wait(self, timeout: float, partitions: Collection[Partition] = ()) -> Collection[Partition]:
        """Block until a partition was written since this thread's last call, for at most `timeout` seconds.

        Writes of this process end the wait at once, those of others within 20 ms, the polling interval.

        Args:
            timeout: seconds.
            partitions: partitions to watch; empty: those that this log has read, or all if it has read none.

        Returns:
            The partitions written; all, if this thread's last call watched others.

        Raises:
            LogUnavailableError: no broker answers.
        """
        deadline = time.monotonic() + timeout
        watched = sorted(set(partitions) or self._read) or [
            Partition(topic, number) for topic, count in self.counts.items() for number in range(count)
        ]
        names = [self.name(partition) for partition in watched]
        seen = self._seen
        before: dict[Partition, int] = getattr(seen, "ends", {})
        while True:
            with self._changed:
                if before.keys() == set(watched):
                    pause = min(seen.asked + _POLL_SECONDS, deadline) - time.monotonic()
                    self._changed.wait_for(lambda: self._written_to(names) != seen.writes, max(pause, 0))
                seen.writes = self._written_to(names)
            seen.asked = time.monotonic()
            found = dict(zip(watched, self.reader.ends(watched), strict=True))
            if found != before or time.monotonic() >= deadline:
                seen.ends = found
                return [partition for partition, end in found.items() if before.get(partition) != end]

    def _written_to(self, names: Sequence[TopicPartition]) -> int:
        return sum(self._writes[name] for name in names)

    def records_of(self, key: str, topics: Sequence[Topic]) -> Iterator[Record]:
        """Yield all committed records of some topics with this key, in commit order, from the partitions of the key.

        Raises:
            LogUnavailableError: no broker answers.
            LogDamagedError: a checksum does not match.
        """
        wanted = key.encode()
        places = [Partition(topic, partition_of(key, self.counts[topic])) for topic in topics]
        return self._scan(places, lambda raw: raw.key == wanted, {})

    def scan(
        self, topics: Sequence[Topic], types: Collection[str] | None = None, start: Mapping[Partition, int] | None = None
    ) -> Iterator[Record]:
        """Yield the records of some topics in commit order, up to the end offsets at the first iteration.

        Raises:
            LogUnavailableError: no broker answers.
            LogDamagedError: a checksum does not match.
        """
        places = [Partition(topic, number) for topic in topics for number in range(self.counts[topic])]
        if types is None:
            return self._scan(places, None, start or {})
        wanted = {("ce_type", name.encode()) for name in types}
        return self._scan(places, lambda raw: not wanted.isdisjoint(raw.headers), start or {})

    def _scan(
        self, places: Sequence[Partition], wanted: Callable[[RawRecord], bool] | None, start: Mapping[Partition, int]
    ) -> Iterator[Record]:
        return scan(self.reader, places, wanted, start, lambda: positions_of(self, places))

    def _too_large(self, messages: Sequence[Message], error: BatchTooLargeError) -> RecordTooLargeError:
        count = self.counts[self._topics[error.partition.topic]]
        places = [place for place, message in enumerate(messages) if partition_of(message.key, count) == error.partition.partition]
        # Of several messages in one batch, the largest is assumed to be the rejected one.
        place = max(places[error.first : error.first + error.count], key=lambda place: size_of(messages[place]))
        text = f"a message of {size_of(messages[place])} bytes cannot be appended: {error}, see its max.message.bytes"
        return RecordTooLargeError(place, text)

    def _cursor_group(self, name: str) -> str:
        return self.settings.group("cursor", name)

    def _must_be_writable(self) -> None:
        if self.readonly:
            raise LogUnavailableError(f"{self.settings.where} was opened read-only")
        self.must_not_have_grown()

    def _layout(self) -> dict[Topic, int]:
        must_be_described(self.wire.refused, self.settings.where)
        if not all(map(self.wire.count, self.names.values())):
            # A broker may not have the metadata of new topics yet.
            self.learn()
        found = {topic: self.wire.count(name) for topic, name in self.names.items()}
        if missing := [self.names[topic] for topic, count in found.items() if not count]:
            raise TopicsMissingError(missing, self.settings.where)
        if not self.readonly:
            return equal(found, self.names)
        return narrowed(found, self._written_width)

    def _written_width(self, shard: int) -> int | None:
        """Return the number of partitions for which shards with this number last ran; `None` if none has ever committed."""
        snapshots = Partition("snapshots", shard % self.wire.count(self.names["snapshots"]))
        known = (last_known(self, found, snapshots) for found in shards_of(shard))
        return next((stored.partitions for stored in known if stored is not None), None)
