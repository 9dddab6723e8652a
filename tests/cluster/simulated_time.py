"""A virtual clock and what is to happen when: everything in the simulated cluster runs by it, nothing sleeps."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush

SECOND = 1_000_000
START = 1_700_000_000 * SECOND
"""A whole second, as a simulation begins (microseconds). It lies in the past: logs cap what is recorded in the future."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def stamp(time: int) -> str:
    """Write a time (microseconds) as an API server does: RFC 3339, cut down to whole seconds."""
    return (_EPOCH + timedelta(seconds=time // SECOND)).strftime("%Y-%m-%dT%H:%M:%SZ")


class Timeline:
    """The clock; actions run at their times, those of one time in the order in which they were scheduled."""

    def __init__(self) -> None:
        self.now = START
        """Microseconds."""
        self._actions: list[tuple[int, int, Callable[[], None]]] = []
        self._scheduled = 0

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Schedule an action."""
        self._scheduled += 1
        heappush(self._actions, (self.now + round(seconds * SECOND), self._scheduled, action))

    @property
    def due(self) -> int | None:
        """When the next action runs (microseconds); `None`: nothing is scheduled."""
        return self._actions[0][0] if self._actions else None

    def step(self) -> None:
        """Go to the next action's time and run it."""
        time, _, action = heappop(self._actions)
        self.now = max(self.now, time)
        action()
