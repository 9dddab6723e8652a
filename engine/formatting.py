"""Times, durations, counts, amounts of resources and messages as text for operators."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from datetime import UTC, datetime, tzinfo
from decimal import Decimal
from typing import Final, Literal

from engine.events.times import SECOND, format_time, from_micros

NAMED: Final = 4
"""Maximum number of listed names; the rest is counted."""
_SHOWN: Final = 400
"""Maximum length of a message in output (characters); `lahar history` and `--json` have the stored message."""
_LAST: Final = 200
"""Characters kept at the end of a shortened message."""
_AGREEING: Final = {"was": "were", "has": "have", "is": "are", "waits": "wait", "runs": "run"}

_GIB: Final = 1 << 30
_UNITS: Final = ((86_400 * SECOND, "d"), (3_600 * SECOND, "h"), (60 * SECOND, "min"))


SHOWN_ZONE: Final[ContextVar[tzinfo]] = ContextVar("SHOWN_ZONE", default=UTC)
"""Time zone in which times are shown to people, and read without an offset. JSON has UTC."""


def moment(micros: int) -> str:
    """Format a time: `2017-08-07 10:03:01Z`, with a fraction if it has one; outside UTC with its offset."""
    if SHOWN_ZONE.get() is not UTC:
        return _shown(micros).isoformat(" ")
    date, _, rest = format_time(micros).partition("T")
    return f"{date} {rest.removesuffix('Z').removesuffix('.000000')}Z"


def stamp(micros: int, digits: Literal["seconds", "milliseconds"] = "seconds") -> str:
    """Format a time for a column: `2017-08-07T10:03:01`; outside UTC with its offset."""
    shown = _shown(micros).isoformat(timespec=digits)
    return shown.removesuffix("+00:00") if SHOWN_ZONE.get() is UTC else shown


def exact(micros: int) -> str:
    """Format a time to the microsecond, as in events: `2017-08-07T10:03:01.000000Z`; outside UTC with its offset."""
    return format_time(micros) if SHOWN_ZONE.get() is UTC else _shown(micros).isoformat(timespec="microseconds")


def _shown(micros: int) -> datetime:
    shown = from_micros(micros)
    try:
        return shown.astimezone(SHOWN_ZONE.get())
    except OverflowError:  # a timer of centuries, after the year 9999 in the time zone
        return shown


def length(micros: int) -> str:
    """Format a duration in its two largest units: `17 min 3 s`, `2 d`, `0.25 s`."""
    parts: list[tuple[int, str]] = []
    rest = micros
    for size, unit in _UNITS:
        count, rest = divmod(rest, size)
        if count or parts:
            parts.append((count, unit))
        if len(parts) == 2:
            break
    else:
        if not parts and rest % SECOND:
            return f"{rest // SECOND}.{rest % SECOND:06d}".rstrip("0") + " s"
        parts.append((rest // SECOND, "s"))
    return " ".join(f"{count} {unit}" for count, unit in parts if count) or "0 s"


def plural(count: int | Decimal, what: str) -> str:
    """Format a count: `1 pod`, `3 pods`."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def agree(what: str, count: int) -> str:
    """Return a clause with its first verb in the singular or plural of its subject."""
    verb, blank, rest = what.partition(" ")
    return _AGREEING.get(verb, verb) + blank + rest if count > 1 else what


def listed(names: Sequence[str]) -> str:
    """List a few names and count the rest: `a, b and 3 more`."""
    if len(names) > NAMED + 1:
        return f"{', '.join(names[:NAMED])} and {len(names) - NAMED} more"
    return "".join(names) if len(names) < 2 else f"{', '.join(names[:-1])} and {names[-1]}"


def sentence(text: str) -> str:
    """Return a clause as a sentence: capital letter and full stop."""
    text = text if text.endswith((".", "…", ".”")) else text + "."
    # Names keep their case: worker[2], default/bert.
    named = any(mark in text.partition(" ")[0] for mark in "[/")
    return text if named else text[0].upper() + text[1:]


def amount(resource: str, value: int) -> str:
    """Format an amount in its usual unit.

    Args:
        resource: name of the resource.
        value: memory in bytes, everything else in thousandths.

    Returns:
        Memory in GiB, everything else in whole units: `64 GiB`, `1.5`.
    """
    if resource.rpartition(".")[2] == "memory":
        return f"{value / _GIB:.6g} GiB"
    return f"{value / 1000:.6g}"


def brief(message: str) -> str:
    """Return a message as one line, shortened in the middle."""
    line = " ".join(message.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - _LAST].rstrip()} … {line[-_LAST:].lstrip()}"
