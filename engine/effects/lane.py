"""How far one receiver has come in one partition, what is on its way to it, and when it is tried again."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from engine.effects.executor import Delivery
from engine.effects.notice import Notice
from engine.effects.receiver import Outcome
from engine.events.back_off import BackOff
from engine.events.times import SECOND
from engine.log.port import Partition

__all__ = ["BACK_OFF", "GIVE_UP", "Lane"]

BACK_OFF: Final = BackOff(SECOND, 300 * SECOND)
"""Of a receiver that failed and does not say when it is to be tried again; agents have the same."""

GIVE_UP: Final = 86_400 * SECOND
"""How long the same delivery is tried."""


@dataclass(slots=True)
class Lane:
    """One receiver in one partition. Its deliveries go one after another, so the order is that of the log."""

    partition: Partition
    position: int
    """Offset of the first record whose notice is not delivered, as far as is known."""
    saved: int
    """The same, as the log has it."""
    read: int
    """Offset of the first record that was not looked at."""
    waiting: deque[tuple[int, Notice]] = field(default_factory=deque)
    """Notices with their offsets; those on their way come first."""
    delivery: Delivery | None = None
    unsaved: bool = False
    """Something was delivered that the saved position does not cover."""
    failures: int = 0
    """Of the first notice that waits, in a row."""
    failing_since: int = 0
    """When the first of them was (microseconds)."""
    retry_at: int = 0
    """Not to be tried before (microseconds)."""
    failure: str | None = None
    """Why the last attempt failed; `None`: it did not."""

    def passed(self) -> None:
        """Note that everything before the first notice that waits is done with."""
        self.position = self.waiting[0][0] if self.waiting else self.read

    def delivered(self) -> None:
        """Note that the first notice has arrived."""
        self.waiting.popleft()
        self.passed()
        self.unsaved = True
        self.calm()

    def failed(self, outcome: Outcome, now: int) -> bool:
        """Note that the first notice has not arrived, and when it is tried again.

        Returns:
            Whether it has failed for so long that it is to be given up.
        """
        if not self.failures:
            self.failing_since = now
        self.failures += 1
        self.failure = outcome.message
        self.retry_at = now + (BACK_OFF.delay(self.failures) if outcome.after is None else outcome.after)
        return now - self.failing_since >= GIVE_UP

    def calm(self) -> None:
        """Forget all failures."""
        self.failures = self.failing_since = self.retry_at = 0
        self.failure = None

    def rewind(self) -> None:
        """Drop what waits; it is read again from the position."""
        self.waiting.clear()
        self.read = self.position
