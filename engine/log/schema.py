"""File format of a SQLite log: tables, creation, and checks on opening.

Each partition has one table, such as `"job-events/0"`, with one row per record; the rowid is the offset. Measured (200,000 records
of 450 B, 1,000 per transaction, one core): 140,000 to 155,000 rows/s appended with the index by key, 240,000 without it; 540,000 to
680,000 rows/s read. One table for all partitions would need a second index for reads by partition. Pages of 8 KiB and rarer
checkpoints change the rate by less than the noise and double the longest commit (10 to 19 ms).
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Final, get_args

from engine.events import Topic
from engine.events.vocabulary import INPUT_TOPICS, SINGLE_TOPICS
from engine.log.errors import LogUnavailableError, NotALogError
from engine.log.failures import BUSY_SECONDS, damaged, translated
from engine.log.port import Partition

APPLICATION_ID: Final = 0x4C414852
"""SQLite application id, `LAHR` in ASCII."""

VERSION: Final = 1
"""Version of the tables; a file with a higher version is rejected."""


_TABLES: Final = """
CREATE TABLE log (
    partitions INTEGER NOT NULL, -- of each topic, except of those that have one
    position INTEGER NOT NULL -- of the record written last, over all partitions
);
CREATE TABLE shards (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE, -- lifecycle/0
    epoch INTEGER NOT NULL, -- raised by whoever opens the shard
    inputs TEXT NOT NULL, -- pods/0 jobs/0 cluster/0
    vector TEXT NOT NULL, -- next offset of each input, comma-separated
    now INTEGER NOT NULL,
    shardsequence INTEGER NOT NULL,
    crc INTEGER NOT NULL
);
CREATE TABLE subjects ( -- snapshots
    shard INTEGER NOT NULL,
    subject TEXT NOT NULL,
    crc INTEGER NOT NULL,
    state BLOB NOT NULL,
    PRIMARY KEY (shard, subject)
);
CREATE TABLE cursors ( -- of consumers: how far each has come
    name TEXT NOT NULL,
    topic TEXT NOT NULL,
    partition INTEGER NOT NULL,
    "offset" INTEGER NOT NULL, -- the next one wanted
    crc INTEGER NOT NULL,
    PRIMARY KEY (name, topic, partition)
) WITHOUT ROWID;
"""

# Subject and correlation id mostly equal the key and are then stored as NULL, which saves 73 of 640 bytes per row.
_RECORDS: Final = """
CREATE TABLE IF NOT EXISTS {table} (
    "offset" INTEGER PRIMARY KEY,
    position INTEGER NOT NULL, -- in commit order over all partitions
    crc INTEGER NOT NULL, -- of all other columns, see rows.py
    shard INTEGER, -- NULL for inputs, as the next two
    shardsequence INTEGER,
    basis TEXT,
    key TEXT NOT NULL,
    id TEXT NOT NULL,
    source TEXT NOT NULL,
    type TEXT NOT NULL,
    subject TEXT, -- NULL: the key
    time INTEGER NOT NULL,
    recordedtime INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    correlationid TEXT, -- NULL: the key
    causationid TEXT NOT NULL,
    clusterid TEXT NOT NULL,
    data BLOB NOT NULL
);
"""


def table(partition: Partition) -> str:
    """Return the quoted table name of a partition."""
    return f'"{partition.topic}/{partition.number}"'


def partition_counts(partitions: int) -> dict[Topic, int]:
    """Return the number of partitions by topic; topics in `SINGLE_TOPICS` have one, all others `partitions`."""
    return {topic: 1 if topic in SINGLE_TOPICS else partitions for topic in get_args(Topic)}


def make_file(path: Path, partitions: int) -> None:
    """Create a new log file atomically; keep the file if another process has created it meanwhile.

    Raises:
        LogUnavailableError: the folder does not exist or cannot be written, or the disk is full.
    """
    # Created under a temporary name, so that a crash leaves no incomplete file under the log's name.
    draft = path.with_name(f"{path.name}.new-{os.getpid()}")
    try:
        draft.unlink(missing_ok=True)
        with translated(path):
            connection = sqlite3.connect(draft, isolation_level=None)
            try:
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {VERSION}")
                connection.execute("PRAGMA journal_mode = WAL")
                # One transaction, because each statement alone would wait for the disk.
                connection.executescript(f"BEGIN; {_TABLES}")
                connection.execute("INSERT INTO log VALUES (?, 0)", (partitions,))
                _add_partitions(connection, partitions)
                connection.execute("COMMIT")
            finally:
                connection.close()
        try:
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise LogUnavailableError(f"{path} cannot be made: {error.strerror}; check the folder and the disk's space") from error


def open_file(path: Path, *, readonly: bool = False) -> sqlite3.Connection:
    """Open an existing log file and check its identity and version.

    Raises:
        NotALogError: the file is not a Lahar log, or was written by a newer release.
        LogDamagedError: the file is empty or torn.
        LogUnavailableError: the file does not exist or cannot be opened.
    """
    _check_size(path)
    with translated(path):
        uri = f"{path.absolute().as_uri()}?mode={'ro' if readonly else 'rw'}"
        connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            _check_identity(path, connection)
            if not readonly:
                # FULL: a commit is on the disk when it returns. NORMAL would lose the last commits on a loss of power.
                connection.execute("PRAGMA synchronous = FULL")
                (partitions,) = connection.execute("SELECT partitions FROM log").fetchone()
                _add_partitions(connection, partitions)
        except BaseException:
            connection.close()
            raise
    return connection


def _check_size(path: Path) -> None:
    """Check that the file exists and is not empty; SQLite itself checks that it is a database.

    The file must not be opened here: closing it would release this process's POSIX locks on it, and another process could then
    delete the write-ahead log while it is in use.
    """
    try:
        size = path.stat().st_size
    except OSError as error:
        raise LogUnavailableError(f"{path} cannot be opened: {error.strerror}") from error
    if path.is_dir():
        raise LogUnavailableError(f"{path} cannot be opened: it is a directory; name a file in it")
    if not size:
        raise damaged(path, "it is empty, though a log is never made empty; delete it if it was never a log")


def _check_identity(path: Path, connection: sqlite3.Connection) -> None:
    (identity,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if identity != APPLICATION_ID:
        raise NotALogError(f"{path} is a SQLite database but no Lahar log; name another file")
    if version > VERSION:
        raise NotALogError(
            f"{path} was written by a newer Lahar (format {version}, this one reads {VERSION}); install that release or a later one"
        )


def _add_partitions(connection: sqlite3.Connection, partitions: int) -> None:
    # Adds the tables of topics that were introduced after the file was created.
    (known,) = connection.execute("SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name LIKE '%/%'").fetchone()
    counts = partition_counts(partitions)
    if known == sum(counts.values()):
        return
    for topic, count in counts.items():
        for number in range(count):
            name = table(Partition(topic, number))
            connection.execute(_RECORDS.format(table=name))
            # Outputs alone need an index by key: an input's key determines its partition.
            if topic not in INPUT_TOPICS:
                connection.execute(f'CREATE INDEX IF NOT EXISTS "{topic}/{number} by key" ON {name} (key)')
