"""Receiver, the port of consumers of notices: Python callables; webhooks later.

A receiver answers each notice with an outcome. A webhook's answers fit: 2xx is `done`; a transport error or 5xx is `retry`, with
`after` where it sends Retry-After; 410 is `disable`.
"""

from __future__ import annotations

from dataclasses import dataclass
from traceback import format_exception_only
from typing import Final, Literal, Protocol

from engine.effects.notice import Told
from statemachines.callbacks import BudgetSelector, Selector

__all__ = ["DONE", "Outcome", "Receiver", "deliver", "describe", "printable"]

_LONGEST: Final = 500
"""Longest message in an event (characters)."""


@dataclass(slots=True, frozen=True)
class Outcome:
    """Outcome of one delivery."""

    kind: Literal["done", "retry", "disable"]
    """`done`: delivered. `retry`: deliver the same notice again. `disable`: deliver nothing until somebody resumes the receiver."""
    message: str = ""
    """Why it is not done."""
    after: int | None = None
    """Earliest delay of the retry (microseconds); `None`: the usual back-off."""


DONE: Final = Outcome("done")


class Receiver(Protocol):
    """Consumer of what it selects."""

    @property
    def name(self) -> str:
        """Unique; the key of its cursor, so a renamed receiver begins at the beginning."""

    @property
    def origin(self) -> str:
        """Where it was declared, for error messages."""

    @property
    def selector(self) -> Selector | BudgetSelector:
        """Selects transitions, or crossed thresholds of budgets."""

    @property
    def time_limit(self) -> int:
        """Longest duration of one delivery (microseconds)."""

    def receive(self, notice: Told) -> Outcome:
        """Handle one notice. Called in order for each job, perhaps concurrently for jobs of different partitions.

        An exception is the outcome `retry`.
        """


def deliver(receiver: Receiver, notice: Told) -> Outcome:
    """Deliver one notice; exceptions become outcomes, except KeyboardInterrupt."""
    try:
        return receiver.receive(notice)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  foreign code: even its SystemExit must not stop the engine
        return Outcome("retry", describe(error))


def describe(error: BaseException) -> str:
    """Return an error with its class as text for an event."""
    return printable("".join(format_exception_only(error)).strip())


def printable(text: str) -> str:
    """Return text that an event can hold: Unicode, of bounded length."""
    return text.encode(errors="backslashreplace").decode()[:_LONGEST]
