"""Receiver: the port of consumers of notices, such as Python callables; webhooks later.

A receiver returns an outcome for each notice. A webhook's responses fit: 2xx is `done`; a transport error or 5xx is `retry`, with
`after` from Retry-After; 410 is `disable`.
"""

from __future__ import annotations

from dataclasses import dataclass
from traceback import format_exception_only
from typing import Final, Literal, Protocol

from engine.effects.notice import Told
from statemachines.callbacks import BudgetSelector, Selector

_LONGEST: Final = 500
"""Maximum length of a message in an event (characters)."""


@dataclass(slots=True, frozen=True)
class Outcome:
    """Outcome of one delivery."""

    kind: Literal["done", "retry", "disable"]
    """`done`: delivered. `retry`: deliver the same notice again. `disable`: deliver nothing until the receiver is resumed."""
    message: str = ""
    """Reason why it is not done."""
    after: int | None = None
    """Minimum delay of the retry (microseconds); `None`: the default back-off."""


DONE: Final = Outcome("done")


class Receiver(Protocol):
    """Consumer of the notices that it selects."""

    @property
    def name(self) -> str:
        """Unique name; the key of its cursor, so a renamed receiver starts at the beginning."""

    @property
    def origin(self) -> str:
        """Location of its declaration, for error messages."""

    @property
    def selector(self) -> Selector | BudgetSelector:
        """Selector of transitions, or of crossed thresholds of budgets."""

    @property
    def time_limit(self) -> int:
        """Time limit of one delivery (microseconds)."""

    def receive(self, notice: Told) -> Outcome:
        """Process one notice. Called in order for each job, perhaps concurrently for jobs of different partitions.

        An exception means the outcome `retry`.
        """


def deliver(receiver: Receiver, notice: Told) -> Outcome:
    """Deliver one notice; exceptions become outcomes, except KeyboardInterrupt."""
    try:
        return receiver.receive(notice)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  third-party code: even its SystemExit must not stop the engine
        return Outcome("retry", describe(error))


def describe(error: BaseException) -> str:
    """Return an error with its class as text for an event."""
    return printable("".join(format_exception_only(error)).strip())


def printable(text: str) -> str:
    """Return a text that an event can store: valid Unicode, of bounded length."""
    return text.encode(errors="backslashreplace").decode()[:_LONGEST]
