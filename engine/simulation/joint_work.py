"""Jobs whose pods work together: their work proceeds at a rate that depends on which pods run, and where."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.events.times import Micros
from engine.simulation.event_queue import EventQueue
from engine.simulation.workload import PlannedJob

__all__ = ["JointJob", "JointWork"]


@dataclass(frozen=True, slots=True)
class JointJob(PlannedJob, ABC):
    """A job that ends when its pods together have done its work."""

    @property
    @abstractmethod
    def amount(self) -> Micros:
        """How long the work takes at rate 1 (microseconds)."""

    @abstractmethod
    def rate(self, places: Sequence[tuple[str, str]]) -> float:
        """Return the progress per second, 0 or more.

        Args:
            places: task and node of each pod that runs.
        """

    @abstractmethod
    def holds_work(self, task: str) -> bool:
        """Return whether what is not saved is lost with a pod of a task."""


class JointWork:
    """How much of a job's work is done, and when the rest will be. Amounts are microseconds at rate 1."""

    def __init__(self, job: JointJob, event_queue: EventQueue, end: Callable[[], object]) -> None:
        """Begin with nothing done and nobody at work.

        Args:
            job: the job.
            event_queue: the clock; takes the end of the work.
            end: called when the work is done.
        """
        self._job = job
        self._event_queue = event_queue
        self._end = end
        self._done = 0.0
        """Up to `_since`."""
        self._saved = 0.0
        """What a loss leaves."""
        self._since: Micros = 0
        self._rate = 0.0
        self._due: int | None = None
        """Number of its end in the event queue."""

    @property
    def is_due(self) -> bool:
        """Whether it will be done if the pods that work now go on."""
        return self._due is not None

    def go_on(self, places: Sequence[tuple[str, str]], *, without: str | None = None) -> None:
        """Go on at the rate of the pods that work from now on.

        Args:
            places: task and node of each pod that works.
            without: task of the pod that works no more; `None`: one more works.
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
        """Save what is done."""
        self._count()
        self._saved = self._done

    def _count(self) -> None:
        """Count what was done until now."""
        now = self._event_queue.now
        self._done += (now - self._since) * self._rate
        self._since = now

    def _over(self) -> None:
        self._due = None
        self._end()
