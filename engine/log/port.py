"""The log, as a port: the guarantees for processors and for readers of the past.

A log holds topics; a topic has partitions; a partition is an ordered sequence of messages, each at its offset. Three
implementations pass one contract suite (`tests/contract`): memory, SQLite, Kafka.

- Any process may `append` inputs, also beside a running processor.
- Only the holder of a shard may `commit` outputs. Opening a shard fences the holder before it: its next commit raises
  `FencedError` and leaves nothing behind.
- Outputs, the input offsets they follow from and snapshot changes become visible together or not at all.
- Readers see committed messages only, in order, none skipped. Offsets increase; they need not be consecutive.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol, runtime_checkable

from engine.events import Message, Topic

__all__ = [
    "READ_BYTES",
    "Commit",
    "Expiring",
    "Log",
    "Output",
    "Partition",
    "Position",
    "ReadsTogether",
    "Record",
    "Searchable",
    "SearchableLog",
    "ShardId",
    "ShardLog",
    "ShardView",
    "Transactional",
    "Vector",
    "size_of",
]

READ_BYTES: Final = 4 << 20
"""Bytes at which a read ends: 500 inputs of 2 MiB each must not wait in memory. Ordinary ones are half a kilobyte."""


class Partition(NamedTuple):
    """One partition of a topic."""

    topic: Topic
    number: int


class ShardId(NamedTuple):
    """One shard of a stage; written `lifecycle/0`."""

    stage: str
    number: int

    def __str__(self) -> str:
        return f"{self.stage}/{self.number}"


Vector = tuple[int, ...]
"""Next offset of each input partition, in the order in which the shard named its inputs when it was opened."""


class Record(NamedTuple):
    """A message at its offset, with the metadata of its record (never part of the event)."""

    partition: Partition
    offset: int
    message: Message
    shard: str = ""
    """The shard that wrote it, `lifecycle/0`; empty for inputs."""
    shardsequence: int = 0
    """Position among all that this shard wrote, gapless from 1; 0 for inputs."""
    basis: Vector = ()
    """What the shard had taken when it decided this, the causing input included."""
    appended: int = 0
    """When it was appended, by the log's clock (microseconds); 0 where the log keeps no such time."""
    size: int = 0
    """Of an input that a log has read: its bytes as the log counts them, not less than `size_of`; 0: nobody has counted them."""


def size_of(message: Message) -> int:
    """Return the bytes of a message as every bound counts them: of its data, and a byte for each character of its attributes.

    Producers choose both, and an attribute may be as long as the log lets a record be.
    """
    (key, ident, source, kind, subject, _, _, _, correlation, causation, cluster, data) = message
    return len(f"{key}{ident}{source}{kind}{subject}{correlation}{causation}{cluster}") + len(data)  # faster than eight lengths


class Output(NamedTuple):
    """A message to be written by a commit."""

    topic: Topic
    message: Message
    basis: Vector
    number: int | None = None
    """Of its partition; `None`: the shard's number, modulo the topic's partitions."""

    def partition(self, shard: int, partitions: int) -> Partition:
        """Return where it is written.

        Args:
            shard: number of the shard that writes it.
            partitions: of its topic.
        """
        number = shard % partitions if self.number is None else self.number
        return tuple.__new__(Partition, (self.topic, number))  # as `new_message`


class Position(NamedTuple):
    """Position of a shard; all zeros for one that never ran."""

    vector: Vector
    now: int = 0
    """Largest recorded time taken or due time fired (microseconds)."""
    shardsequence: int = 0
    """Of the last output written."""


@dataclass(frozen=True, slots=True)
class ShardView:
    """Position and snapshot of a shard at one moment, read only."""

    position: Position
    records: list[tuple[str, bytes]]
    """Every snapshot record, as of `position`."""

    def snapshot(self) -> Iterator[tuple[str, bytes]]:
        """Yield the snapshot records, as `ShardLog.snapshot` does."""
        return iter(self.records)


@dataclass(slots=True)
class Commit:
    """What one transaction of a shard writes."""

    vector: Vector
    now: int
    outputs: Sequence[Output] = ()
    """Written in order; the log gives them the next shardsequences."""
    snapshot: Sequence[tuple[str, bytes | None]] = field(default_factory=tuple)
    """Changed snapshot records: subject → state, `None` for one that is forgotten."""


@runtime_checkable
class ShardLog(Protocol):
    """The right to process one shard, from `Log.open` until another process opens it."""

    @property
    def position(self) -> Position:
        """What is committed, by this holder or the ones before it."""

    def snapshot(self) -> Iterator[tuple[str, bytes]]:
        """Yield every snapshot record of the shard as of `position`."""

    def commit(self, commit: Commit) -> Position:
        """Write a transaction and return the new position.

        Raises:
            FencedError: another holder has opened the shard; nothing was written.
            RecordTooLargeError: an output is larger than the log takes; nothing was written, and the shard is still held.
            LogUnavailableError: the log cannot be written (full disk, lost broker); nothing was written, or, where that
                cannot be known, the shard must be opened again before anything else is done with it.
        """

    @property
    def marks_are_free(self) -> bool:
        """`mark` takes some microseconds; otherwise it is a request to a server."""

    def mark(self, text: str) -> None:
        """Write a mark that names the current decision, outside of all transactions.

        The shard's next holder reads it, whether the transaction committed or not. It outlives the process, but perhaps not a loss
        of power.

        Args:
            text: at most 200 characters of ASCII; it replaces the mark before it.

        Raises:
            LogUnavailableError: the log cannot be written.
        """

    def marked(self) -> str:
        """Return the last mark of an earlier holder; empty: none, or an unreadable one.

        Raises:
            LogUnavailableError: the log cannot be read.
        """

    def close(self) -> None:
        """Give the right back. Idempotent; writes nothing."""


@runtime_checkable
class Log(Protocol):
    """An ordered, durable store of messages."""

    def partitions(self, topic: Topic) -> int:
        """Return the number of partitions of a topic, 1 or more. Those of `SINGLE_TOPICS` always have one."""

    def append(self, topic: Topic, messages: Sequence[Message]) -> None:
        """Append inputs, all or none, in order; each goes to the partition that its key chooses.

        A recorded time more than a second past that moment is read back as that second (`producer_time`).

        Raises:
            LogUnavailableError: the log cannot be written; nothing was appended.
            RecordTooLargeError: a message is larger than the log takes.
        """

    def read(self, partition: Partition, start: int, limit: int) -> list[Record]:
        """Return `limit` committed records at offsets ≥ `start`, in order; fewer only if there are no more now or they are large.

        It stops behind the record with which they reach `READ_BYTES` (`size_of`), a little later where records come in batches;
        otherwise they go at least to the end that `end` has told before. It returns none only if there is none.

        Raises:
            LogDamagedError: what is stored does not match its checksum.
        """

    def end(self, partition: Partition) -> int:
        """Return the offset behind the last committed record."""

    def open(self, shard: ShardId, inputs: Sequence[Partition]) -> ShardLog:
        """Take over a shard whose inputs are these partitions, fencing whoever holds it.

        One that takes several partitions of a topic is the only one of its stage.

        Raises:
            LogUnavailableError: the log cannot be written.
            LayoutError: the shard was run before with other inputs; it may take further ones behind those that it had.
        """

    def cursor(self, name: str) -> dict[Partition, int]:
        """Return a consumer's position: partition → next offset, without partitions that it never read.

        Raises:
            LogDamagedError: what is stored does not match its checksum.
        """

    def move_cursor(self, name: str, positions: Mapping[Partition, int]) -> None:
        """Store a consumer's next offsets in some partitions, all or none; its other offsets stay.

        A cursor is bookkeeping of one consumer outside the truth: it may be moved back, and nothing fences its writers.

        Raises:
            LogUnavailableError: the log cannot be written; nothing was moved.
        """

    def look(self, shard: ShardId) -> ShardView | None:
        """Return how a shard stands, without taking it over; `None` if it was never opened.

        Raises:
            LogDamagedError: what is stored does not match its checksum.
        """

    def wait(self, timeout: float, partitions: Collection[Partition] = ()) -> Collection[Partition]:
        """Return as soon as something may have been appended, after `timeout` seconds at the latest.

        Args:
            timeout: seconds.
            partitions: what happens in others is of no interest, though it may wake the caller; empty: all are of interest.

        Returns:
            Those of `partitions` in which something may have been appended since this thread's last call.
        """

    def close(self) -> None:
        """Release files, sockets and locks. Idempotent."""


@runtime_checkable
class ReadsTogether(Protocol):
    """A log for which it is cheaper to read several partitions at once than one by one."""

    def read_each(self, places: Sequence[tuple[Partition, int]], limit: int) -> list[list[Record]]:
        """Return what `Log.read` returns, of several partitions, none twice, from an offset each.

        Raises:
            LogUnavailableError: no broker answers.
            LogDamagedError: what is stored does not match its checksum.
        """


@runtime_checkable
class Expiring(Protocol):
    """A log that lets records go when they are old, whether they were taken or not: Kafka."""

    def gone(self, partition: Partition) -> int:
        """Return how many offsets `Log.read` has skipped since the log was opened because retention had deleted them."""


@runtime_checkable
class Searchable(Protocol):
    """What history asks of a log beside reading it partition by partition.

    Commit order is the order in which transactions became visible, over all partitions; within a transaction, the order in
    which it wrote.
    """

    @property
    def finds_by_key(self) -> bool:
        """Return whether `records_of` finds the outputs of stages by an index; otherwise it reads the key's whole partition."""

    def records_of(self, key: str, topics: Sequence[Topic]) -> Iterator[Record]:
        """Yield all committed records with this key on some topics, in commit order.

        On input topics it reads the key's whole partition; elsewhere too, unless `finds_by_key`.

        Raises:
            LogDamagedError: what is stored does not match its checksum.
        """

    def scan(
        self, topics: Sequence[Topic], types: Collection[str] | None = None, start: Mapping[Partition, int] | None = None
    ) -> Iterator[Record]:
        """Yield the records of some topics in commit order, up to what is committed when the iteration begins.

        Args:
            topics: read in all their partitions.
            types: only events of these types; `None`: all. Filtering happens in the store.
            start: first offset of each partition; a partition that is not named is read from its beginning. The offsets
                behind the records seen so far make a token from which a later scan goes on without gap or repeat.

        Raises:
            LogDamagedError: what is stored does not match its checksum.
        """


@runtime_checkable
class Transactional(Protocol):
    """A log whose transactions over several partitions can stay open for a while: Kafka."""

    def stable_ends(self, partitions: Sequence[Partition]) -> Mapping[Partition, tuple[int, int]]:
        """Return, of each partition, the offset behind the last record that may be read, and that behind the last one there is.

        Between them stands what readers wait for: a transaction that is open, and all that was appended since it began.

        Raises:
            LogUnavailableError: no broker answers.
        """


class SearchableLog(Log, Searchable, Protocol):
    """A log that is read partition by partition, and searched."""
