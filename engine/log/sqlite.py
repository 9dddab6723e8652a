"""The log in one SQLite file: the embedded default, no server.

WAL mode, one transaction a commit, on the disk when it returns. Readers and appenders in other processes work beside a running
processor; SQLite lets one of them write at a time and the others wait (`failures.BUSY_SECONDS`).
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from heapq import merge
from operator import itemgetter
from pathlib import Path
from typing import Final
from zlib import crc32

from engine.events import Message, Topic
from engine.log.errors import FencedError, LayoutError, LogDamagedError, LogError, LogUnavailableError
from engine.log.failures import damaged, translated
from engine.log.partitioner import partition_of
from engine.log.port import Commit, Partition, Position, Record, ShardId, ShardView, Vector
from engine.log.rows import Metadata, Row, checksum, insertion, parse_vector, records, row, selection, write_vector
from engine.log.schema import make_file, open_file, partition_counts, table

__all__ = ["SqliteLog"]

_CHUNK: Final = 2_000
"""Rows a read transaction: long ones keep the write-ahead log from being folded into the file."""

_POLL: Final = 0.05
"""Seconds between two looks at the file for what other processes have appended."""


class SqliteLog:
    """A log in a file, for one processor a shard and any number of appenders and readers, in any threads and processes."""

    def __init__(self, path: str | Path, partitions: int | None = None, *, create: bool = True, readonly: bool = False) -> None:
        """Open a log.

        Args:
            path: the file; SQLite keeps `PATH-wal` and `PATH-shm` beside it.
            partitions: of each topic, except of `cluster` and `scheduling`, which have one; `None`: as the file has it, 1 in a
                new one.
            create: make the file if it is not there.
            readonly: only read.

        Raises:
            LogUnavailableError: the file is not there, or cannot be opened or made.
            NotALogError: the file is something else, or was written by a newer release.
            LogDamagedError: the file is torn.
            LayoutError: the file has another number of partitions.
        """
        self.path: Final = Path(path)
        if not self.path.exists():
            if readonly or not create:
                raise LogUnavailableError(f"{self.path} does not exist; `lahar apply`, `ingest` and `import-trace` make a log")
            make_file(self.path, partitions or 1)
        self._reader = open_file(self.path, readonly=readonly)
        # Readers have a connection of their own: on the writer's they would see what is not committed.
        self._writer = None if readonly else open_file(self.path)
        self._reading = threading.RLock()
        self._writing = threading.RLock()
        self._changed = threading.Condition()
        self._seen = threading.local()
        self._names: dict[int, str] = {}
        found = self._one("SELECT partitions FROM log")[0]
        if partitions is not None and partitions != found:
            self.close()
            raise LayoutError(f"{self.path} has {found} partitions a topic, not {partitions}; open it with that number")
        self._counts = partition_counts(found)

    def partitions(self, topic: Topic) -> int:
        """Return the number of partitions of a topic."""
        return self._counts[topic]

    def append(self, topic: Topic, messages: Sequence[Message]) -> None:
        """Append inputs, all or none, in order; each goes to the partition that its key chooses.

        Raises:
            LogUnavailableError: the log cannot be written; nothing was appended.
            ValueError: a message holds a number beyond 64 bits or a text that is no Unicode; nothing was appended.
        """
        count = self._counts[topic]
        with self._transaction() as connection:
            write = _Writer(connection)
            for message in messages:
                write.add(Partition(topic, partition_of(message.key, count)), message)
            write.finish()

    def read(self, partition: Partition, start: int, limit: int) -> list[Record]:
        """Return up to `limit` committed records at offsets ≥ `start`, in order.

        Raises:
            LogDamagedError: what is stored does not match its checksum.
        """
        return self._records(self._all(selection(partition, '"offset" >= ?'), (start, limit)), partition)

    def end(self, partition: Partition) -> int:
        """Return the offset behind the last committed record."""
        return _end(self._one(f'SELECT max("offset") FROM {table(partition)}'))  # noqa: S608  a name from a closed list

    def open(self, shard: ShardId, inputs: Sequence[Partition]) -> SqliteShard:
        """Take over a shard, fencing whoever holds it.

        Raises:
            LogUnavailableError: the log cannot be written.
            LayoutError: the shard was run before with other inputs.
            LogDamagedError: the shard's row does not match its checksum.
        """
        given = " ".join(f"{topic}/{number}" for topic, number in inputs)
        with self._transaction() as connection:
            held = connection.execute(f"SELECT {_SHARD} FROM shards WHERE name = ?", (str(shard),)).fetchone()  # noqa: S608  columns
            if held is None:
                (number,) = connection.execute("SELECT coalesce(max(id), 0) + 1 FROM shards").fetchone()
                epoch, known, position = 0, given, Position((0,) * len(inputs))
            else:
                number, epoch, known, position = self._shard(held)
            if known != given:
                if any(position.vector):
                    before = [(topic, int(part)) for topic, part in (name.split("/") for name in known.split())]
                    raise LayoutError.of_inputs(shard, before, inputs)
                position = Position((0,) * len(inputs))
            covered = (number, str(shard), epoch + 1, given, write_vector(position.vector), position.now, position.shardsequence)
            connection.execute(
                f"INSERT OR REPLACE INTO shards ({_SHARD}) VALUES (?,?,?,?,?,?,?,?)",  # noqa: S608  columns
                (checksum(covered), *covered),
            )
        return SqliteShard(self, shard, number, epoch + 1, position)

    def look(self, shard: ShardId) -> ShardView | None:
        """Return how a shard stands, without taking it over; `None` if it was never opened.

        Raises:
            LogDamagedError: what is stored does not match its checksum.
        """
        with self._reading, translated(self.path):
            self._reader.execute("BEGIN")  # one view of both tables
            try:
                held = self._reader.execute(f"SELECT {_SHARD} FROM shards WHERE name = ?", (str(shard),)).fetchone()  # noqa: S608  columns
                if held is None:
                    return None
                number, _, _, position = self._shard(held)
                rows = self._reader.execute("SELECT subject, crc, state FROM subjects WHERE shard = ? ORDER BY subject", (number,))
                return ShardView(position, list(self._subjects(rows)))
            finally:
                self._reader.execute("COMMIT")

    def cursor(self, name: str) -> dict[Partition, int]:
        """Return how far a consumer has come: partition → next offset.

        Raises:
            LogDamagedError: what is stored does not match its checksum.
        """
        found: dict[Partition, int] = {}
        for crc, *covered in self._all('SELECT crc, name, topic, partition, "offset" FROM cursors WHERE name = ?', (name,)):
            if crc != checksum(tuple(covered)):
                raise damaged(self.path, f"the cursor of {name} does not match its checksum")
            _, topic, number, offset = covered
            found[Partition(topic, number)] = offset
        return found

    def move_cursor(self, name: str, positions: Mapping[Partition, int]) -> None:
        """Note how far a consumer has come in some partitions, all or none.

        Raises:
            LogUnavailableError: the log cannot be written; nothing was moved.
        """
        rows = [(name, topic, number, offset) for (topic, number), offset in positions.items()]
        with self._transaction() as connection:
            connection.executemany(
                'INSERT OR REPLACE INTO cursors (crc, name, topic, partition, "offset") VALUES (?,?,?,?,?)',
                [(checksum(covered), *covered) for covered in rows],
            )

    def wait(self, timeout: float) -> None:
        """Return as soon as anybody has written since this thread's last call, after `timeout` seconds at the latest.

        What this process writes is noticed at once, what others write within 50 ms.
        """
        end = time.monotonic() + timeout
        while True:
            with self._changed:
                version = self._one("PRAGMA data_version")[0]
                left = end - time.monotonic()
                if version != getattr(self._seen, "version", None) or left <= 0:
                    self._seen.version = version
                    return
                self._changed.wait(min(left, _POLL))

    def records_of(self, key: str, topics: Sequence[Topic]) -> Iterator[Record]:
        """Yield all committed records with this key on some topics, in commit order.

        Raises:
            LogDamagedError: what is stored does not match its checksum.
        """
        runs = []
        for topic in topics:
            for number in range(self._counts[topic]):
                partition = Partition(topic, number)
                runs.append(self._run(partition, 0, self.end(partition), " AND key = ?", (key,)))
        return _merged(runs)

    def scan(
        self, topics: Sequence[Topic], types: Collection[str] | None = None, start: Mapping[Partition, int] | None = None
    ) -> Iterator[Record]:
        """Yield the records of some topics in commit order, up to what is committed when the iteration begins.

        Raises:
            LogDamagedError: what is stored does not match its checksum.
        """
        condition = "" if types is None else f" AND type IN ({','.join('?' * len(types))})"
        runs = []
        for topic in topics:
            for number in range(self._counts[topic]):
                partition = Partition(topic, number)
                first = (start or {}).get(partition, 0)
                runs.append(self._run(partition, first, self.end(partition), condition, tuple(types or ())))
        return _merged(runs)

    def backup(self, target: str | Path) -> None:
        """Write a copy of the log, as it is at one moment, into a new file; others may go on writing meanwhile.

        Raises:
            LogUnavailableError: the target exists or cannot be written.
            LogDamagedError: this log is torn.
        """
        path = Path(target)
        draft = path.with_name(f"{path.name}.new-{os.getpid()}")
        try:
            with translated(path), self._reading, closing(sqlite3.connect(draft, isolation_level=None)) as copy:
                # In one step: taken in several, the copy would begin anew whenever another process writes.
                self._reader.backup(copy)
            os.link(draft, path)
        except FileExistsError:
            raise LogUnavailableError(f"{path} exists; name a new file for the backup") from None
        except OSError as error:
            raise LogUnavailableError(f"{path} cannot be written: {error.strerror}") from error
        finally:
            draft.unlink(missing_ok=True)

    def compact(self) -> None:
        """Rewrite the file without its unused space and fold the write-ahead log into it. Others wait meanwhile.

        Raises:
            LogUnavailableError: the disk has no room for the second copy that this needs for a while.
            LogBusyError: another process is writing.
        """
        with self._writing, translated(self.path):
            connection = self._writable()
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def close(self) -> None:
        """Release the file. Idempotent."""
        for connection in (self._reader, self._writer):
            if connection is not None:
                connection.close()

    def _writable(self) -> sqlite3.Connection:
        if self._writer is None:
            raise LogUnavailableError(f"{self.path} was opened for reading only")
        return self._writer

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._writing, translated(self.path):
            connection = self._writable()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException as error:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                if isinstance(error, OverflowError | UnicodeEncodeError):
                    raise ValueError(f"a message cannot be stored: {error}") from error  # noqa: TRY004  what it holds is wrong
                raise
        with self._changed:
            self._changed.notify_all()

    def _all(self, query: str, parameters: Sequence[object] = ()) -> list[Row]:
        with self._reading, translated(self.path):
            return self._reader.execute(query, parameters).fetchall()

    def _one(self, query: str) -> Row:
        found = self._all(query)
        return found[0]

    def _run(
        self, partition: Partition, start: int, end: int, condition: str, parameters: tuple[object, ...]
    ) -> Iterator[tuple[int, Record]]:
        """Yield (position, record) of a part of a partition."""
        query = selection(partition, '"offset" >= ? AND "offset" < ?' + condition)
        while start < end:
            rows = self._all(query, (start, end, *parameters, _CHUNK))
            yield from zip(map(_POSITION, rows), self._records(rows, partition), strict=True)
            if len(rows) < _CHUNK:
                return
            start = rows[-1][1] + 1

    def _records(self, rows: list[Row], partition: Partition) -> list[Record]:
        def fault(offset: int) -> LogDamagedError:
            return damaged(self.path, f"the record {partition.topic}/{partition.number} at {offset} does not match its checksum")

        return records(rows, partition, self._name, fault)

    def _subjects(self, rows: Iterable[Row]) -> Iterator[tuple[str, bytes]]:
        """Yield snapshot records of rows (subject, crc, state)."""
        for subject, crc, state in rows:
            if not isinstance(state, bytes) or crc != crc32(state, crc32(subject.encode())):
                raise damaged(self.path, f"the snapshot of {subject} does not match its checksum")
            yield subject, state

    def _name(self, number: int) -> str:
        name = self._names.get(number)
        if name is None:
            self._names.update(self._all("SELECT id, name FROM shards"))
            name = self._names.get(number)
            if name is None:
                raise damaged(self.path, f"a record names the shard {number}, which is missing")
        return name

    def _shard(self, held: Row) -> tuple[int, int, str, Position]:
        crc, number, name, epoch, inputs, vector, now, shardsequence = held
        if crc != checksum(held[1:]):
            raise damaged(self.path, f"the row of shard {name} does not match its checksum")
        return number, epoch, inputs, Position(parse_vector(vector), now, shardsequence)


class SqliteShard:
    """The right to process one shard of a `SqliteLog`."""

    def __init__(self, log: SqliteLog, shard: ShardId, number: int, epoch: int, position: Position) -> None:
        self._log = log
        self._shard = shard
        self._number = number
        self._epoch = epoch
        self._position = position
        self._closed = False

    @property
    def position(self) -> Position:
        """What is committed, by this holder or the ones before it."""
        return self._position

    def snapshot(self) -> Iterator[tuple[str, bytes]]:
        """Yield every snapshot record of the shard as of `position`.

        Raises:
            LogDamagedError: a record does not match its checksum.
        """
        query = "SELECT subject, crc, state FROM subjects WHERE shard = ? AND subject > ? ORDER BY subject LIMIT ?"
        last = ""
        while True:
            rows = self._log._all(query, (self._number, last, _CHUNK))  # noqa: SLF001  the two classes are one thing
            yield from self._log._subjects(rows)  # noqa: SLF001  the two classes are one thing
            if len(rows) < _CHUNK:
                return
            last = rows[-1][0]

    def commit(self, commit: Commit) -> Position:
        """Write a transaction and return the new position.

        Raises:
            FencedError: another holder has opened the shard; nothing was written.
            LogUnavailableError: the log cannot be written. Open the shard again: its position then tells whether this was.
        """
        if self._closed:
            raise LogError(f"shard {self._shard} was given back; open it again")
        log = self._log
        with log._transaction() as connection:  # noqa: SLF001  the two classes are one thing
            held = connection.execute(f"SELECT {_SHARD} FROM shards WHERE id = ?", (self._number,)).fetchone()  # noqa: S608  columns
            _, epoch, inputs, known = log._shard(held)  # noqa: SLF001
            if epoch != self._epoch:
                raise FencedError(str(self._shard), self._epoch, epoch)
            if known != self._position:
                # A commit failed after its last byte was written, so it counts after all.
                raise LogUnavailableError(
                    f"{log.path}: an earlier commit of {self._shard} was written though it failed; open it again"
                )
            write = _Writer(connection)
            for shardsequence, (topic, message, basis) in enumerate(commit.outputs, known.shardsequence + 1):
                partition = Partition(topic, self._shard.number % log.partitions(topic))
                write.add(partition, message, (self._number, shardsequence, basis))
            write.finish()
            position = Position(commit.vector, commit.now, known.shardsequence + len(commit.outputs))
            vector = write_vector(commit.vector)
            covered = (self._number, str(self._shard), epoch, inputs, vector, position.now, position.shardsequence)
            connection.execute(
                "UPDATE shards SET crc = ?, vector = ?, now = ?, shardsequence = ? WHERE id = ?",
                (checksum(covered), vector, position.now, position.shardsequence, self._number),
            )
            self._write_snapshot(connection, commit.snapshot)
        self._position = position
        return position

    def close(self) -> None:
        """Give the right back."""
        self._closed = True

    def _write_snapshot(self, connection: sqlite3.Connection, changes: Sequence[tuple[str, bytes | None]]) -> None:
        kept = [
            (self._number, subject, crc32(state, crc32(subject.encode())), state) for subject, state in changes if state is not None
        ]
        gone = [(self._number, subject) for subject, state in changes if state is None]
        connection.executemany("INSERT OR REPLACE INTO subjects (shard, subject, crc, state) VALUES (?,?,?,?)", kept)
        connection.executemany("DELETE FROM subjects WHERE shard = ? AND subject = ?", gone)


class _Writer:
    """Collects the rows of one transaction, by partition, and inserts them."""

    __slots__ = ("_bases", "_connection", "_first", "_next", "_position", "_rows")

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        (self._first,) = connection.execute("SELECT position FROM log").fetchone()
        self._position: int = self._first
        self._next: dict[Partition, int] = {}
        self._rows: defaultdict[Partition, list[Row]] = defaultdict(list)
        self._bases: tuple[Vector, str] = ((), "")

    def add(self, partition: Partition, message: Message, origin: tuple[int, int, Vector] | None = None) -> None:
        """Add one record behind the last one of its partition; `origin` is an output's shard, shardsequence and basis."""
        offset = self._next.get(partition)
        if offset is None:
            query = f'SELECT max("offset") FROM {table(partition)}'  # noqa: S608  a name from a closed list
            offset = _end(self._connection.execute(query).fetchone())
        self._next[partition] = offset + 1
        self._position += 1
        metadata: Metadata = (None, None, None)
        if origin is not None:
            shard, shardsequence, basis = origin
            if basis != self._bases[0]:
                self._bases = basis, write_vector(basis)
            metadata = shard, shardsequence, self._bases[1]
        self._rows[partition].append(row(offset, self._position, message, metadata))

    def finish(self) -> None:
        """Insert all rows."""
        for partition, rows in self._rows.items():
            self._connection.executemany(insertion(partition), rows)
        if self._position != self._first:
            self._connection.execute("UPDATE log SET position = ?", (self._position,))


_SHARD: Final = "crc, id, name, epoch, inputs, vector, now, shardsequence"
_POSITION: Final[Callable[[Row], int]] = itemgetter(2)


def _end(found: Row) -> int:
    last: int | None = found[0]
    return 0 if last is None else last + 1


def _merged(runs: Sequence[Iterator[tuple[int, Record]]]) -> Iterator[Record]:
    ordered = runs[0] if len(runs) == 1 else merge(*runs, key=itemgetter(0))
    return (record for _, record in ordered)
