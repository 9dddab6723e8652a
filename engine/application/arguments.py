"""Arguments of Python programs: checked as the command line's are, so that a mistake is one error with its remedy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from engine.application.errors import RequestError
from engine.events.times import Micros, format_time, from_micros, to_micros
from engine.log.producer_time import wall_clock
from engine.moments import parse_moment

__all__ = ["as_json", "moment_of", "one_object"]


def moment_of(given: datetime | str) -> Micros:
    """Return a moment as microseconds; without a time zone it is UTC.

    Args:
        given: a `datetime`, or a time as on the command line: `2026-05-01 14:05`, `yesterday 14:05`, `-2h`.

    Raises:
        RequestError: it is neither.
    """
    if isinstance(given, datetime):
        return to_micros(given)
    if not isinstance(given, str):
        raise RequestError(f"a moment is a datetime or a text such as '2026-05-01 14:05', not {type(given).__name__!r}")
    try:
        return to_micros(parse_moment(given, from_micros(wall_clock())))
    except ValueError as error:
        raise RequestError(str(error)) from None


def one_object(given: object, what: str) -> Mapping[str, Any]:
    """Return an argument that must be one decoded object.

    Args:
        given: the argument.
        what: its name, for the error: `the manifest`.

    Raises:
        RequestError: it is something else.
    """
    if isinstance(given, Mapping):
        return given
    raise RequestError(f"{what} must be one decoded object (a dict), not {type(given).__name__!r}")


def as_json(content: object, what: str) -> bytes:
    """Return an object as JSON; a time, as YAML readers make one, in RFC 3339.

    Raises:
        RequestError: it cannot be written as JSON.
    """
    try:
        return json.dumps(content, default=_time_as_text).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise RequestError(f"{what} cannot be written as JSON: {error}") from None


def _time_as_text(value: object) -> str:
    if isinstance(value, datetime):
        return format_time(to_micros(value))
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no form in JSON")
