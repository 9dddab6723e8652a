"""Side files of a SQLite log, with the log's owner and permissions."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

_RIGHTS: Final = 0o777
_MODE_OF_A_NEW_LOG: Final = 0o644
"""Mode with which SQLite creates files; the umask applies."""


def path_beside(log: str | Path, ending: str) -> Path:
    """Return the path of a side file in the directory of the log file; symbolic links are resolved first.

    Args:
        log: path of the log.
        ending: suffix that is added to the log's file name.
    """
    path = Path(log).resolve()
    return path.with_name(path.name + ending)


def open_beside(path: Path, log: str | Path) -> int:
    """Open a side file for reading and writing, created if missing; return its descriptor.

    The side file gets the mode of the log file regardless of the umask and, if root opens it, the log's owner; SQLite does the same
    with `PATH-wal` and `PATH-shm`. A side file of another owner stays unchanged.

    Args:
        path: path of the side file, from `path_beside`.
        log: path of the log; if it does not exist yet, the mode of new files applies.

    Raises:
        OSError: the side file cannot be opened, or is a symbolic link.
    """
    try:
        # `stat` does not open the file: closing it would release this process's POSIX locks on it.
        meant = Path(log).stat()
    except FileNotFoundError:
        meant = None
    mode = _MODE_OF_A_NEW_LOG if meant is None else meant.st_mode & _RIGHTS
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    if meant is not None:
        with suppress(PermissionError):
            found = os.fstat(descriptor)
            if os.geteuid() == 0 and (found.st_uid, found.st_gid) != (meant.st_uid, meant.st_gid):
                os.fchown(descriptor, meant.st_uid, meant.st_gid)
            if found.st_mode & _RIGHTS != mode:
                os.fchmod(descriptor, mode)
    return descriptor
