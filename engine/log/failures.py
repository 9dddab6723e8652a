"""Conversion of SQLite errors to log errors, with remedies for operators."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.log.errors import LogBusyError, LogDamagedError, LogError, LogUnavailableError, NotALogError

BUSY_SECONDS = 10.0
"""Seconds that a transaction waits for another process's write lock. An append holds it for milliseconds, `compact` of a large log
for seconds; a longer wait means that the other process hangs."""

_TORN = frozenset({sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_IOERR_CORRUPTFS})


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Convert SQLite errors about the log at `path` to errors of this package.

    Raises:
        LogUnavailableError: disk full, I/O error, missing permission, or the log is closed.
        LogBusyError: another process held the write lock for longer than `BUSY_SECONDS`.
        LogDamagedError: the file is torn or malformed.
        NotALogError: the file is not a database.
    """
    try:
        yield
    except sqlite3.DatabaseError as error:
        found = _meaning(path, error)
        if found is None:
            raise
        raise found from error


def damaged(path: Path, what: str, place: tuple[str, int, int] | None = None, count: int = 1) -> LogDamagedError:
    """Return the error for a damaged log file; `place` and `count` as in `LogDamagedError`."""
    return LogDamagedError(
        f"{path} is damaged: {what}. Restore a backup (`lahar log backup` makes them), "
        "or save what can still be read with `lahar export` and `lahar import` it into a new log",
        place,
        count,
    )


def _meaning(path: Path, error: sqlite3.DatabaseError) -> LogError | None:
    code = getattr(error, "sqlite_errorcode", None)
    if isinstance(error, sqlite3.ProgrammingError) and "closed database" in str(error):
        return LogUnavailableError(f"{path} was closed by this process; open it again")
    if code is None:
        # sqlite3 raises errors without a code for text that is not UTF-8, and for misuse of its API, which is raised unchanged.
        return damaged(path, str(error)) if "decode" in str(error) else None
    primary = code & 0xFF
    if code in _TORN or primary == sqlite3.SQLITE_CORRUPT:
        return damaged(path, str(error))
    if primary == sqlite3.SQLITE_NOTADB:
        return NotALogError(f"{path} is no Lahar log; name another file, or move it away to begin a new log there")
    if primary == sqlite3.SQLITE_FULL:
        return LogUnavailableError(
            f"{path} cannot grow: the disk is full. Nothing of this transaction was written, all before it is safe: "
            "free space, then start again"
        )
    if primary == sqlite3.SQLITE_IOERR:
        return LogUnavailableError(
            f"{path} cannot be read or written ({error.sqlite_errorname}). What was committed is safe: "
            "check the disk's space, quota and health, then start again"
        )
    if primary in {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_AUTH}:
        return LogUnavailableError(
            f"{path} cannot be opened for this ({error}): check that the folder exists and that you may write there"
        )
    if primary in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}:
        return LogBusyError(f"{path} was locked by another process for {BUSY_SECONDS:.0f} s; stop it, or try again when it is done")
    return LogUnavailableError(f"{path}: {error} ({error.sqlite_errorname}); start again, and report this if it stays")
