"""Virtual clock with scheduled actions; actions of the same time run in the order in which they were scheduled."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from engine.events.times import Micros


class EventQueue:
    """Clock of a simulation, with scheduled actions. Times are microseconds."""

    def __init__(self) -> None:
        self.now: Micros = 0
        """Simulated time; never falls."""
        self._heap: list[tuple[Micros, int, Callable[[], object]]] = []
        self._noted = 0
        self._cancelled: set[int] = set()

    def clock(self) -> Micros:
        """Return the simulated time."""
        return self.now

    def at(self, time: Micros, action: Callable[[], object]) -> int:
        """Schedule an action; return its number."""
        self._noted += 1
        heappush(self._heap, (time, self._noted, action))
        return self._noted

    def cancel(self, number: int) -> None:
        """Cancel a scheduled action that has not run."""
        self._cancelled.add(number)

    @property
    def due(self) -> Micros | None:
        """Time of the next action; `None` if nothing is scheduled."""
        while self._heap and self._heap[0][1] in self._cancelled:
            self._cancelled.remove(heappop(self._heap)[1])
        return self._heap[0][0] if self._heap else None

    def advance(self, moment: Micros) -> bool:
        """Move the clock and run all actions due by then, including those that they schedule; return true if any ran.

        Args:
            moment: new time, not before the current one.
        """
        self.now = moment
        acted = False
        while (due := self.due) is not None and due <= moment:
            acted = True
            heappop(self._heap)[2]()
        return acted
