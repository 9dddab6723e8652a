"""Lock file beside an embedded log, held by the process that runs its shards.

The lock does not protect the log; epochs do. Commands like `lahar job submit` check it: if it is free, they process the inputs that
they have appended themselves.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from engine.log.errors import LogBusyError, LogUnavailableError
from engine.log.side_file import open_beside, path_beside

_PROBES: Final = 5
_PROBE_SECONDS: Final = 0.01


class RunLock:
    """Advisory lock on the file `PATH.lock`; symbolic links in PATH are resolved first.

    The operating system releases it when the holder exits or crashes.
    """

    def __init__(self, log: str | Path) -> None:
        """Set the path of the lock file; creates nothing."""
        # Resolved, because two paths to one log (a link, a relative path) must lead to one lock.
        self.path: Final = path_beside(log, ".lock")
        self._log: Final = log

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold the lock for the length of a `with` block.

        Raises:
            LogBusyError: another live process holds it; the message has its process id.
            LogUnavailableError: the lock file cannot be created or written.
        """
        try:
            descriptor = open_beside(self.path, self._log)
        except OSError as error:
            raise LogUnavailableError(f"{self.path} cannot be made: {error.strerror}; check that you may write there") from error
        try:
            self._take(descriptor)
            try:
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, str(os.getpid()).encode(), 0)
            except OSError as error:
                raise LogUnavailableError(f"{self.path} cannot be written: {error.strerror}; check the disk's space") from error
            yield
        finally:
            # The file is not deleted: another process may have just locked it.
            os.close(descriptor)

    def is_held(self) -> bool:
        """Return whether a live process holds the lock."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def _take(self, descriptor: int) -> None:
        # Retried, because `is_held` of another process takes the lock for some microseconds.
        for attempt in range(_PROBES):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if attempt + 1 < _PROBES:
                    time.sleep(_PROBE_SECONDS)
            else:
                return
        holder = os.pread(descriptor, 20, 0).decode(errors="replace") or "unknown"
        raise LogBusyError(f"{self.path} is held by process {holder}, which runs this log; stop it first, or let it do the work")
