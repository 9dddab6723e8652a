"""The bounded wait of a process that starts before its log."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from engine.log.errors import LogUnavailableError

__all__ = ["StartWait"]

_PAUSE_SECONDS: Final = 1.0


class StartWait:
    """Decides, after each failed attempt to open the log, whether there is another one."""

    def __init__(self, seconds: float, warn: Callable[[str], object], *, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Begin to count.

        Args:
            seconds: after which there is no other attempt; 0: there is one attempt.
            warn: called once, with the reason and length of the wait.
            monotonic: a clock (seconds).
        """
        self._seconds = seconds
        self._warn = warn
        self._monotonic = monotonic
        self._deadline = monotonic() + seconds
        self._warned = False

    def pause(self, error: LogUnavailableError) -> float:
        """Return how long to wait before the next attempt (seconds).

        Args:
            error: of the last one.

        Raises:
            LogUnavailableError: that error; waiting does not help, or the time is over.
        """
        left = self._deadline - self._monotonic()
        if not error.transient or left <= 0:
            raise error
        if not self._warned:
            self._warned = True
            self._warn(f"waiting up to {self._seconds:g} s for the log: {error}")
        return min(_PAUSE_SECONDS, left)
