"""Times as people write them: the one parser of every option and of the library.

    now · today · yesterday 14:05 · 14:05 · 2026-05-01 · 2026-05-01 14:05 · 2026-05-01T14:05:00.5+02:00 · @1777640700
    -2h · 1d12h · +30m · 2 hours ago · 2026-05-01 14:05 Europe/Berlin

A time without an offset is of the reader's zone. A date alone is its first moment. A clock time that a change to summer time skips,
or that occurs twice at its end, is refused. A day in `-1d` and `1 day ago` has 24 hours.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from difflib import get_close_matches
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

# Imports nothing of ours: `lahar --help` needs it.
_LONGEST: Final = 100
"""Maximum length of a time (characters)."""
_UNITS: Final = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_PART: Final = re.compile(r"([0-9]{1,9})([wdhms])")
_LENGTH: Final = re.compile(rf"-?(?:{_PART.pattern})+")
_LATER: Final = re.compile(rf"\+(?:{_PART.pattern})+")
_WORDS: Final = re.compile(r"([0-9]{1,9}|an?) ?(weeks?|days?|hours?|hrs?|minutes?|mins?|seconds?|secs?|[wdhms])(?: |$)")
_CLOCK: Final = re.compile(r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,9})?)?")
_ZONE: Final = re.compile(r"[A-Za-z_]+(?:/[A-Za-z0-9_+-]+)+")
_SECONDS: Final = re.compile(r"@([0-9]{1,12})(?:\.([0-9]{1,6}))?")
_DAYS: Final = {"yesterday": -1, "today": 0, "tomorrow": 1}
_MOST_SECONDS: Final = 10_000 * 366 * 86_400
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FORMS: Final = "write 2026-05-01, 2026-05-01 14:05, 2026-05-01T14:05:00.5+02:00, 14:05, yesterday 14:05, now, -2h or 2 hours ago"


def before_now(text: str) -> timedelta | None:
    """Return how long before now a time such as `-1h`, `2h`, `1d12h` is; `None`: it has another form."""
    return _length(text) if _LENGTH.fullmatch(text) else None


def parse_moment(text: str, now: datetime, zone: tzinfo = UTC) -> datetime:
    """Return the moment that a text names, in UTC.

    Args:
        text: one of the forms above.
        now: the present, with a time zone.
        zone: zone of a time without an offset.

    Raises:
        ValueError: it is none of them, or names no moment or two in its zone; the text says what to write.
    """
    words = " ".join(text[: _LONGEST + 1].split())
    if len(words) > _LONGEST:
        raise ValueError(f"{words[:20] + '…'!r} is no time: it has more than {_LONGEST} characters")
    try:
        found = _relative(words.lower(), now)
        return (_absolute(words, now, zone) if found is None else found).astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{words!r} lies outside the years 1 to 9999") from None


def zone_of(name: str) -> tzinfo:
    """Return a time zone by its IANA name.

    Raises:
        ValueError: there is none of that name.
    """
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # a name that is no path within the database, or names a folder of it
        close = get_close_matches(name, sorted(available_timezones()), 1)
        hint = f"did you mean {close[0]}?" if close else "write an IANA name: Europe/Berlin, UTC"
        raise ValueError(f"there is no time zone {name!r}; {hint}") from None


def _length(text: str) -> timedelta:
    return timedelta(seconds=min(sum(int(number) * _UNITS[unit] for number, unit in _PART.findall(text)), _MOST_SECONDS))


def _relative(words: str, now: datetime) -> datetime | None:
    """Return a moment given by its distance from now, or from 1970; `None`: it has another form."""
    if words == "now":
        return now
    if (before := before_now(words)) is not None:
        return _earlier(now, before)
    if _LATER.fullmatch(words):
        return now + _length(words)
    if (found := _SECONDS.fullmatch(words)) is not None:
        return _EPOCH + timedelta(seconds=int(found[1]), microseconds=int((found[2] or "0").ljust(6, "0")))
    lengths, ago, rest = words.partition("ago")
    if ago and not rest and lengths and not _WORDS.sub("", lengths):
        parts = _WORDS.findall(lengths)
        seconds = sum((1 if count in {"a", "an"} else int(count)) * _UNITS[unit[0]] for count, unit in parts)
        return _earlier(now, timedelta(seconds=min(seconds, _MOST_SECONDS)))
    return None


def _earlier(now: datetime, before: timedelta) -> datetime:
    """Return a moment before now, not before the year 1."""
    first = datetime.min.replace(tzinfo=UTC)
    return first if now - first < before else now - before


def _absolute(words: str, now: datetime, zone: tzinfo) -> datetime:
    """Return a moment given by a day, a clock time, or both."""
    given, _, last = words.rpartition(" ")
    if given and (last in {"UTC", "GMT"} or _ZONE.fullmatch(last)):
        words, zone = given, zone_of(last)
    day, _, clock = words.partition(" ")
    today = now.astimezone(zone).date()
    if _CLOCK.fullmatch(words):
        day, clock = str(today), words
    elif day.lower() in _DAYS:
        day = str(today + timedelta(days=_DAYS[day.lower()]))
    clock = f"0{clock}" if clock[1:2] == ":" else clock
    try:
        local = datetime.fromisoformat(f"{day}T{clock.replace(' ', '')}" if clock else day)
    except ValueError:
        raise ValueError(f"{words!r} is no time: {_FORMS}") from None
    if local.tzinfo is not None:
        return local
    return _in_zone(local, zone, has_clock=bool(clock) or "T" in day.upper())


def _in_zone(local: datetime, zone: tzinfo, *, has_clock: bool) -> datetime:
    """Return the moment at which clocks of a zone show a time; of a day alone, its first moment."""
    first, second = (local.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
    before, after = first.utcoffset(), second.utcoffset()
    if before == after or before is None or after is None or not has_clock:
        return first
    if before > after:
        raise ValueError(
            f"{local} occurs twice in {zone}, where clocks were put back: write {first.isoformat()} or {second.isoformat()}"
        )
    later = first.astimezone(UTC).astimezone(zone).isoformat()
    raise ValueError(f"{local} does not exist in {zone}, where clocks were put forward: write {later} or another time")
