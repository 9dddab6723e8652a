"""Following a log from a loop that has other work to do."""

from __future__ import annotations

import logging
import sqlite3
from pathlib import Path
from typing import Final, Self

from engine.events.errors import EventError
from engine.log.errors import LogError
from engine.projection.projection import Followed, Projection

__all__ = ["Follower"]

_MOST: Final = 2_000
"""Events a step: some 20 ms."""

_logger: Final = logging.getLogger(__name__)


class Follower:
    """Keeps the projection's file near the end of the log, so that questions find little to catch up with; it fails nobody."""

    def __init__(self, path: Path | None, most: int = _MOST) -> None:
        """Open the file.

        Args:
            path: as `place_of` returns it; where no file can be kept, nothing is followed.
            most: events a step.
        """
        self._most: Final = most
        self._projection: Projection | None = Projection(path, patience=0)
        if not self._projection.is_kept:
            self.close()

    def step(self, log: Followed) -> bool:
        """Take the next events; tell whether there may be more. What fails is logged once, and nothing is followed any more."""
        if self._projection is None:
            return False
        try:
            return self._projection.follow(log, self._most) == self._most
        except (LogError, EventError, sqlite3.Error) as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:  # another process follows
                return False
            _logger.warning("the projection is followed no further: %s; whoever asks catches it up", error)
            self.close()
        return False

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._projection is not None:
            self._projection.close()
            self._projection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
