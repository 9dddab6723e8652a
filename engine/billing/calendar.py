"""Time boundaries of billing: hours in UTC, and calendar months in the price book's time zone."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from engine.events.times import EARLIEST, LATEST, SECOND, Micros, to_micros

HOUR: Final = 3600 * SECOND

_NAME: Final = re.compile("[0-9]{4}-(0[1-9]|1[0-2])", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Month(NamedTuple):
    """Billing period: a calendar month, with one invoice per tenant."""

    name: str
    """Name, such as `2026-10`."""
    start: Micros
    end: Micros
    """Exclusive."""


def floor_hour(moment: Micros) -> Micros:
    """Return the begin of the hour."""
    return moment - moment % HOUR


def next_hour(moment: Micros) -> Micros:
    """Return the first hour mark after a moment."""
    return moment - moment % HOUR + HOUR


@lru_cache(64)
def next_mark(moment: Micros, zone: str) -> Micros:
    """Return the time of the next record of open attempts: the next hour mark, or the end of the month if it is earlier.

    A month may end within an hour of UTC, as in Nepal; its usage must be recorded before it is closed.
    """
    return min(next_hour(moment), month_of(moment, zone).end)


def month_named(name: str, zone: str) -> Month | None:
    """Return the month `YYYY-MM` in a time zone; `None`: not a month of the years 1 to 9999."""
    if _NAME.fullmatch(name) is None or name[:4] == "0000":
        return None
    return _month(int(name[:4]), int(name[5:]), zone)


_last: dict[str, Month] = {}


def following(name: str) -> str:
    """Return the name of the next month."""
    year, month = _after(int(name[:4]), int(name[5:]))
    return f"{year:04d}-{month:02d}"


def _after(year: int, month: int) -> tuple[int, int]:
    return year + month // 12, month % 12 + 1


def month_of(moment: Micros, zone: str) -> Month:
    """Return the month of a moment in a time zone."""
    found = _last.get(zone)
    if found is None or not found.start <= moment < found.end:
        local = (_EPOCH + timedelta(microseconds=min(max(moment, EARLIEST + 48 * HOUR), LATEST - 48 * HOUR))).astimezone(
            ZoneInfo(zone)
        )
        found = _month(local.year, local.month, zone)
        if moment >= found.end:  # the clock was set back over midnight and repeats the month's last hour
            found = _month(*_after(local.year, local.month), zone)
        _last[zone] = found
    return found


@lru_cache(4096)
def _month(year: int, month: int, zone: str) -> Month:
    next_ = _after(year, month)
    end = LATEST + 1 if next_[0] > 9999 else _midnight(*next_, zone)
    return Month(f"{year:04d}-{month:02d}", _midnight(year, month, zone), end)


def _midnight(year: int, month: int, zone: str) -> Micros:
    """Return the start of a month; if its midnight is skipped, the time to which the clock jumps."""
    return max(to_micros(datetime(year, month, 1, tzinfo=ZoneInfo(zone)).astimezone(UTC)), EARLIEST)
