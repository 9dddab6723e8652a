"""Times as Python programs give them: one function for every argument that is a time."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from engine.arguments import RequestError
from engine.events.times import Micros, from_micros, to_micros
from engine.log.producer_time import wall_clock
from engine.moments import parse_moment

By = Literal["time", "recordedtime"]
"""`time`: the state at the time, by all that is known today. `recordedtime`: the state that was known at the time."""


def moment_of(given: datetime | str | Micros) -> Micros:
    """Return a time as microseconds; without a time zone it is UTC.

    Args:
        given: a `datetime`, a time as on the command line (`2026-05-01 14:05`, `yesterday 14:05`, `-2h`), or microseconds.

    Raises:
        RequestError: the text is not a time.
    """
    if isinstance(given, int):
        return given
    if isinstance(given, datetime):
        return to_micros(given)
    try:
        return to_micros(parse_moment(given, from_micros(wall_clock())))
    except ValueError as error:
        raise RequestError(str(error)) from None
