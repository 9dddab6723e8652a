"""Errors of the command: a one-line message and a documented exit code each.

NotThereError         the named object is not in the log

| code | meaning                                                         |
|------|-----------------------------------------------------------------|
| 0    | success                                                         |
| 1    | a finding: a check failed, two histories differ, objects could  |
|      | not be read                                                     |
| 2    | bad input: options, a file, a value, an event                   |
| 3    | not found                                                       |
| 4    | the log is unavailable, damaged, or was taken over              |
| 70   | a defect of Lahar                                               |
| 130  | interrupted                                                     |
"""

from __future__ import annotations

import os
from typing import Final

from pydantic import ValidationError

from engine.application.errors import DamagedFileError, LogError, UnknownCallbackError
from engine.events.errors import is_interrupt
from engine.events.fault_messages import faults_of
from lahar import NotFoundError

OK: Final = 0
FINDING: Final = 1
BAD_INPUT: Final = 2
NOT_FOUND: Final = 3
LOG_UNAVAILABLE: Final = 4
DEFECT: Final = 70
INTERRUPTED: Final = 130


class NotThereError(LookupError):
    """Raised when a job, an event type, a topic or another object that the user named does not exist."""

    def __init__(self, what: str, name: str | None, remedy: str) -> None:
        super().__init__(f"no {what}{'' if name is None else f' {name!r}'}: {remedy}")


_EXIT_CODES: Final[tuple[tuple[type[BaseException], int], ...]] = (
    (BrokenPipeError, OK),  # the reader of standard output has closed it (`lahar events | head`)
    (LogError, LOG_UNAVAILABLE),
    (NotThereError, NOT_FOUND),
    (NotFoundError, NOT_FOUND),
    (UnknownCallbackError, NOT_FOUND),
    (DamagedFileError, FINDING),
    (ValueError, BAD_INPUT),  # EventError, pydantic's ValidationError, JSON and Unicode errors are all ValueErrors
    (OSError, BAD_INPUT),  # a file named by the user; the log converts errors of its own files
)


def exit_code(error: BaseException) -> int:
    """Return the exit code of an error; `DEFECT` for one that no user can cause."""
    if is_interrupt(error):
        return INTERRUPTED
    for kind, code in _EXIT_CODES:
        if isinstance(error, kind):
            return code
    return DEFECT


def describe(error: BaseException) -> str:
    """Return a one-line message with the problem and the remedy; empty if no message is needed."""
    if is_interrupt(error) or isinstance(error, BrokenPipeError):
        return ""
    if isinstance(error, ValidationError):
        return faults_of(error)
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    text = " ".join(str(error).split()) or type(error).__name__
    if exit_code(error) == DEFECT:
        return f"defect: {type(error).__name__}: {text} (LAHAR_DEBUG=1 shows where)"
    return text


def wants_traceback() -> bool:
    """Return whether the environment requests tracebacks (`LAHAR_DEBUG`)."""
    return bool(os.environ.get("LAHAR_DEBUG"))
