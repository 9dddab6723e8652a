"""The file of a SQLite log while it is open: its connections, transactions, copies, and waiting for others.

Errors of SQLite leave this module as errors of the log (`failures`).
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

from engine.log.errors import LogUnavailableError
from engine.log.failures import translated
from engine.log.rows import Row
from engine.log.schema import open_file

__all__ = ["SqliteFile"]

T = TypeVar("T")

_POLL: Final = 0.05
"""Seconds between two looks at the file for what other processes have appended."""


class SqliteFile:
    """An open file: one connection that writes, one that reads, for any threads."""

    def __init__(self, path: Path, *, readonly: bool) -> None:
        """Open an existing file.

        Raises:
            LogError: as `schema.open_file`.
        """
        self.path: Final = path
        self._reader = open_file(path, readonly=readonly)
        # Readers have a connection of their own: on the writer's they would see what is not committed.
        self._writer = None if readonly else open_file(path)
        self._reading = threading.RLock()
        self._writing = threading.RLock()
        self._changed = threading.Condition()
        self._seen = threading.local()

    def all(self, query: str, parameters: Sequence[object] = ()) -> list[Row]:
        """Return the committed rows of a query."""
        with self._reading, translated(self.path):
            return self._reader.execute(query, parameters).fetchall()

    def some(self, query: str, parameters: Sequence[object], read: Callable[[Iterator[Row]], T]) -> T:
        """Apply a function to the committed rows of a query; it may leave some unread."""
        # A statement that is not closed would keep its read transaction.
        with self._reading, translated(self.path), closing(self._reader.execute(query, parameters)) as rows:
            return read(rows)

    def one(self, query: str) -> Row:
        """Return the only committed row of a query."""
        found = self.all(query)
        return found[0]

    @contextmanager
    def moment(self) -> Iterator[sqlite3.Connection]:
        """Give a connection on which several queries see the same moment."""
        with self._reading, translated(self.path):
            self._reader.execute("BEGIN")
            try:
                yield self._reader
            finally:
                self._reader.execute("COMMIT")

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Give the writing connection for one transaction, committed at the end of the block, undone if it raises.

        Raises:
            LogUnavailableError: the log cannot be written; nothing was.
            ValueError: a number is beyond 64 bits or a text no Unicode; nothing was written.
        """
        with self._writing, translated(self.path):
            connection = self._writable()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException as error:
                # What failed is told, not that undoing it failed as well: SQLite then undoes it when the file is next opened.
                with suppress(sqlite3.Error):
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                if isinstance(error, OverflowError | UnicodeEncodeError):
                    raise ValueError(f"a message cannot be stored: {error}") from error  # noqa: TRY004  what it holds is wrong
                raise
        with self._changed:
            self._changed.notify_all()

    def wait(self, timeout: float) -> None:
        """Return as soon as the file was written since this thread's last call, after `timeout` seconds at the latest.

        Writes of this process are noticed at once, others within 50 ms.
        """
        end = time.monotonic() + timeout
        while True:
            with self._changed:
                version = self.one("PRAGMA data_version")[0]
                left = end - time.monotonic()
                if version != getattr(self._seen, "version", None) or left <= 0:
                    self._seen.version = version
                    return
                self._changed.wait(min(left, _POLL))

    def backup(self, path: Path) -> None:
        """Write a copy of the log, as it is at one moment, into a new file; others may go on writing meanwhile.

        It may be read by nobody who may not read the log.

        Raises:
            LogUnavailableError: the target exists or cannot be written.
            LogDamagedError: this log is torn.
        """
        draft = path.with_name(f"{path.name}.new-{os.getpid()}")
        try:
            draft.unlink(missing_ok=True)  # of a process with this number that was killed
            mode = self.path.stat().st_mode & 0o777
            os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode | 0o600))
            with translated(path), self._reading, closing(sqlite3.connect(draft, isolation_level=None)) as copy:
                # In one step: taken in several, the copy would begin anew whenever another process writes.
                self._reader.backup(copy)
            draft.chmod(draft.stat().st_mode & mode)
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
        """Close the connections. Idempotent."""
        # A statement that is finalised while another thread steps it crashes the interpreter.
        with self._reading:
            self._reader.close()
        with self._writing:
            if self._writer is not None:
                self._writer.close()

    def _writable(self) -> sqlite3.Connection:
        if self._writer is None:
            raise LogUnavailableError(f"{self.path} was opened for reading only")
        return self._writer
