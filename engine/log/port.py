"""Log port: its types, and its guarantees for processors and readers.

A log holds topics; a topic has partitions; a partition is an ordered sequence of messages with offsets. Memory, SQLite and Kafka
implement the port and pass one contract suite (`tests/contract`).

- Any process may `append` inputs, also beside a running processor.
- Only the holder of a shard may `commit` outputs. Opening a shard fences the earlier holder: its next commit raises
  `FencedError` and writes nothing.
- Outputs, the offsets of the inputs that caused them and snapshot changes become visible together or not at all.
- Readers get committed messages only, in order, without gaps. Offsets increase but need not be consecutive.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol, runtime_checkable

from engine.events import Message, Topic

READ_BYTES: Final = 4 << 20
"""Bytes at which a read stops, so that 500 inputs of 2 MiB are not held in memory at once. A typical input has 0.5 KB."""


class Partition(NamedTuple):
    """One partition of a topic."""

    topic: Topic
    number: int


class ShardId(NamedTuple):
    """One shard of a stage; its text form is `lifecycle/0`."""

    stage: str
    number: int

    def __str__(self) -> str:
        return f"{self.stage}/{self.number}"


Vector = tuple[int, ...]
"""Next offset of each input partition, in the order of the inputs given to `Log.open`."""


class Record(NamedTuple):
    """A message at its offset, with record metadata that is not part of the event."""

    partition: Partition
    offset: int
    message: Message
    shard: str = ""
    """Shard that wrote the record, such as `lifecycle/0`; empty for inputs."""
    shardsequence: int = 0
    """Sequence number among all outputs of the shard, gapless from 1; 0 for inputs."""
    basis: Vector = ()
    """Input offsets of the shard at this decision, including the input that caused it."""
    appended: int = 0
    """Append time by the log's clock (microseconds); 0 if the log does not store it."""
    size: int = 0
    """Size of an input in bytes as its log counts them, at least `size_of`; 0 if not counted."""


def size_of(message: Message) -> int:
    """Return the size of a message for all size limits: the bytes of its data plus the characters of its attributes.

    Attributes count because producers choose them, and the log does not limit their length.
    """
    (key, ident, source, kind, subject, _, _, _, correlation, causation, cluster, data) = message
    return len(f"{key}{ident}{source}{kind}{subject}{correlation}{causation}{cluster}") + len(data)  # faster than eight lengths


class Output(NamedTuple):
    """A message for a commit to write."""

    topic: Topic
    message: Message
    basis: Vector
    number: int | None = None
    """Number of its partition; `None`: the shard's number modulo the number of partitions."""

    def partition(self, shard: int, partitions: int) -> Partition:
        """Return the partition that it is written to.

        Args:
            shard: number of the writing shard.
            partitions: number of partitions of the topic.
        """
        number = shard % partitions if self.number is None else self.number
        return tuple.__new__(Partition, (self.topic, number))  # bypasses the constructor for speed, as `new_message` does


class Position(NamedTuple):
    """Position of a shard; all zeros if it never ran."""

    vector: Vector
    now: int = 0
    """Largest recorded time of a processed input or due time of a fired timer (microseconds)."""
    shardsequence: int = 0
    """Sequence number of the last output."""


@dataclass(frozen=True, slots=True)
class ShardView:
    """Read-only position and snapshot of a shard, from one read transaction."""

    position: Position
    records: list[tuple[str, bytes]]
    """All snapshot records at `position`: subject and state."""

    def snapshot(self) -> Iterator[tuple[str, bytes]]:
        """Yield the snapshot records, as `ShardLog.snapshot` does."""
        return iter(self.records)


@dataclass(slots=True)
class Commit:
    """Contents of one transaction of a shard."""

    vector: Vector
    now: int
    outputs: Sequence[Output] = ()
    """Written in order; the log assigns consecutive shard sequence numbers."""
    snapshot: Sequence[tuple[str, bytes | None]] = field(default_factory=tuple)
    """Changed snapshot records: subject and state; `None` deletes the record."""


@runtime_checkable
class ShardLog(Protocol):
    """Write access to one shard, from `Log.open` until another process opens it."""

    @property
    def position(self) -> Position:
        """Committed position, by this or an earlier holder."""

    def snapshot(self) -> Iterator[tuple[str, bytes]]:
        """Yield every snapshot record of the shard at `position`."""

    def commit(self, commit: Commit) -> Position:
        """Write a transaction and return the new position.

        Raises:
            FencedError: another holder has opened the shard; nothing was written.
            RecordTooLargeError: an output exceeds the log's size limit; nothing was written, and the shard is still held.
            LogUnavailableError: the log cannot be written (full disk, lost broker). Nothing was written, or the outcome is unknown;
                in that case the shard must be opened again before any other call.
        """

    @property
    def marks_are_free(self) -> bool:
        """True if `mark` costs microseconds; false if it is a request to a broker."""

    def mark(self, text: str) -> None:
        """Store a mark that names the current decision, outside of any transaction.

        The next holder of the shard reads it, whether or not the transaction committed. It survives a crash of the process, but not
        always a loss of power.

        Args:
            text: at most 200 ASCII characters; replaces the previous mark.

        Raises:
            LogUnavailableError: the log cannot be written.
        """

    def marked(self) -> str:
        """Return the last mark of an earlier holder; empty if there is none or it is unreadable.

        Raises:
            LogUnavailableError: the log cannot be read.
        """

    def close(self) -> None:
        """Release the shard. Idempotent; writes nothing."""


@runtime_checkable
class Log(Protocol):
    """An ordered, durable store of messages."""

    def partitions(self, topic: Topic) -> int:
        """Return the number of partitions of a topic, at least 1; topics in `SINGLE_TOPICS` have one."""

    def append(self, topic: Topic, messages: Sequence[Message]) -> None:
        """Append inputs atomically and in order; each goes to the partition of its key.

        A recorded time more than one second after the append time is capped there when it is read (`producer_time`).

        Raises:
            LogUnavailableError: the log cannot be written; nothing was appended.
            RecordTooLargeError: a message exceeds the log's size limit.
        """

    def read(self, partition: Partition, start: int, limit: int) -> list[Record]:
        """Return `limit` committed records at offsets ≥ `start`, in order; fewer at the end of the partition or if they are large.

        A read stops at the record that reaches `READ_BYTES` in total (`size_of`); a log that fetches whole batches may exceed it.
        Otherwise it reaches at least the offset that `end` returned before. An empty list means that there is no such record.

        Raises:
            LogDamagedError: stored bytes do not match their checksum.
        """

    def end(self, partition: Partition) -> int:
        """Return the end offset: the offset behind the last committed record."""

    def open(self, shard: ShardId, inputs: Sequence[Partition]) -> ShardLog:
        """Open a shard on these input partitions and fence its earlier holder.

        A shard that reads several partitions of a topic must be the only shard of its stage.

        Raises:
            LogUnavailableError: the log cannot be written.
            LayoutError: the shard ran before with other inputs. Adding inputs behind the earlier ones is allowed.
        """

    def cursor(self, name: str) -> dict[Partition, int]:
        """Return a consumer's next offset by partition, without the partitions that it never read.

        Raises:
            LogDamagedError: stored bytes do not match their checksum.
        """

    def move_cursor(self, name: str, positions: Mapping[Partition, int]) -> None:
        """Store a consumer's next offsets of some partitions atomically; its other offsets stay.

        A cursor belongs to a consumer outside the shards: it may be moved back, and its writers are not fenced.

        Raises:
            LogUnavailableError: the log cannot be written; no offset was stored.
        """

    def look(self, shard: ShardId) -> ShardView | None:
        """Return position and snapshot of a shard without opening it; `None` if it was never opened.

        Raises:
            LogDamagedError: stored bytes do not match their checksum.
        """

    def wait(self, timeout: float, partitions: Collection[Partition] = ()) -> Collection[Partition]:
        """Block until records may have been appended, for at most `timeout` seconds.

        Args:
            timeout: seconds.
            partitions: partitions to watch; a record in another one may end the wait as well. Empty: all.

        Returns:
            The watched partitions that may have new records since this thread's last call.
        """

    def close(self) -> None:
        """Release files, sockets and locks. Idempotent."""


@runtime_checkable
class ReadsTogether(Protocol):
    """A log that reads several partitions in one call cheaper than one by one."""

    def read_each(self, places: Sequence[tuple[Partition, int]], limit: int) -> list[list[Record]]:
        """Return the result of `Log.read` for each of several distinct partitions and their start offsets.

        Raises:
            LogUnavailableError: no broker answers.
            LogDamagedError: stored bytes do not match their checksum.
        """


@runtime_checkable
class Expiring(Protocol):
    """A log that deletes old records by retention, whether or not they were processed (Kafka)."""

    def gone(self, partition: Partition) -> int:
        """Return the number of offsets that `Log.read` skipped since the log was opened because retention had deleted them."""


@runtime_checkable
class Searchable(Protocol):
    """Queries over all partitions, for history.

    Commit order is the order in which transactions became visible, across all partitions; within a transaction, the order of its
    outputs.
    """

    @property
    def finds_by_key(self) -> bool:
        """True if `records_of` finds the outputs of stages by an index; false if it reads the key's whole partition."""

    def records_of(self, key: str, topics: Sequence[Topic]) -> Iterator[Record]:
        """Yield all committed records of some topics with this key, in commit order.

        For input topics it reads the key's whole partition; for other topics too, unless `finds_by_key`.

        Raises:
            LogDamagedError: stored bytes do not match their checksum.
        """

    def scan(
        self, topics: Sequence[Topic], types: Collection[str] | None = None, start: Mapping[Partition, int] | None = None
    ) -> Iterator[Record]:
        """Yield the records of some topics in commit order, up to the end offsets at the first iteration.

        Args:
            topics: topics to read, all partitions.
            types: event types to yield; `None`: all. The store filters.
            start: first offset by partition; a partition without an entry is read from its beginning. The offsets behind the last
                records form a token with which a later scan continues without gap or repetition.

        Raises:
            LogDamagedError: stored bytes do not match their checksum.
        """


@runtime_checkable
class Transactional(Protocol):
    """A log in which a transaction over several partitions can stay open for a while (Kafka)."""

    def stable_ends(self, partitions: Sequence[Partition]) -> Mapping[Partition, tuple[int, int]]:
        """Return the last stable offset and the end offset of each partition.

        Readers cannot read between the two: an open transaction has records there, and all records appended after it wait for its
        end.

        Raises:
            LogUnavailableError: no broker answers.
        """


class SearchableLog(Log, Searchable, Protocol):
    """A log that supports both reads by partition and queries over all partitions."""
