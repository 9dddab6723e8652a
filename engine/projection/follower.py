"""Following a log beside the work of a process."""

from __future__ import annotations

import logging
import sqlite3
import threading
from pathlib import Path
from time import thread_time
from typing import Final, Self

from engine.events.back_off import BackOff
from engine.events.times import SECOND
from engine.log.errors import LogUnavailableError
from engine.log.port import SearchableLog
from engine.projection.projection import Projection

__all__ = ["Follower"]

_MOST: Final = 2_000
"""Events a step: some 20 ms."""
_IDLE_SECONDS: Final = 1.0
"""From the end of the log, or from a file at which another process is, to the next step."""
_SHARE: Final = 0.1
"""Of a core, while there is more to take. At 4,000 observations a second it takes 0.06."""
_CLOSE_SECONDS: Final = 5.0
_BACK_OFF: Final = BackOff(SECOND, 30 * SECOND)

_logger: Final = logging.getLogger(__name__)


class Follower:
    """Keeps the projection's file near the end of a log, so that questions find little to catch up with; it fails nobody.

    A context manager, in a thread of its own: a log that answers slowly delays nothing else. Processes on one machine share the
    file; whoever finds another one at it waits.
    """

    def __init__(self, path: Path | None, log: SearchableLog, most: int = _MOST) -> None:
        """Open the file.

        Args:
            path: as `place_of` returns it; where no file can be kept, nothing is followed.
            log: to be followed.
            most: events a step.
        """
        self._log: Final = log
        self._most: Final = most
        self._projection: Final = Projection(path, patience=0)
        self._failures = 0
        self._stop: Final = threading.Event()
        # A daemon: a log that does not answer must not keep the process from ending.
        self._thread: Final = threading.Thread(target=self._run, name="lahar-projection", daemon=True)

    def step(self) -> float | None:
        """Take the next events.

        Returns:
            How long to wait for the next step (seconds); `None`: what has failed is logged, and nothing is followed any more.
        """
        began = thread_time()
        try:
            taken = self._projection.follow(self._log, self._most)
        except LogUnavailableError:
            # The shards meet the same, and tell it.
            self._failures += 1
            return _BACK_OFF.delay(self._failures) / SECOND
        except Exception as error:  # noqa: BLE001  nothing that goes wrong here may end the process
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
                return _IDLE_SECONDS
            if not self._stop.is_set():
                _logger.warning("the projection is no longer followed: %s; queries catch it up", error)
            return None
        self._failures = 0
        return _IDLE_SECONDS if taken < self._most else (thread_time() - began) * (1 / _SHARE - 1)

    def _run(self) -> None:
        pause = self.step()
        while pause is not None and not self._stop.wait(pause):
            pause = self.step()
        if pause is not None and not self._failures:
            self.step()  # what was committed since
        self._projection.close()

    def __enter__(self) -> Self:
        if self._projection.is_kept:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take what is new, once more, and close the file; a step that takes long is left behind."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(_CLOSE_SECONDS)
        else:
            self._projection.close()
