"""Moments and lengths of time as an operator reads them."""

from __future__ import annotations

from typing import Final

from engine.events.times import SECOND, format_time

__all__ = ["length", "moment", "plural"]

_UNITS: Final = ((86_400 * SECOND, "d"), (3_600 * SECOND, "h"), (60 * SECOND, "min"))


def moment(micros: int) -> str:
    """Write a moment in UTC: `2017-08-07 10:03:01Z`, with a fraction only where it has one."""
    date, _, rest = format_time(micros).partition("T")
    return f"{date} {rest.removesuffix('Z').removesuffix('.000000')}Z"


def length(micros: int) -> str:
    """Write a length of time in its two largest units: `17 min 3 s`, `2 d`, `0.25 s`."""
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


def plural(count: int, what: str) -> str:
    """Write a number of things: `1 pod`, `3 pods`."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
