"""Files beside a SQLite log, with the log's owner and permissions."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["open_beside", "path_beside"]

_RIGHTS: Final = 0o777
_MODE_OF_A_NEW_LOG: Final = 0o644
"""As SQLite makes files; the umask narrows it."""


def path_beside(log: str | Path, ending: str) -> Path:
    """Return the path of a side file: beside the log's own file, whatever link the log is reached by.

    Args:
        log: the file of the log.
        ending: of the side file's name, behind the log's.
    """
    path = Path(log).resolve()
    return path.with_name(path.name + ending)


def open_beside(path: Path, log: str | Path) -> int:
    """Open a side file to read and write, created if missing; return its descriptor.

    It gets the mode of the log's file, whatever the umask, and its owner where root opens it, as SQLite does it with `PATH-wal` and
    `PATH-shm`. One of another owner stays as it is.

    Args:
        path: of the side file, as `path_beside` returns it.
        log: the file of the log; where it is not there yet, the mode is that of new files.

    Raises:
        OSError: it cannot be opened, or is a link.
    """
    try:
        # Not opened: closing the log's file would take away the locks that this process has on it (POSIX).
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
