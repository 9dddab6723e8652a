"""Jobs whose pods work together, at a rate that depends on the running pods and their nodes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.events.times import Micros
from engine.simulation.event_queue import EventQueue
from engine.simulation.workload import PlannedJob


@dataclass(frozen=True, slots=True)
class JointJob(PlannedJob, ABC):
    """A job that ends when its pods together have finished its work."""

    @property
    @abstractmethod
    def amount(self) -> Micros:
        """Duration of the work at rate 1 (microseconds)."""

    @abstractmethod
    def rate(self, places: Sequence[tuple[str, str]]) -> float:
        """Return the progress per second, at least 0.

        Args:
            places: task and node of each running pod.
        """

    @abstractmethod
    def holds_work(self, task: str) -> bool:
        """Return true if losing a pod of the task loses the unsaved work."""


class JointWork:
    """Progress of a joint job, and the schedule of its end. Amounts are microseconds at rate 1."""

    def __init__(self, job: JointJob, event_queue: EventQueue, end: Callable[[], object]) -> None:
        """Start with no work done and no pod running.

        Args:
            job: the joint job.
            event_queue: clock, and schedule of the end.
            end: called when the work is done.
        """
        self._job = job
        self._event_queue = event_queue
        self._end = end
        self._done = 0.0
        """Work done until `_since`."""
        self._saved = 0.0
        """Work that a loss of a pod preserves."""
        self._since: Micros = 0
        self._rate = 0.0
        self._due: int | None = None
        """Number of the scheduled end in the event queue."""

    @property
    def is_due(self) -> bool:
        """True if the work will finish with the pods that run now."""
        return self._due is not None

    def go_on(self, places: Sequence[tuple[str, str]], *, without: str | None = None) -> None:
        """Continue at the rate of the pods that run from now on.

        Args:
            places: task and node of each running pod.
            without: task of the pod that stopped; `None` if a pod started.
        """
        self._count()
        if without is not None and self._job.holds_work(without):
            self._done = self._saved
        if self._due is not None:
            self._event_queue.cancel(self._due)
            self._due = None
        self._rate = self._job.rate(places)
        if self._rate > 0:
            rest = round((self._job.amount - self._done) / self._rate)
            self._due = self._event_queue.at(self._since + rest, self._over)

    def save(self) -> None:
        """Save the work done so far."""
        self._count()
        self._saved = self._done

    def _count(self) -> None:
        """Add the work done since the last change of rate."""
        now = self._event_queue.now
        self._done += (now - self._since) * self._rate
        self._since = now

    def _over(self) -> None:
        self._due = None
        self._end()
