"""Errors of effects, and exceptions by which a Python callable controls its delivery.

EffectError
├── CallbackError                a callback that cannot be registered
│   ├── CallbackModuleError      its module cannot be imported, or declares none
│   └── DuplicateCallbackError   its name is taken
├── UnknownCallbackError         no callback has this name
├── NotDisabledError             there is nothing to resume
└── ReplayError                  something that a replay never does

Exception
├── RetryLater                   raised by a callable: not now
└── Disable                      raised by a callable: never again
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite

from engine.events.times import SECOND

__all__ = [
    "CallbackError",
    "CallbackModuleError",
    "Disable",
    "DuplicateCallbackError",
    "EffectError",
    "NotDisabledError",
    "ReplayError",
    "RetryLater",
    "UnknownCallbackError",
]


class EffectError(ValueError):
    """Base of all errors of this package."""


class CallbackError(EffectError):
    """Raised when a callback cannot be registered as it was declared."""


class CallbackModuleError(CallbackError):
    """Raised when a module or entry point that should declare callbacks cannot be imported or declares none."""


class DuplicateCallbackError(CallbackError):
    """Raised when two callbacks have one name; `first` and `second` are where they were declared."""

    def __init__(self, name: str, first: str, second: str) -> None:
        super().__init__(f"the callback {name!r} is declared by {first} and by {second}; give one of them another name")
        self.name = name
        self.first = first
        self.second = second


class UnknownCallbackError(EffectError):
    """Raised when no registered callback has a name."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        names = ", ".join(sorted(known)) or "none; list their modules under `callbacks` in lahar.toml"
        super().__init__(f"no callback {name!r}; registered: {names}")
        self.name = name


class NotDisabledError(EffectError):
    """Raised when a callback is to be resumed that was never disabled."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the callback {name!r} is not disabled; what waits for it is delivered by `lahar run`")
        self.name = name


class ReplayError(EffectError):
    """Raised when something would leave the process in a replay."""


class RetryLater(Exception):  # noqa: N818  read at the place where it is raised: `raise RetryLater(60)`
    """Raised by a callable that could not do its work now: it is called again with the same notice, not before a delay.

    Once it has failed for 24 hours, as with any other exception, the callback is disabled.
    """

    def __init__(self, seconds: float, message: str = "") -> None:
        """Say how long to wait.

        Args:
            seconds: 0 or more.
            message: why, for the operator.

        Raises:
            ValueError: the delay is negative or not finite.
        """
        if not isfinite(seconds) or seconds < 0:
            raise ValueError(f"RetryLater({seconds}): the delay must be 0 seconds or more")
        super().__init__(message or f"asked to be called again in {seconds:g} s")
        self.delay = int(seconds * SECOND)
        """Microseconds."""


class Disable(Exception):  # noqa: N818  read at the place where it is raised: `raise Disable("…")`
    """Raised by a callable to be disabled until it is resumed; this notice is then delivered first."""
