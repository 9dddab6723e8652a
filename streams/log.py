"""The log on Kafka: topics of records, a transaction a commit, in a cluster of any size.

What holds of every log holds here, with three remarks:
- Records of one transaction become visible partition by partition, within milliseconds of each other; a reader of several
  partitions may see one before another. No reader sees a part of a transaction in one partition.
- `append` writes each partition's records in order and once. If it fails, some partitions may have theirs: append again; inputs
  that come twice are known by their ids.
- Commit order over partitions is the order in which brokers appended, by their clocks; of one millisecond, inputs come before
  what stages wrote. What a shard wrote keeps its order and stands behind the inputs that it had taken, whatever the clocks say.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final

from aiokafka.structs import TopicPartition

from engine.events import Message, Topic
from engine.log.errors import FencedError, LogUnavailableError, RecordTooLargeError
from engine.log.partitioner import partition_of
from engine.log.port import Partition, Record, ShardId, ShardView, size_of
from streams.client.producer import BatchTooLargeError, Producer
from streams.client.record_batches import RawRecord
from streams.cluster import Cluster
from streams.codec import encode
from streams.errors import TopicsMissingError, must_be_described, unavailable_if
from streams.layout import equal, narrowed
from streams.search import scan
from streams.settings import KafkaSettings
from streams.shard import KafkaShard
from streams.shard_positions import last_known, look, must_not_have_moved, shards_of, standing

__all__ = ["KafkaLog"]

_POLL_SECONDS: Final = 0.02
"""How soon `wait` notices what other processes append."""


class KafkaLog(Cluster):
    """A log in a Kafka cluster, for one processor a shard and any number of appenders and readers, in any threads and processes."""

    finds_by_key: Final = False
    """Kafka has no index of keys."""

    def __init__(self, settings: KafkaSettings, *, readonly: bool = False) -> None:
        """Connect.

        Args:
            settings: where the cluster is.
            readonly: only read; topics may have grown since they were written to by a shard, what stood before is read.

        Raises:
            LogUnavailableError: the cluster cannot be reached.
            TopicsMissingError: the topics have not been made.
            LayoutError: topics that must have equal counts of partitions do not.
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
        """Append inputs, in order; each goes to the partition that its key chooses.

        Raises:
            LogUnavailableError: the cluster cannot be written; some partitions may have theirs: append again.
            RecordTooLargeError: a broker does not take a message of that size; others may have been written.
            LayoutError: the topic has grown.
            ValueError: a message holds a text that is no Unicode; nothing was appended.
        """
        if not messages:
            return
        self._must_be_writable()
        name, count = self.names[topic], self.counts[topic]
        with self._append_lock, unavailable_if(f"{name} of {self.settings.where} cannot be written"):
            if self._appender is None:
                self._appender = Producer(self.background, self.settings)
                self.held.add(self._appender)
            batches = self._appender.batches()
            for message in messages:
                batches.add(TopicPartition(name, partition_of(message.key, count)), encode(message))
            try:
                written = self._appender.write(batches)
            except BaseException as error:
                appender, self._appender = self._appender, None
                self.held.discard(appender)
                appender.close()
                if isinstance(error, BatchTooLargeError):
                    raise self._too_large(messages, error) from error
                raise
        self.wrote(written)

    def read(self, partition: Partition, start: int, limit: int) -> list[Record]:
        """Return up to `limit` committed records at offsets ≥ `start`, in order; fewer where they are large.

        Raises:
            LogUnavailableError: no broker answers.
            LogDamagedError: a checksum does not match.
            LayoutError: a topic has grown.
        """
        self.must_not_have_grown()
        self._read.add(partition)
        return self.reader.read(partition, start, limit)

    def read_each(self, places: Sequence[tuple[Partition, int]], limit: int) -> list[list[Record]]:
        """Return what `read` returns, of several partitions, none twice, from an offset each: brokers are asked once.

        Raises:
            LogUnavailableError: no broker answers.
            LogDamagedError: a checksum does not match.
            LayoutError: a topic has grown.
        """
        self.must_not_have_grown()
        self._read.update(partition for partition, _ in places)
        return self.reader.read_each(places, limit)

    def gone(self, partition: Partition) -> int:
        """Return how many offsets `read` has skipped because what stood there is gone."""
        return self.reader.gone(partition)

    def end(self, partition: Partition) -> int:
        """Return the offset behind the last committed record.

        Raises:
            LogUnavailableError: no broker answers.
        """
        return self.reader.ends([partition])[0]

    def open(self, shard: ShardId, inputs: Sequence[Partition]) -> KafkaShard:
        """Take over a shard, fencing whoever holds it.

        Raises:
            FencedError: a commit of this process has failed, and since then another one has run the shard: it is told so once, and
                fences nobody.
            LogUnavailableError: the cluster cannot be reached.
            LayoutError: the shard was run before with other inputs, or a topic has grown.
            LogDamagedError: the shard has written before, but where it stood is lost.
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
        """Return how a shard stands, without taking it over; `None` if it has never committed.

        Raises:
            LogUnavailableError: the cluster cannot be reached.
        """
        return look(self, shard)

    def cursor(self, name: str) -> dict[Partition, int]:
        """Return how far a consumer has come: partition → next offset. It is a consumer group of its own.

        Raises:
            LogUnavailableError: the cluster cannot be reached.
        """
        with unavailable_if(f"the cursor {name} on {self.settings.where} cannot be read"):
            found = self.background.run(self.group_offsets(self._cursor_group(name)))
        return {partition: offset for partition, (offset, _) in found.items()}

    def move_cursor(self, name: str, positions: Mapping[Partition, int]) -> None:
        """Note how far a consumer has come in some partitions, all or none.

        Raises:
            LogUnavailableError: the cluster cannot be written; nothing was moved, as far as is known.
        """
        if positions:
            offsets = {self.name(partition): offset for partition, offset in positions.items()}
            with unavailable_if(f"the cursor {name} on {self.settings.where} cannot be moved"):
                self.background.run(self.wire.commit_group(self._cursor_group(name), offsets))

    def wait(self, timeout: float, partitions: Collection[Partition] = ()) -> Collection[Partition]:
        """Return as soon as something was written since this thread's last call, after `timeout` seconds at the latest.

        What this process writes is noticed at once; what others append within 20 ms. Brokers are asked no more often than that.

        Args:
            timeout: seconds.
            partitions: those of interest; empty: what this log has read, all if it has read none.

        Returns:
            Those of them in which something was written; all, if this thread did not ask for the same ones before.

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
        """Yield all committed records with this key on some topics, in commit order, from the partitions that the key chooses.

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
        """Yield the records of some topics in commit order, up to what is committed when the iteration begins.

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
        return scan(self.reader, places, wanted, start, lambda: standing(self, places))

    def _too_large(self, messages: Sequence[Message], error: BatchTooLargeError) -> RecordTooLargeError:
        count = self.counts[self._topics[error.partition.topic]]
        places = [place for place, message in enumerate(messages) if partition_of(message.key, count) == error.partition.partition]
        # Of several that were sent together, the largest will be it.
        place = max(places[error.first : error.first + error.count], key=lambda place: size_of(messages[place]))
        text = f"a message of {size_of(messages[place])} bytes cannot be appended: {error}, see its max.message.bytes"
        return RecordTooLargeError(place, text)

    def _cursor_group(self, name: str) -> str:
        return self.settings.group("cursor", name)

    def _must_be_writable(self) -> None:
        if self.readonly:
            raise LogUnavailableError(f"{self.settings.where} was opened only to be read")
        self.must_not_have_grown()

    def _layout(self) -> dict[Topic, int]:
        must_be_described(self.wire.refused, self.settings.where)
        if not all(map(self.wire.count, self.names.values())):
            # They may have been made a moment ago, and one broker has not heard of it.
            self.learn()
        found = {topic: self.wire.count(name) for topic, name in self.names.items()}
        if missing := [self.names[topic] for topic, count in found.items() if not count]:
            raise TopicsMissingError(missing, self.settings.where)
        if not self.readonly:
            return equal(found, self.names)
        return narrowed(found, self._written_width)

    def _written_width(self, shard: int) -> int | None:
        """Return the number of partitions over which the shards of a number were run; `None` if none has ever committed."""
        snapshots = Partition("snapshots", shard % self.wire.count(self.names["snapshots"]))
        known = (last_known(self, found, snapshots) for found in shards_of(shard))
        return next((stored.partitions for stored in known if stored is not None), None)
