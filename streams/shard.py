"""One shard of a stage on Kafka: a transactional id, a consumer group, and its records in the compacted topic `snapshots`.

Opening follows these steps; each prevents duplicate outputs: 1. Initialise the producer's transactional id. That fences the earlier
holder and aborts its open transaction, so the position is final. 2. Wait until all earlier output is readable: another producer's
open transaction hides the records after it in its partition. 3. Read position and snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from aiokafka.errors import ProducerFenced
from aiokafka.structs import TopicPartition

from engine.log.errors import FencedError, LayoutError, LogError, RecordTooLargeError
from engine.log.port import Commit, Output, Partition, Position, ShardId, size_of
from engine.log.shard_inputs import resume
from streams.client.producer import BATCH_BYTES, Batches, BatchTooLargeError, Producer
from streams.cluster import Cluster
from streams.codec import encode
from streams.errors import unavailable, unavailable_if
from streams.layout import remedy
from streams.position import Stored, to_group, to_record
from streams.shard_positions import STATE_MARK, must_not_have_moved, must_not_have_written, read_shard

_SMALLER: Final = 8


class KafkaShard:
    """Write access to one shard of a log on Kafka."""

    def __init__(self, cluster: Cluster, shard: ShardId, inputs: Sequence[Partition]) -> None:
        """Open the shard and fence its earlier holder.

        Raises:
            LogUnavailableError: the cluster cannot be reached, or another producer's transaction does not end.
            LayoutError: the shard ran before with other inputs, or on fewer partitions.
            LogDamagedError: the shard has written before, but its position is lost.
        """
        self.cluster = cluster
        self._shard = shard
        self._inputs = tuple(inputs)
        self._group = cluster.settings.group(shard.stage, shard.number)
        self._marks = cluster.settings.group(shard.stage, shard.number, "marks")
        self._marked = cluster.place("snapshots", shard.number)
        self._closed = False
        self._failure: LogError | None = None
        self._batch_bytes = BATCH_BYTES
        with unavailable_if(f"shard {shard} cannot be opened on {cluster.settings.where}"):
            self.producer = Producer(cluster.background, cluster.settings, self._group)
        try:
            self._epoch = self.producer.epoch
            stored, records = read_shard(cluster, shard)
            self._records: list[tuple[str, bytes]] | None = records
            self._position = self._checked(stored)
        except BaseException:
            self.producer.close()
            raise

    @property
    def position(self) -> Position:
        """Committed position, by this or an earlier holder."""
        return self._position

    def snapshot(self) -> Iterator[tuple[str, bytes]]:
        """Yield every snapshot record of the shard at `position`."""
        # Records read at the opening are valid until the first commit.
        records, self._records = self._records, None
        if records is None:
            _, records = read_shard(self.cluster, self._shard)
        return iter(records)

    def commit(self, commit: Commit) -> Position:
        """Write a transaction and return the new position.

        Raises:
            FencedError: another holder has opened the shard; nothing was written.
            RecordTooLargeError: the broker rejects an output of that size; nothing was written.
            LogUnavailableError: open the shard again; the transaction may have been written.
            LayoutError: a topic has grown.
        """
        if self._closed:
            raise LogError(f"shard {self._shard} is closed; open it again")
        if self._failure is not None:
            raise self._failure
        if any(output.topic == "dead-letters" for output in commit.outputs):
            # The dead letter may be a record in the wrong partition, because the topic has grown.
            self.cluster.learn()
        self.cluster.must_not_have_grown()
        self._records = None
        position = Position(commit.vector, commit.now, self._position.shardsequence + len(commit.outputs))
        stored = Stored(self._inputs, position, self.cluster.width)
        offsets = {self.cluster.name(partition): found for partition, found in to_group(stored).items()}
        try:
            written = self._write(commit, stored, offsets)
        except RecordTooLargeError:
            raise
        except BaseException as error:
            self._failure = self._error(error)
            if not isinstance(self._failure, FencedError):
                self.cluster.unsure[self._shard] = self._epoch, self._position, position
            self.producer.close()
            if self._failure is error or not isinstance(error, Exception):
                raise
            # aiokafka keeps its error for a while; its traceback would keep the callers' frames, and so the state, in memory.
            raise self._failure from error.with_traceback(None)
        self.cluster.wrote(written)
        self._position = position
        return position

    marks_are_free: Final = False

    def mark(self, text: str) -> None:
        """Store a mark of the current decision outside of any transaction, as metadata of a separate consumer group.

        Raises:
            LogUnavailableError: the cluster cannot be written.
        """
        cluster = self.cluster
        with unavailable_if(f"the mark of shard {self._shard} on {cluster.settings.where} cannot be written"):
            cluster.background.run(cluster.wire.commit_group(self._marks, {cluster.name(self._marked): 0}, text))

    def marked(self) -> str:
        """Return the last mark of an earlier holder.

        Raises:
            LogUnavailableError: the cluster cannot be read.
        """
        cluster = self.cluster
        with unavailable_if(f"the mark of shard {self._shard} on {cluster.settings.where} cannot be read"):
            return cluster.background.run(cluster.group_offsets(self._marks)).get(self._marked, (0, ""))[1]

    def close(self) -> None:
        """Release the shard. Idempotent."""
        if not self._closed:
            self._closed = True
            # The traceback refers to the callers' frames, and so to the state: a reference cycle.
            self._failure = None
            self.producer.close()
            self.cluster.held.discard(self)

    def _write(
        self, commit: Commit, stored: Stored, offsets: Mapping[TopicPartition, tuple[int, str]]
    ) -> dict[TopicPartition, int]:
        while True:
            try:
                return self.producer.transact(self._batches(commit, stored), offsets, self._group)
            except BatchTooLargeError as error:
                if error.count > 1:
                    # Smaller batches may fit where a large one did not. The smaller size is kept while the shard is open.
                    self._batch_bytes //= _SMALLER
                self._restart_producer()
                if error.count == 1:
                    raise self._too_large(commit, error) from error

    def _batches(self, commit: Commit, stored: Stored) -> Batches:
        batches = self.producer.batches()
        name, number = str(self._shard), self._shard.number
        sequence = self._position.shardsequence
        for output in commit.outputs:
            sequence += 1
            batches.add(self._place(output), encode(output.message, name, sequence, output.basis))
        snapshots = self.cluster.name(self.cluster.place("snapshots", number))
        for subject, state in commit.snapshot:
            batches.add_state(snapshots, f"{name}/{subject}".encode(), None if state is None else STATE_MARK + state)
        batches.add_state(snapshots, name.encode(), to_record(stored))
        return batches

    def _restart_producer(self) -> None:
        """Abort the transaction and replace the producer: brokers expect consecutive batch numbers, and one was rejected."""
        # The abort fails if this holder is fenced; a new producer without it would fence the new holder.
        self.producer.abort()
        self.producer.close()
        self.producer = Producer(self.cluster.background, self.cluster.settings, self._group, self._batch_bytes)
        self._epoch = self.producer.epoch
        # This new producer may just have fenced a process that took over in between.
        must_not_have_moved(self.cluster, self._shard, self._epoch, self._position, self._position)

    def _place(self, output: Output) -> TopicPartition:
        return self.cluster.name(output.partition(self._shard.number, self.cluster.partitions(output.topic)))

    def _too_large(self, commit: Commit, error: BatchTooLargeError) -> LogError:
        places = [place for place, output in enumerate(commit.outputs) if self._place(output) == error.partition]
        if error.first < len(places):
            place = places[error.first]
            size = size_of(commit.outputs[place].message)
            return RecordTooLargeError(place, f"a record of {size} bytes: {error}, see its max.message.bytes")
        return LogError(f"{error}: the snapshot of shard {self._shard} cannot be written; raise its max.message.bytes")

    def _error(self, error: BaseException) -> LogError:
        if isinstance(error, LogError):
            return error
        if isinstance(error, ProducerFenced):
            return FencedError(str(self._shard), self._epoch)
        return unavailable(f"shard {self._shard} could not commit and must be opened again", error)

    def _checked(self, stored: Stored | None) -> Position:
        if stored is None:
            must_not_have_written(self.cluster, self._shard, self._inputs)
            return Position((0,) * len(self._inputs))
        position = resume(self._shard, stored.inputs, self._inputs, stored.position)
        if stored.partitions != self.cluster.width and (position.shardsequence or any(position.vector)):
            raise LayoutError(
                f"shard {self._shard} was built on topics of {stored.partitions} partitions, now they have {self.cluster.width}: "
                f"keys have moved and their order is lost. {remedy(stored.partitions)}"
            )
        return position
