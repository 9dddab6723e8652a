"""Stop of a process after its current transaction by SIGTERM or SIGINT; a second signal ends it at once."""

from __future__ import annotations

import signal
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Self


class Signals:
    """Converts SIGTERM and SIGINT to a flag during a `with` block; a second signal ends the process."""

    def __init__(self) -> None:
        self.stopped = False
        self.interrupted = False
        # Not an Event, whose lock may be held where the signal interrupts. A signal handler may fill this queue.
        self._queue: SimpleQueue[int] = SimpleQueue()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._stop) for number in (signal.SIGTERM, signal.SIGINT)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def wait(self, seconds: float) -> None:
        """Block until a signal or `wake`, for at most `seconds`."""
        with suppress(Empty):
            self._queue.get(timeout=seconds)

    def wake(self) -> None:
        """Make `wait` return; callable from any thread."""
        self._queue.put(0)

    def _stop(self, number: int, _: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        self.interrupted |= number == signal.SIGINT
        self.stopped = True
        self._queue.put(number)
