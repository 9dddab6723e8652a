"""Topics of one log in a Kafka cluster: names, partitions, and the connections that read them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, Protocol, get_args

from aiokafka.structs import TopicPartition

from engine.events import Topic
from engine.log.errors import LayoutError
from engine.log.port import Partition, Position, ShardId
from streams.client.broker_requests import Wire
from streams.client.loop import BackgroundLoop
from streams.errors import unavailable_if
from streams.layout import remedy
from streams.reader import Reader
from streams.settings import KafkaSettings
from streams.topics import topic_name

_TOPICS: Final[tuple[Topic, ...]] = get_args(Topic)


class Held(Protocol):
    """Resource to release before the connections close."""

    def close(self) -> None:
        """Release it."""


class Cluster:
    """Connected topics of a log, shared by the log and its shards."""

    def __init__(self, settings: KafkaSettings, *, readonly: bool) -> None:
        """Connect.

        Args:
            settings: settings of the cluster.
            readonly: read only; grown topics are then accepted.

        Raises:
            LogUnavailableError: the cluster cannot be reached.
        """
        self.settings: Final = settings
        self.readonly: Final = readonly
        self.background: Final = BackgroundLoop("lahar-kafka")
        self.names: Final = {topic: topic_name(settings, topic) for topic in _TOPICS}
        self._topics: Final = {name: topic for topic, name in self.names.items()}
        self.counts: Mapping[Topic, int] = {}
        """Number of partitions by topic; empty until the log has checked them."""
        self.held: Final[set[Held]] = set()
        self.unsure: Final[dict[ShardId, tuple[int, Position, Position]]] = {}
        """Failed commits of this process: epoch, position before, and position if the commit was written after all. Opening the
        shard again first checks that no other process has taken it over."""
        self._changed: Final = threading.Condition()
        self._writes: Final[Counter[TopicPartition]] = Counter()
        self._closed = False
        try:
            with unavailable_if(f"{settings.where} cannot be reached"):
                self.wire: Final = Wire(settings.client_arguments(), settings.request_seconds)
                self.background.run(self.wire.start(self.names.values()))
            self.reader: Final = Reader(self.background, self.wire, self.name, settings.where)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release all shards, sockets and the thread. Idempotent."""
        if self._closed:
            return
        self._closed = True
        for held in list(self.held):
            held.close()
        if hasattr(self, "wire"):
            self.background.run(self.wire.close())
        self.background.close()

    @property
    def width(self) -> int:
        """Number of partitions of the topics partitioned by job."""
        return self.counts["job-events"]

    def name(self, partition: Partition) -> TopicPartition:
        """Return a partition's name in the cluster."""
        return TopicPartition(self.names[partition.topic], partition.number)

    def partition_named(self, name: TopicPartition) -> Partition | None:
        """Return the partition with that name; `None` if it is not in this log."""
        topic = self._topics.get(name.topic)
        return None if topic is None else Partition(topic, name.partition)

    async def group_offsets(self, group: str) -> dict[Partition, tuple[int, str]]:
        """Return a group's committed offsets and metadata by partition of this log. Runs in the background loop.

        Raises:
            KafkaError: no broker answers in time, or one rejects the request.
        """
        found = await self.wire.group_offsets(group)
        return {ours: offset for name, offset in found.items() if (ours := self.partition_named(name)) is not None}

    def place(self, topic: Topic, shard: int) -> Partition:
        """Return the partition of a topic to which a shard writes."""
        return Partition(topic, shard % self.counts[topic])

    def must_not_have_grown(self) -> None:
        """Check that no topic has more partitions than when the log was opened, by metadata that is at most 10 s old.

        Raises:
            LayoutError: a topic has grown.
        """
        if self.readonly:
            return
        for topic, name in self.names.items():
            if (found := self.wire.count(name)) > (count := self.counts[topic]):
                raise LayoutError(
                    f"topic {name} has grown from {count} to {found} partitions: keys have moved and their order is lost; "
                    f"nothing of the new layout is read. {remedy(self.width)}"
                )

    def learn(self) -> None:
        """Fetch the partition counts of the topics.

        Raises:
            LogUnavailableError: no broker answers.
        """
        with unavailable_if(f"the topics of {self.settings.where} cannot be read"):
            self.background.run(self.wire.learn())

    def wrote(self, ends: Mapping[TopicPartition, int]) -> None:
        """Record the end offsets of this process's writes, so that its readers wait for these records and waiting threads wake."""
        self.reader.wrote(ends)
        with self._changed:
            self._writes.update(ends.keys())
            self._changed.notify_all()

    def partitions(self, topic: Topic) -> int:
        """Return the number of partitions of a topic."""
        return self.counts[topic]

    def stable_ends(self, partitions: Sequence[Partition]) -> dict[Partition, tuple[int, int]]:
        """Return the last stable offset and the end offset of each partition.

        Raises:
            LogUnavailableError: no broker answers.
        """
        names = [self.name(partition) for partition in partitions]
        with unavailable_if(f"the ends of partitions of {self.settings.where} cannot be read"):
            stable = self.background.run(self.wire.ends(names))
            # Fetched last, so that it is never before the stable offset.
            ends = self.background.run(self.wire.ends(names, committed=False))
        return {partition: (stable[name], ends[name]) for partition, name in zip(partitions, names, strict=True)}
