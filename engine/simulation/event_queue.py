"""Virtual time: the present moment, and what is to happen later; of one moment in the order in which it was noted."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from engine.events.times import Micros

__all__ = ["EventQueue"]


class EventQueue:
    """The clock of a simulation, with actions at later times. Times are microseconds."""

    def __init__(self) -> None:
        self.now: Micros = 0
        """The simulated time. It never falls."""
        self._heap: list[tuple[Micros, int, Callable[[], object]]] = []
        self._noted = 0
        self._cancelled: set[int] = set()

    def clock(self) -> Micros:
        """Return the simulated time, for whoever is given a clock."""
        return self.now

    def at(self, time: Micros, action: Callable[[], object]) -> int:
        """Note an action; return its number."""
        self._noted += 1
        heappush(self._heap, (time, self._noted, action))
        return self._noted

    def cancel(self, number: int) -> None:
        """Cancel an action that has not run."""
        self._cancelled.add(number)

    @property
    def due(self) -> Micros | None:
        """When the next action is due; `None`: nothing is noted."""
        while self._heap and self._heap[0][1] in self._cancelled:
            self._cancelled.remove(heappop(self._heap)[1])
        return self._heap[0][0] if self._heap else None

    def advance(self, moment: Micros) -> bool:
        """Move the time to a moment and run the actions due by then, also those noted meanwhile; return whether there were any.

        Args:
            moment: not before the present.
        """
        self.now = moment
        acted = False
        while (due := self.due) is not None and due <= moment:
            acted = True
            heappop(self._heap)[2]()
        return acted
