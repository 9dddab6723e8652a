"""Times in Lahar: integer microseconds since 1970-01-01T00:00:00Z.

Inside the engine, and in the data of events, a time is an `int`: exact, ordered, cheap. CloudEvents attributes are RFC 3339
strings; the two functions here are the only bridge.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

from msgspec import Meta
from pydantic import Field

EARLIEST: Final = -62_135_596_800_000_000
LATEST: Final = 253_402_300_799_999_999
"""First and last moment of RFC 3339: the years 1 to 9999."""

Micros = Annotated[int, Field(description="Microseconds since 1970-01-01T00:00:00Z.")]
"""A moment."""

StatedMicros = Annotated[
    int, Field(ge=EARLIEST, le=LATEST, description="Microseconds since 1970-01-01T00:00:00Z."), Meta(ge=EARLIEST, le=LATEST)
]
"""A moment from outside, within RFC 3339, because it becomes the time of events."""

Duration = Annotated[int, Field(description="Microseconds.")]
"""A length of time."""

MICROSECOND: Final = 1
SECOND: Final = 1_000_000

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def to_micros(moment: datetime) -> int:
    """Return a moment as microseconds since the epoch; a naive `datetime` is read as UTC."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * SECOND + since.microseconds


def parse_time(text: str) -> int:
    """Read an RFC 3339 time, or an ISO 8601 date; without an offset it is UTC.

    Raises:
        ValueError: the text is not a time, or its offset puts it outside the years 1 to 9999.
    """
    micros = to_micros(datetime.fromisoformat(text))
    if not EARLIEST <= micros <= LATEST:
        raise ValueError(f"{text} lies outside the years 1 to 9999 in UTC")
    return micros


def from_micros(micros: int) -> datetime:
    """Return a moment in UTC; outside the years 1 to 9999 (a timer of centuries) the nearest one within."""
    return _EPOCH + timedelta(microseconds=min(max(micros, EARLIEST), LATEST))


def format_time(micros: int) -> str:
    """Write a moment as RFC 3339 in UTC, always with six decimals: `2017-08-07T10:03:01.000000Z`.

    A moment outside the years 1 to 9999 (a timer of centuries) is written as the nearest one within.
    """
    moment = from_micros(micros)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond:06d}Z" if moment.year >= 1000 else _pad_year(moment)


def _pad_year(moment: datetime) -> str:
    # strftime does not pad %Y on Linux.
    return f"{moment.year:04d}" + moment.strftime("-%m-%dT%H:%M:%S.") + f"{moment.microsecond:06d}Z"
