"""File of a projection: its path, creation and permissions, which are no wider than the log's.

It has only data from the log: it may be deleted at any time, and the next query rebuilds it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from stat import S_ISREG, S_IWGRP, S_IWOTH
from typing import Final

from engine.log.side_file import open_beside, path_beside

ENDING: Final = "-projection"
"""Suffix of the file's name, after the name of the log file."""

_PRIVATE: Final = 0o700


def place_of(url: str, environment: Mapping[str, str]) -> Path | None:
    """Return the path of a log's projection; `None`: in memory.

    Args:
        url: URL of the log.
        environment: environment variables `XDG_CACHE_HOME`, `HOME` and the settings that identify a log on Kafka
            (`KAFKA_BOOTSTRAP_SERVERS`, `KAFKA_TOPIC_PREFIX`, in any letter case).
    """
    scheme, _, rest = url.partition(":")
    if scheme == "sqlite":
        return path_beside(rest, ENDING)
    if scheme != "kafka":
        return None
    cache = environment.get("XDG_CACHE_HOME") or (f"{environment['HOME']}/.cache" if environment.get("HOME") else "")
    if not Path(cache).is_absolute():
        return None
    given = {name.upper(): value for name, value in environment.items()}
    servers = url.removeprefix("kafka://").rstrip("/") or given.get("KAFKA_BOOTSTRAP_SERVERS", "")
    named = sha256(f"{servers} {given.get('KAFKA_TOPIC_PREFIX', '')}".encode(errors="surrogateescape")).hexdigest()[:16]
    return Path(cache) / "lahar" / f"kafka-{named}{ENDING}"


def open_connection(path: Path | None, patience: float) -> sqlite3.Connection:
    """Open or create the file of a projection; if that fails, a database in memory.

    Memory is also used if the path is a link, or a file of a user who may not write the log, because queries trust the file and a
    file of another log is emptied. In a read-only file, writes raise sqlite3.OperationalError.

    Args:
        path: path from `place_of`.
        patience: maximum wait for another process's lock (seconds).
    """
    if path is not None:
        # An unwritable folder or a full disk: the query then folds the log itself.
        with suppress(OSError, sqlite3.Error):
            if not os.path.lexists(path):
                _make(path)
            if _is_ours(path):
                return _opened(path, patience)
    return sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)


def _log_of(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(ENDING))


def _is_ours(path: Path) -> bool:
    """Return true if only root and users who may write the log can have created the file and SQLite's files beside it."""
    log = _log_of(path)
    meant = log.stat() if log.exists() else None
    owners = {0, os.geteuid(), *(() if meant is None else (meant.st_uid,))}
    for found in (file.lstat() for file in (path, *_beside(path)) if os.path.lexists(file)):
        if not S_ISREG(found.st_mode) or found.st_nlink > 1:
            return False
        # Users who may write the log can falsify it anyway.
        shared = meant is not None and (meant.st_mode & S_IWOTH or (meant.st_mode & S_IWGRP and found.st_gid == meant.st_gid))
        if found.st_uid not in owners and not shared:
            return False
    return True


def _make(path: Path) -> None:
    if path.name.startswith("kafka-"):
        path.parent.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
    log = _log_of(path)
    os.close(open_beside(path, log) if log.exists() else os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600))


def _opened(path: Path, patience: float) -> sqlite3.Connection:
    mode = "rw" if os.access(path, os.W_OK) else "ro"
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(uri, uri=True, timeout=patience, isolation_level=None, check_same_thread=False)
    if mode == "rw":
        with suppress(sqlite3.DatabaseError):  # the first query detects a file that is not a database
            # No fsync per transaction, because rows lost in a power failure are read from the log again.
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA journal_mode = WAL")
    return connection


def delete_file(path: Path) -> None:
    """Delete a projection and SQLite's files beside it, as far as permitted."""
    for file in (path, *_beside(path)):
        with suppress(OSError):
            file.unlink()


def _beside(path: Path) -> list[Path]:
    return [path.with_name(path.name + ending) for ending in ("-wal", "-shm")]
