"""Ends the process if one decision takes too long; the poison guard's mark names its input or timer for the next process.

It measures processor time, so that a busy or suspended machine or a frozen process does not look like an endless loop. A loop that
holds the interpreter lock (in a C extension) blocks the watchdog's thread; then a system timer, which the thread resets at each
check, ends the process. Inside another program only the thread is used, because timers and signals belong to that program.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self
from weakref import WeakKeyDictionary

from engine.log.errors import LogError
from engine.processor.poison_guard import PoisonGuard, text_of

DECIDE_SECONDS: Final = 60.0
"""Limit of processor time for one input or timer (seconds). Typical ones take a millisecond, large jobs some seconds."""

ENDED: Final = 70
"""Exit code of a process that the watchdog has ended."""

_LOOKS: Final = 8
"""Number of checks within the time limit."""
_logger: Final = logging.getLogger(__name__)


class Watchdog:
    """Watches the decisions of this process's shards; a context manager, in the thread that owns it."""

    def __init__(self, seconds: float = DECIDE_SECONDS, end: Callable[[int], object] = os._exit, *, alarm: bool = True) -> None:
        """Start without shards.

        Args:
            seconds: limit of processor time for a decision.
            end: ends the process with an exit code.
            alarm: true if the process's timer (`ITIMER_VIRTUAL`) and its signal may be used.
        """
        self.seconds: Final = seconds
        """Limit of processor time for a decision (seconds)."""
        self._end: Final = end
        self._alarm: Final = alarm
        self._seen: WeakKeyDictionary[PoisonGuard, tuple[object, float]] = WeakKeyDictionary()
        """Each shard's decision at the last check, with the processor time when it was first seen (seconds)."""
        self._stop = threading.Event()

    def watch(self, poison_guard: PoisonGuard) -> None:
        """Watch one more shard, while its guard is in use; callable from any thread."""
        self._seen[poison_guard] = None, 0.0

    def check(self) -> None:
        """End the process if a decision has taken too long since it was first seen."""
        for poison_guard, (before, since) in list(self._seen.items()):
            deciding, spent = poison_guard.deciding, poison_guard.processor_seconds()
            if deciding is None or deciding is not before:
                self._seen[poison_guard] = deciding, spent
            elif spent - since > self.seconds:
                self._give_up(poison_guard, text_of(deciding))

    def _give_up(self, poison_guard: PoisonGuard, name: str) -> None:
        text = (
            "shard %s: %s is not decided after %g s of processor time: this process ends; the second time a child process tries %s"
        )
        _logger.critical(text, poison_guard.shard, name, self.seconds, name)
        try:
            poison_guard.run_out()
        except LogError as error:
            _logger.critical("shard %s: the mark cannot be written: %s", poison_guard.shard, error)
        self._end(ENDED)

    def _live(self) -> None:
        while not self._stop.wait(self.seconds / _LOOKS):
            self._wind_up()
            self.check()

    def _wind_up(self) -> None:
        if self._alarm:
            signal.setitimer(signal.ITIMER_VIRTUAL, self.seconds + 1)

    def __enter__(self) -> Self:
        """Start watching."""
        self._stop.clear()
        if self._alarm and sys.__stderr__ is not None:
            # Prints the threads' stacks; then the signal's default action ends the process.
            faulthandler.register(signal.SIGVTALRM, sys.__stderr__, chain=True)
        self._wind_up()
        self._thread = threading.Thread(target=self._live, name="lahar-watchdog", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Stop watching."""
        self._stop.set()
        self._thread.join()
        if self._alarm:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            faulthandler.unregister(signal.SIGVTALRM)
