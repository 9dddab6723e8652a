"""Livelock detection: pods that preempt each other repeatedly, so that none finishes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from engine.simulation.live_jobs import Pod

STOPS: Final = 100
"""Livelock threshold: each pod that could make progress has been stopped this many times."""


class Livelock:
    """Counter of stops since a pod last made progress: it ended by itself, saved its work, or was released because its job ended.

    Stops are counted per slot, because a replacement pod begins the same work anew.
    """

    def __init__(self) -> None:
        self._stops: Counter[tuple[str, str, int]] = Counter()
        self._often = False
        """True if a slot has reached `STOPS`."""

    def stopped(self, pod: Pod) -> None:
        """Count the stop of a bound pod."""
        key = _key(pod)
        self._stops[key] += 1
        self._often |= self._stops[key] >= STOPS

    def over(self) -> None:
        """Reset the counts, because a pod made progress."""
        self._stops.clear()
        self._often = False

    def jobs(self, pods: Iterable[Pod]) -> dict[str, int]:
        """Return the stopped jobs, each with the number of stops of its most stopped slot; empty if there is no livelock.

        Args:
            pods: pods that will start or end unless they are stopped.
        """
        found: dict[str, int] = {}
        if not self._often:  # fast path: called at every time step
            return found
        stops_of_each = [self._stops[_key(pod)] for pod in pods]
        if min(stops_of_each, default=0) >= STOPS:
            for (job, _, _), stops in self._stops.items():
                found[job] = max(stops, found.get(job, 0))
        return found


def _key(pod: Pod) -> tuple[str, str, int]:
    return pod.seen.job, *pod.slot
