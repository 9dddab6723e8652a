"""The file of a projection: its path, creation and permissions, which are no wider than the log's.

It holds nothing that the log does not: it may be deleted at any time, and the next query rebuilds it.
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

__all__ = ["ENDING", "delete_file", "open_connection", "place_of"]

ENDING: Final = "-projection"
"""Of the file's name, behind that of a log's own file."""

_PRIVATE: Final = 0o700


def place_of(url: str, environment: Mapping[str, str]) -> Path | None:
    """Return where the projection of a log lies; `None`: in memory.

    Args:
        url: names the log.
        environment: `XDG_CACHE_HOME`, `HOME` and what else tells one log on Kafka from another (`KAFKA_BOOTSTRAP_SERVERS`,
            `KAFKA_TOPIC_PREFIX`, in any case of letters).
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
    """Open the file of a projection, made if it is not there; where that cannot be done, a database in memory.

    So it is where a link stands there, or a file of somebody who may not write the log: a projection is believed, and what is none
    of this log is emptied. Where it may only be read, what needs more raises sqlite3.OperationalError.

    Args:
        path: as `place_of` returns it.
        patience: how long another process may hold it up (seconds).
    """
    if path is not None:
        # A folder that only others may write, a full disk: then the answer is made from the log itself.
        with suppress(OSError, sqlite3.Error):
            if not os.path.lexists(path):
                _make(path)
            if _is_ours(path):
                return _opened(path, patience)
    return sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)


def _log_of(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(ENDING))


def _is_ours(path: Path) -> bool:
    """Tell whether only those who may write the log, or root, can have made the file and what SQLite keeps beside it."""
    log = _log_of(path)
    meant = log.stat() if log.exists() else None
    owners = {0, os.geteuid(), *(() if meant is None else (meant.st_uid,))}
    for found in (file.lstat() for file in (path, *_beside(path)) if os.path.lexists(file)):
        if not S_ISREG(found.st_mode) or found.st_nlink > 1:
            return False
        # Who may write the log has no need to deceive anybody about it.
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
        with suppress(sqlite3.DatabaseError):  # no database: whoever asks first finds that
            # Not on the disk at once: what a loss of power takes is read from the log again.
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA journal_mode = WAL")
    return connection


def delete_file(path: Path) -> None:
    """Delete a projection and what SQLite keeps beside it, as far as that may be done."""
    for file in (path, *_beside(path)):
        with suppress(OSError):
            file.unlink()


def _beside(path: Path) -> list[Path]:
    return [path.with_name(path.name + ending) for ending in ("-wal", "-shm")]
