"""Follower of the log that keeps the projection current, in a thread beside a process's work."""

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

_MOST: Final = 2_000
"""Maximum number of events per step: about 20 ms."""
_IDLE_SECONDS: Final = 1.0
"""Pause between steps (seconds) at the end of the log, or while another process writes the file."""
_SHARE: Final = 0.1
"""Share of a core while there are events to apply. At 4,000 observations a second it uses 0.06."""
_CLOSE_SECONDS: Final = 5.0
_BACK_OFF: Final = BackOff(SECOND, 30 * SECOND)

_logger: Final = logging.getLogger(__name__)


class Follower:
    """Keeps the projection's file near the end of a log, so that queries catch up quickly; its failures do not end the process.

    A context manager with a thread of its own, so that a slow log delays nothing else. Processes on one machine share the file; a
    process that finds another one writing it waits.
    """

    def __init__(self, path: Path | None, log: SearchableLog, most: int = _MOST) -> None:
        """Open the file.

        Args:
            path: path from `place_of`; without a file, nothing is followed.
            log: log to follow.
            most: maximum number of events per step.
        """
        self._log: Final = log
        self._most: Final = most
        self._projection: Final = Projection(path, patience=0)
        self._failures = 0
        self._stop: Final = threading.Event()
        # A daemon thread, so that a log that does not answer cannot keep the process alive.
        self._thread: Final = threading.Thread(target=self._run, name="lahar-projection", daemon=True)

    def step(self) -> float | None:
        """Apply the next events.

        Returns:
            Seconds until the next step; `None`: a failure was logged, and following has ended.
        """
        began = thread_time()
        try:
            taken = self._projection.follow(self._log, self._most)
        except LogUnavailableError:
            # The shards get the same error and report it.
            self._failures += 1
            return _BACK_OFF.delay(self._failures) / SECOND
        except Exception as error:  # noqa: BLE001  no failure here may end the process
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
            self.step()  # events committed since
        self._projection.close()

    def __enter__(self) -> Self:
        if self._projection.is_kept:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Apply the latest events and close the file; does not wait for a slow step."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(_CLOSE_SECONDS)
        else:
            self._projection.close()
