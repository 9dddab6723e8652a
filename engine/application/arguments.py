"""Arguments of Python programs: checked as the command line's are, so that a mistake is one error with its remedy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from pydantic_core import from_json

from engine.application.errors import RequestError
from engine.events.times import format_time, to_micros
from engine.log.producer_time import wall_clock

__all__ = ["as_json", "as_read", "wall_clock"]


def as_read(given: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Return a decoded object as it is read from JSON.

    Args:
        given: the object.
        what: its name, for the error: `the manifest`.

    Raises:
        RequestError: it cannot be written as JSON, or a text in it as UTF-8.
    """
    written = as_json(given, what)
    try:
        content: dict[str, Any] = from_json(written)
    except ValueError as error:
        raise RequestError(f"{what} cannot be written as JSON: a text in it is no UTF-8 ({error})") from None
    return content


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
