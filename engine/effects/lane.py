"""Position of a receiver in one partition, with the notices in delivery and the time of the next retry."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from engine.effects.executor import Delivery
from engine.effects.notice import Told
from engine.effects.receiver import Outcome
from engine.events.back_off import BackOff
from engine.events.times import SECOND
from engine.log.port import Partition

BACK_OFF: Final = BackOff(SECOND, 300 * SECOND)
"""Default delays before retries, also for agents."""

GIVE_UP: Final = 86_400 * SECOND
"""Time for which one delivery is retried (microseconds)."""


@dataclass(slots=True)
class Lane:
    """A receiver in one partition. It delivers one sequence at a time, so the order is that of the log."""

    partition: Partition
    position: int
    """Offset of the first record whose notice may be undelivered."""
    saved: int
    """Position saved in the log."""
    read: int
    """Offset of the next record to read."""
    waiting: deque[tuple[int, Told]] = field(default_factory=deque)
    """Notices with their offsets, beginning with those in delivery."""
    delivery: Delivery | None = None
    unsaved: bool = False
    """True if a notice was delivered since the position was saved."""
    failures: int = 0
    """Consecutive failures of the first waiting notice."""
    failing_since: int = 0
    """Time of the first of them (microseconds)."""
    retry_at: int = 0
    """Earliest time of the next attempt (microseconds)."""
    failure: str | None = None
    """Reason of the last failed attempt; `None` after a success."""

    def passed(self) -> None:
        """Move the position to the first waiting notice."""
        self.position = self.waiting[0][0] if self.waiting else self.read

    def delivered(self) -> None:
        """Remove the delivered first notice."""
        self.waiting.popleft()
        self.passed()
        self.unsaved = True
        self.calm()

    def failed(self, outcome: Outcome, now: int) -> bool:
        """Record a failure of the first notice, and the time of the next attempt.

        Returns:
            True if it has failed for so long that it is given up.
        """
        if not self.failures:
            self.failing_since = now
        self.failures += 1
        self.failure = outcome.message
        self.retry_at = now + (BACK_OFF.delay(self.failures) if outcome.after is None else outcome.after)
        return now - self.failing_since >= GIVE_UP

    def calm(self) -> None:
        """Reset all failures."""
        self.failures = self.failing_since = self.retry_at = 0
        self.failure = None

    def rewind(self) -> None:
        """Drop waiting notices; they are read again from the position."""
        self.waiting.clear()
        self.read = self.position
