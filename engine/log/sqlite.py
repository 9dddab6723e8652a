"""Log in one SQLite file: the embedded default, without a server.

WAL mode; each commit is one transaction and on the disk when it returns. Readers and appenders in other processes work beside a
running processor; SQLite admits one writer at a time, the others wait up to `failures.BUSY_SECONDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from heapq import merge
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Final
from weakref import WeakSet

from engine.events import Message, Topic
from engine.events.vocabulary import INPUT_TOPICS
from engine.log.errors import LayoutError, LogDamagedError, LogUnavailableError
from engine.log.failures import damaged
from engine.log.partitioner import partition_of
from engine.log.port import Partition, Record, ShardId, ShardView
from engine.log.producer_time import capped, wall_clock
from engine.log.rows import Row, checksum, records, selection
from engine.log.schema import make_file, partition_counts, table
from engine.log.sqlite_file import SqliteFile
from engine.log.sqlite_shard import RecordWriter, SqliteShard
from engine.log.torn_pages import unreadable

_CHUNK: Final = 500
"""Rows per read transaction. A long read transaction delays WAL checkpoints, and chunks of 2,000 rows are read 15 % slower because
they exceed the processor's cache."""


Chunk = tuple[list[Row], list[Record]]
"""Rows and their records."""


class SqliteLog:
    """Log in a file, with one holder per shard and any number of appenders and readers; safe across threads and processes."""

    finds_by_key: Final = True
    """`records_of` uses the index by key."""

    def __init__(
        self,
        path: str | Path,
        partitions: int | None = None,
        *,
        create: bool = True,
        readonly: bool = False,
        clock: Callable[[], int] = wall_clock,
    ) -> None:
        """Open a log.

        Args:
            path: log file; SQLite keeps `PATH-wal` and `PATH-shm` beside it.
            partitions: partitions per topic; topics in `SINGLE_TOPICS` have one. `None`: the number in the file, 1 in a new one.
            create: create the file if it does not exist.
            readonly: open for reading only.
            clock: returns the append time (microseconds).

        Raises:
            LogUnavailableError: the file does not exist, or cannot be opened or created.
            NotALogError: the file is not a Lahar log, or was written by a newer release.
            LogDamagedError: the file is torn.
            LayoutError: the file has another number of partitions.
        """
        self.path: Final = Path(path)
        if not self.path.exists():
            if readonly or not create:
                raise LogUnavailableError(f"{self.path} does not exist; `lahar apply`, `ingest` and `import-trace` make a log")
            make_file(self.path, partitions or 1)
        self._file = SqliteFile(self.path, readonly=readonly)
        self._names: dict[int, str] = {}
        self._held: WeakSet[SqliteShard] = WeakSet()
        self._clock = clock
        found = self._file.one("SELECT partitions FROM log")[0]
        if partitions is not None and partitions != found:
            self.close()
            raise LayoutError(f"{self.path} has {found} partitions a topic, not {partitions}; open it with that number")
        self._counts = partition_counts(found)

    def partitions(self, topic: Topic) -> int:
        """Return the number of partitions of a topic."""
        return self._counts[topic]

    def append(self, topic: Topic, messages: Sequence[Message]) -> None:
        """Append inputs atomically and in order; each goes to the partition of its key.

        Raises:
            LogUnavailableError: the log cannot be written; nothing was appended.
            ValueError: a message has an integer beyond 64 bits or text that is not valid Unicode; nothing was appended.
        """
        count, now = self._counts[topic], self._clock()
        with self._file.transaction() as connection:
            write = RecordWriter(connection)
            for message in messages:
                write.add(Partition(topic, partition_of(message.key, count)), capped(message, now))
            write.finish()

    def read(self, partition: Partition, start: int, limit: int) -> list[Record]:
        """Return up to `limit` committed records at offsets ≥ `start`, in order; fewer if together they exceed `READ_BYTES`.

        Raises:
            LogDamagedError: stored bytes do not match their checksum.
        """
        return self._some(selection(partition, '"offset" >= ?'), (start, limit), partition)[1]

    def end(self, partition: Partition) -> int:
        """Return the end offset: the offset behind the last committed record."""
        return _behind(self._file.one(_LAST.format(table=table(partition))))

    def open(self, shard: ShardId, inputs: Sequence[Partition]) -> SqliteShard:
        """Open a shard and fence its earlier holder.

        Raises:
            LogUnavailableError: the log cannot be written.
            LayoutError: the shard ran before with other inputs.
            LogDamagedError: the shard's row does not match its checksum.
        """
        held = SqliteShard(self._file, self._counts, shard, inputs)
        self._held.add(held)
        return held

    def look(self, shard: ShardId) -> ShardView | None:
        """Return position and snapshot of a shard without opening it; `None` if it was never opened.

        Raises:
            LogDamagedError: stored bytes do not match their checksum.
        """
        return SqliteShard.look(self._file, shard)

    def wait(self, timeout: float, partitions: Collection[Partition] = ()) -> Collection[Partition]:
        """Block until the log was written since this thread's last call, for at most `timeout` seconds; return all `partitions`.

        Writes of this process end the wait at once, writes of others within 50 ms.
        """
        self._file.wait(timeout)
        return partitions

    def backup(self, target: str | Path) -> None:
        """Write a consistent copy of the log into a new file; other processes may write meanwhile.

        Raises:
            LogUnavailableError: the target exists or cannot be written.
            LogDamagedError: this log is torn.
        """
        self._file.backup(Path(target))

    def compact(self) -> None:
        """Rewrite the file without unused space and fold the write-ahead log into it. Writers wait meanwhile.

        Raises:
            LogUnavailableError: the disk has no space for the temporary second copy.
            LogBusyError: another process is writing.
        """
        self._file.compact()

    def cursor(self, name: str) -> dict[Partition, int]:
        """Return a consumer's next offset by partition.

        Raises:
            LogDamagedError: stored bytes do not match their checksum.
        """
        found: dict[Partition, int] = {}
        for crc, *covered in self._file.all('SELECT crc, name, topic, partition, "offset" FROM cursors WHERE name = ?', (name,)):
            if crc != checksum(tuple(covered)):
                raise damaged(self.path, f"the cursor of {name} does not match its checksum")
            _, topic, number, offset = covered
            found[Partition(topic, number)] = offset
        return found

    def move_cursor(self, name: str, positions: Mapping[Partition, int]) -> None:
        """Store a consumer's next offsets of some partitions atomically.

        Raises:
            LogUnavailableError: the log cannot be written; no offset was stored.
        """
        rows = [(name, topic, number, offset) for (topic, number), offset in positions.items()]
        with self._file.transaction() as connection:
            connection.executemany(
                'INSERT OR REPLACE INTO cursors (crc, name, topic, partition, "offset") VALUES (?,?,?,?,?)',
                [(checksum(covered), *covered) for covered in rows],
            )

    def records_of(self, key: str, topics: Sequence[Topic]) -> Iterator[Record]:
        """Yield all committed records of some topics with this key, in commit order.

        Raises:
            LogDamagedError: stored bytes do not match their checksum.
        """
        partitions = [
            Partition(topic, number)
            for topic in topics
            for number in ((partition_of(key, self._counts[topic]),) if topic in INPUT_TOPICS else range(self._counts[topic]))
        ]
        return self._search(partitions, {}, " AND key = ?", (key,))

    def scan(
        self, topics: Sequence[Topic], types: Collection[str] | None = None, start: Mapping[Partition, int] | None = None
    ) -> Iterator[Record]:
        """Yield the records of some topics in commit order, up to the end offsets at the first iteration.

        Raises:
            LogDamagedError: stored bytes do not match their checksum.
        """
        condition = "" if types is None else f" AND type IN ({','.join('?' * len(types))})"
        partitions = [Partition(topic, number) for topic in topics for number in range(self._counts[topic])]
        return self._search(partitions, start or {}, condition, tuple(types or ()))

    def close(self) -> None:
        """Release all shards and close the files. Idempotent."""
        for held in self._held:
            held.close()
        self._file.close()

    def _search(
        self, partitions: Sequence[Partition], start: Mapping[Partition, int], condition: str, parameters: tuple[object, ...]
    ) -> Iterator[Record]:
        # One statement reads all end offsets in one transaction. Read one by one, they could include a record but not one committed
        # before it.
        try:
            found = self._file.all(" UNION ALL ".join(_LAST.format(table=table(partition)) for partition in partitions))
            ends = list(map(_behind, found))
        except LogDamagedError:
            ends = self._greatest_ends(partitions)
        runs = [
            self._run(partition, start.get(partition, 0), end, condition, parameters)
            for partition, end in zip(partitions, ends, strict=True)
        ]
        if len(runs) == 1:
            return chain.from_iterable(found for _, found in runs[0])
        ordered = merge(*map(_positioned, runs), key=itemgetter(0))
        return (record for _, record in ordered)

    def _run(self, partition: Partition, start: int, end: int, condition: str, parameters: tuple[object, ...]) -> Iterator[Chunk]:
        """Yield the chunks of a partition between two offsets."""
        query = selection(partition, '"offset" >= ? AND "offset" < ?' + condition)
        while start < end:
            try:
                rows, found, cut = self._some(query, (start, end, *parameters, _CHUNK), partition)
            except LogDamagedError as error:
                place, count = error.place, error.count
                if place is None:
                    torn = unreadable(lambda at, limit: len(self.read(partition, at, limit)), start, end, _CHUNK)
                    if torn is None:
                        raise  # every record is readable, so a torn index failed
                    place, count = (*partition, torn.start), len(torn)
                # A consumer that continues behind the damage needs every record before it: read one by one, as SQLite reads ahead
                # to the next page.
                single = selection(partition, '"offset" = ?' + condition)
                for offset in range(start, place[2]):
                    yield self._some(single, (offset, *parameters, 1), partition)[:2]
                raise LogDamagedError(str(error), place, count) from error
            yield rows, found
            if len(rows) < _CHUNK and not cut:
                return
            start = rows[-1][1] + 1

    def _greatest_ends(self, partitions: Sequence[Partition]) -> list[int]:
        """Return end offsets; an upper bound for a partition whose last page is torn."""
        known: dict[Partition, int] = {}
        for topic, count in self._counts.items():
            for partition in (Partition(topic, number) for number in range(count)):
                with suppress(LogDamagedError):
                    known[partition] = self.end(partition)
        left = self._file.one("SELECT position FROM log")[0] - sum(known.values())
        return [known.get(partition, left) for partition in partitions]

    def _some(self, query: str, parameters: Sequence[object], partition: Partition) -> tuple[list[Row], list[Record], bool]:
        def fault(offset: int) -> LogDamagedError:
            what = f"the record {partition.topic}/{partition.number} at {offset} does not match its checksum"
            return damaged(self.path, what, (*partition, offset))

        return self._file.some(query, parameters, lambda rows: records(rows, partition, self._name, fault))

    def _name(self, number: int) -> str:
        name = self._names.get(number)
        if name is None:
            self._names.update(self._file.all("SELECT id, name FROM shards"))
            name = self._names.get(number)
            if name is None:
                raise damaged(self.path, f"a record names the shard {number}, which is missing")
        return name


_LAST: Final = 'SELECT max("offset") FROM {table}'
_POSITION: Final[Callable[[Row], int]] = itemgetter(2)


def _positioned(run: Iterator[Chunk]) -> Iterator[tuple[int, Record]]:
    """Yield the records of a partition with their positions in commit order."""
    for rows, found in run:
        yield from zip(map(_POSITION, rows), found, strict=True)


def _behind(found: Row) -> int:
    last: int | None = found[0]
    return 0 if last is None else last + 1
