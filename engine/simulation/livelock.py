"""Livelock: pods that are stopped for each other again and again, so that none of them gets to its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from engine.simulation.live_jobs import Pod

__all__ = ["STOPS", "Livelock"]

STOPS: Final = 100
"""So often each pod that could get further has been stopped when a livelock is found."""


class Livelock:
    """How often pods were stopped since one last got further: ended by itself, saved its work, or made room since its job was over.

    Pods are counted by slot: the next pod of a slot begins the same work anew.
    """

    def __init__(self) -> None:
        self._stops: Counter[tuple[str, str, int]] = Counter()
        self._often = False
        """Whether a slot has reached `STOPS`."""

    def stopped(self, pod: Pod) -> None:
        """Count a pod that had a node and was stopped."""
        key = _key(pod)
        self._stops[key] += 1
        self._often |= self._stops[key] >= STOPS

    def over(self) -> None:
        """Begin anew: a pod got further."""
        self._stops.clear()
        self._often = False

    def jobs(self, pods: Iterable[Pod]) -> dict[str, int]:
        """Return the jobs that were stopped, each with the stops of the slot that was stopped most; none if there is no livelock.

        Args:
            pods: those that will start or end by themselves if nobody stops them.
        """
        found: dict[str, int] = {}
        if not self._often:  # asked at each moment
            return found
        stops_of_each = [self._stops[_key(pod)] for pod in pods]
        if min(stops_of_each, default=0) >= STOPS:
            for (job, _, _), stops in self._stops.items():
                found[job] = max(stops, found.get(job, 0))
        return found


def _key(pod: Pod) -> tuple[str, str, int]:
    return pod.seen.job, *pod.slot
