"""Bounded wait for the log at the start of a process."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from engine.log.errors import LogUnavailableError

_PAUSE_SECONDS: Final = 1.0


class StartWait:
    """Retry limit for opening the log."""

    def __init__(self, seconds: float, warn: Callable[[str], object], *, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Start the time limit.

        Args:
            seconds: time limit; 0 allows a single attempt.
            warn: called once, with a message of the reason and the time limit.
            monotonic: monotonic clock (seconds).
        """
        self._seconds = seconds
        self._warn = warn
        self._monotonic = monotonic
        self._deadline = monotonic() + seconds
        self._warned = False

    def pause(self, error: LogUnavailableError) -> float:
        """Return the seconds to wait before the next attempt.

        Args:
            error: error of the last attempt.

        Raises:
            LogUnavailableError: `error` itself, if it is not transient or the time limit has passed.
        """
        left = self._deadline - self._monotonic()
        if not error.transient or left <= 0:
            raise error
        if not self._warned:
            self._warned = True
            self._warn(f"waiting up to {self._seconds:g} s for the log: {error}")
        return min(_PAUSE_SECONDS, left)
