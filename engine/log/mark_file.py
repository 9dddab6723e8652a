"""Marks of a SQLite log's shards, in the side file `lahar.db-marks`.

A mark names the input that a shard is processing (`ShardLog.mark`). It is written before each input, so without a transaction and
without fsync: it survives a crash of the process, but not always a loss of power.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from engine.log.errors import LogUnavailableError
from engine.log.side_file import open_beside, path_beside

_SLOT: Final = 256


class MarkFile:
    """Mark of one shard, in a slot of 256 bytes of the side file."""

    def __init__(self, log: Path, shard: int, epoch: int) -> None:
        """Set the path and slot; the file is created on first use.

        Args:
            log: path of the log.
            shard: id of the shard in the log file, from 1.
            epoch: epoch of this holder. A stored mark with this epoch or a higher one belongs to an earlier log of the same name.
        """
        self._path: Final = path_beside(log, "-marks")
        self._log: Final = log
        self._epoch: Final = epoch
        self._place: Final = (shard - 1) * _SLOT
        self._file: int | None = None

    def read(self) -> str:
        """Return the last mark of an earlier holder; empty if there is none.

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
