"""Open file of a SQLite log: connections, transactions, copies, and the wait for other writers.

SQLite errors are converted to log errors (`failures`).
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

T = TypeVar("T")

_POLL: Final = 0.05
"""Seconds between two checks for writes of other processes."""


class SqliteFile:
    """Open log file with one writing and one reading connection; thread-safe."""

    def __init__(self, path: Path, *, readonly: bool) -> None:
        """Open an existing file.

        Raises:
            LogError: the errors of `schema.open_file`.
        """
        self.path: Final = path
        self._reader = open_file(path, readonly=readonly)
        # A separate connection, because the writer's would see uncommitted rows.
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
        """Apply a function to the committed rows of a query; it may leave rows unread."""
        # An unclosed statement would keep its read transaction open.
        with self._reading, translated(self.path), closing(self._reader.execute(query, parameters)) as rows:
            return read(rows)

    def one(self, query: str) -> Row:
        """Return the only committed row of a query."""
        found = self.all(query)
        return found[0]

    @contextmanager
    def moment(self) -> Iterator[sqlite3.Connection]:
        """Give a connection whose queries share one read transaction."""
        with self._reading, translated(self.path):
            self._reader.execute("BEGIN")
            try:
                yield self._reader
            finally:
                self._reader.execute("COMMIT")

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Give the writing connection for one transaction: committed at the end of the block, rolled back if it raises.

        Raises:
            LogUnavailableError: the log cannot be written; nothing was written.
            ValueError: an integer is beyond 64 bits or a text is not valid Unicode; nothing was written.
        """
        with self._writing, translated(self.path):
            connection = self._writable()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException as error:
                # A failed rollback is suppressed in favour of the first error: SQLite rolls back when the file is next opened.
                with suppress(sqlite3.Error):
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                if isinstance(error, OverflowError | UnicodeEncodeError):
                    raise ValueError(f"a message cannot be stored: {error}") from error  # noqa: TRY004  not its type
                raise
        with self._changed:
            self._changed.notify_all()

    def wait(self, timeout: float) -> None:
        """Block until the file was written since this thread's last call, for at most `timeout` seconds.

        Writes of this process end the wait at once, writes of others within 50 ms.
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
        """Write a consistent copy of the log into a new file; other processes may write meanwhile.

        The copy's permissions are at most those of the log.

        Raises:
            LogUnavailableError: the target exists or cannot be written.
            LogDamagedError: this log is torn.
        """
        draft = path.with_name(f"{path.name}.new-{os.getpid()}")
        try:
            draft.unlink(missing_ok=True)  # left by a killed process with the same id
            mode = self.path.stat().st_mode & 0o777
            os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode | 0o600))
            with translated(path), self._reading, closing(sqlite3.connect(draft, isolation_level=None)) as copy:
                # One step, because a copy in several steps restarts whenever another process writes.
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
        """Rewrite the file without unused space and fold the write-ahead log into it. Writers wait meanwhile.

        Raises:
            LogUnavailableError: the disk has no space for the temporary second copy.
            LogBusyError: another process is writing.
        """
        with self._writing, translated(self.path):
            connection = self._writable()
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def close(self) -> None:
        """Close the connections. Idempotent."""
        # The locks prevent that a statement is finalised while another thread steps it, which crashes the interpreter.
        with self._reading:
            self._reader.close()
        with self._writing:
            if self._writer is not None:
                self._writer.close()

    def _writable(self) -> sqlite3.Connection:
        if self._writer is None:
            raise LogUnavailableError(f"{self.path} was opened for reading only")
        return self._writer
