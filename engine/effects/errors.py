"""Errors of effects, and exceptions by which a Python callable controls its delivery.

EffectError
├── CallbackError                a callback cannot be registered
│   ├── CallbackModuleError      a module cannot be imported, or declares no callback
│   └── DuplicateCallbackError   two callbacks have the same name
├── UnknownCallbackError         no callback has this name
├── NotDisabledError             the callback to resume is not disabled
└── ReplayError                  not allowed in a replay

Exception
├── RetryLater                   raised by a callable: retry after a delay
└── Disable                      raised by a callable: disable it
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite

from engine.events.times import SECOND
from statemachines.errors import LaharError


class EffectError(LaharError, ValueError):
    """Base of all errors of this package."""


class CallbackError(EffectError):
    """Raised when a callback's declaration is invalid."""


class CallbackModuleError(CallbackError):
    """Raised when a module or entry point of callbacks cannot be imported or declares none."""


class DuplicateCallbackError(CallbackError):
    """Raised when two callbacks have the same name; `first` and `second` are the locations of their declarations."""

    def __init__(self, name: str, first: str, second: str) -> None:
        super().__init__(f"the callback {name!r} is declared by {first} and by {second}; give one of them another name")
        self.name = name
        self.first = first
        self.second = second


class UnknownCallbackError(EffectError):
    """Raised when no registered callback has the given name."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        names = ", ".join(sorted(known)) or "none; list their modules under `callbacks` in lahar.toml"
        super().__init__(f"no callback {name!r}; registered: {names}")
        self.name = name


class NotDisabledError(EffectError):
    """Raised when the callback to resume is not disabled."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the callback {name!r} is not disabled; `lahar run` delivers its waiting events")
        self.name = name


class ReplayError(EffectError):
    """Raised when a replay would cause an effect outside the process."""


class RetryLater(Exception):  # noqa: N818  named for its use: `raise RetryLater(60)`
    """Raised by a callable that cannot process a notice now: it is called again with the same notice after a delay.

    After 24 hours of failures, as with any other exception, the callback is disabled.
    """

    def __init__(self, seconds: float, message: str = "") -> None:
        """Set the delay.

        Args:
            seconds: delay, at least 0.
            message: reason, for operators.

        Raises:
            ValueError: the delay is negative or not finite.
        """
        if not isfinite(seconds) or seconds < 0:
            raise ValueError(f"RetryLater({seconds}): the delay must be 0 seconds or more")
        super().__init__(message or f"asked to be called again in {seconds:g} s")
        self.delay = int(seconds * SECOND)
        """Delay (microseconds)."""


class Disable(Exception):  # noqa: N818  named for its use: `raise Disable("…")`
    """Raised by a callable to be disabled until a resume, which delivers this notice first."""
