"""The marks of a SQLite log's shards, in a file beside it: `lahar.db-marks`.

They are written before each input, so without a transaction and without waiting for the disk: the system keeps what a process has
written when the process dies. Marks are not relied on after a loss of power.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from engine.log.errors import LogUnavailableError
from engine.log.side_file import open_beside, path_beside

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
        self._path: Final = path_beside(log, "-marks")
        self._log: Final = log
        self._epoch: Final = epoch
        self._place: Final = (shard - 1) * _SLOT
        self._file: int | None = None

    def read(self) -> str:
        """Return the last mark of an earlier holder.

        Raises:
            LogUnavailableError: the file cannot be opened or read.
        """
        file = self._opened()
        try:
            found = os.pread(file, _SLOT, self._place).decode("ascii", "replace")
        except OSError as error:
            raise LogUnavailableError(f"{self._path} cannot be read: {error.strerror}; check the disk") from error
        epoch, _, text = found.rstrip("\0 ").partition(" ")
        return text if epoch.isdecimal() and int(epoch) < self._epoch else ""

    def write(self, text: str) -> None:
        """Replace the mark.

        Raises:
            LogUnavailableError: the file cannot be opened or written.
        """
        file = self._opened() if self._file is None else self._file
        try:
            os.pwrite(file, f"{self._epoch} {text}".encode("ascii", "replace")[:_SLOT].ljust(_SLOT), self._place)
        except OSError as error:
            raise LogUnavailableError(f"{self._path} cannot be written: {error.strerror}; check the disk's space") from error

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _opened(self) -> int:
        if self._file is None:
            try:
                self._file = open_beside(self._path, self._log)
            except OSError as error:
                raise LogUnavailableError(
                    f"{self._path} cannot be opened: {error.strerror}; check that you may write it, and its folder"
                ) from error
        return self._file
