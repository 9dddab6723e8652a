"""The marks of a SQLite log's shards, in a file beside it: `lahar.db-marks`.

They are written before each input, so without a transaction and without waiting for the disk: the system keeps what a process has
written when the process dies. What a machine that lost its power leaves here is not relied on.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from engine.log.errors import LogUnavailableError

__all__ = ["MarkFile"]

_SLOT: Final = 256


class MarkFile:
    """The place of one shard in the file."""

    def __init__(self, log: Path, shard: int, epoch: int) -> None:
        """Name the place; the file is made when it is first used.

        Args:
            log: the file of the log.
            shard: number of the shard in it, from 1.
            epoch: of this holder. A mark of the same or a later one is of another log that had this name.
        """
        self._path: Final = log.with_name(f"{log.name}-marks")
        self._epoch: Final = epoch
        self._place: Final = (shard - 1) * _SLOT
        self._file: int | None = None

    def read(self) -> str:
        """Return what an earlier holder has marked last.

        Raises:
            LogUnavailableError: it cannot be read.
        """
        try:
            found = os.pread(self._opened(), _SLOT, self._place).decode("ascii", "replace")
        except OSError as error:
            raise self._unavailable(error) from error
        epoch, _, text = found.rstrip("\0 ").partition(" ")
        return text if epoch.isdecimal() and int(epoch) < self._epoch else ""

    def write(self, text: str) -> None:
        """Put a mark in the place of the one before it.

        Raises:
            LogUnavailableError: it cannot be written.
        """
        try:
            os.pwrite(self._opened(), f"{self._epoch} {text}".encode("ascii", "replace")[:_SLOT].ljust(_SLOT), self._place)
        except OSError as error:
            raise self._unavailable(error) from error

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _opened(self) -> int:
        if self._file is None:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        return self._file

    def _unavailable(self, error: OSError) -> LogUnavailableError:
        return LogUnavailableError(f"{self._path} cannot be written: {error.strerror}; check the folder and the disk's space")
