"""Jobs whose pods work together: their work proceeds at a rate that depends on which pods run, and where."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from engine.events.times import Micros
from engine.simulation.workload import PlannedJob

__all__ = ["JointJob", "Progress"]


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


@dataclass(slots=True)
class Progress:
    """How much of a job's work is done. Amounts are microseconds at rate 1."""

    done: float = 0.0
    """Up to `since`."""
    saved: float = 0.0
    """What a loss leaves."""
    since: Micros = 0
    rate: float = 0.0
    end: int | None = None
    """Number of its end in the agenda."""

    def proceed(self, now: Micros) -> None:
        """Count what was done until now."""
        self.done += (now - self.since) * self.rate
        self.since = now

    def lose(self) -> None:
        """Go back to what is saved."""
        self.done = self.saved

    def save(self) -> None:
        """Save what is done."""
        self.saved = self.done

    def go_on(self, rate: float, amount: Micros) -> Micros | None:
        """Set the rate; return when the work is done (microseconds) if it stays so, or `None`: never."""
        self.rate = rate
        return self.since + round((amount - self.done) / rate) if rate > 0 else None
