"""What SQLite's errors are called, by their code, and what they say to do."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from engine.log.errors import LogBusyError, LogDamagedError, LogError, LogUnavailableError, NotALogError
from engine.log.failures import translated


def failing(kind: type[sqlite3.Error], text: str, code: int | None = None) -> sqlite3.Error:
    error = kind(text)
    if code is not None:
        error.sqlite_errorcode, error.sqlite_errorname = code, "SQLITE_NAME"
    return error


@pytest.mark.parametrize(
    ("code", "expected", "says"),
    [
        (sqlite3.SQLITE_CORRUPT, LogDamagedError, "Restore a backup"),
        (sqlite3.SQLITE_CORRUPT_INDEX, LogDamagedError, "Restore a backup"),
        (sqlite3.SQLITE_IOERR_SHORT_READ, LogDamagedError, "Restore a backup"),
        (sqlite3.SQLITE_IOERR_CORRUPTFS, LogDamagedError, "Restore a backup"),
        (sqlite3.SQLITE_NOTADB, NotALogError, "name another file"),
        (sqlite3.SQLITE_FULL, LogUnavailableError, "the disk is full"),
        (sqlite3.SQLITE_IOERR_WRITE, LogUnavailableError, "quota and health"),
        (sqlite3.SQLITE_IOERR_FSYNC, LogUnavailableError, "quota and health"),
        (sqlite3.SQLITE_READONLY_DIRECTORY, LogUnavailableError, "that you may write there"),
        (sqlite3.SQLITE_PERM, LogUnavailableError, "that you may write there"),
        (sqlite3.SQLITE_CANTOPEN, LogUnavailableError, "that you may write there"),
        (sqlite3.SQLITE_AUTH, LogUnavailableError, "that you may write there"),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, LogBusyError, "for 10 s; stop it"),
        (sqlite3.SQLITE_LOCKED, LogBusyError, "for 10 s; stop it"),
        (sqlite3.SQLITE_PROTOCOL, LogBusyError, "for 10 s; stop it"),
        (sqlite3.SQLITE_NOMEM, LogUnavailableError, "report this if it stays"),
    ],
)
def test_a_code_is_an_error_of_the_log_with_its_remedy(code: int, expected: type[LogError], says: str) -> None:
    with pytest.raises(LogError, match=says) as caught, translated(Path("a.db")):
        raise failing(sqlite3.OperationalError, "text of SQLite", code)
    assert type(caught.value) is expected
    assert str(caught.value).startswith("a.db ") or str(caught.value).startswith("a.db:")


def test_a_text_that_is_no_unicode_is_damage() -> None:
    with pytest.raises(LogDamagedError, match="Could not decode"), translated(Path("a.db")):
        raise failing(sqlite3.OperationalError, "Could not decode to UTF-8 column")


def test_misuse_stays_what_it_is() -> None:
    with pytest.raises(sqlite3.ProgrammingError, match="bindings"), translated(Path("a.db")):
        raise failing(sqlite3.ProgrammingError, "Incorrect number of bindings supplied.")


def test_what_was_closed_is_said_to_be() -> None:
    with pytest.raises(LogUnavailableError, match=r"a\.db was closed by this process; open it again"), translated(Path("a.db")):
        raise failing(sqlite3.ProgrammingError, "Cannot operate on a closed database.")
