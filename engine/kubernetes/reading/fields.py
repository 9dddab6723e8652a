"""Tolerant access to decoded JSON: a missing or wrongly typed field counts as absent; never raises.

An API server never sends a wrongly typed field, but files, proxies and other programs do; the rest of the object is still usable.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from engine.events.times import SECOND, parse_time

_NOTHING: Final[dict[str, Any]] = {}
_LARGEST: Final = 2**31 - 1
"""Kubernetes counts in 32 bits."""


def mapping(value: object) -> dict[str, Any]:
    """Return the value if it is a mapping, otherwise an empty one (shared: must not be changed)."""
    return value if isinstance(value, dict) else _NOTHING


def mappings(value: object) -> list[dict[str, Any]]:
    """Return the mappings in a sequence, in order; none if it is not a sequence."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def strings(value: object) -> dict[str, str]:
    """Return the entries of a mapping whose keys and values are strings, such as labels."""
    if not isinstance(value, dict):
        return {}
    return {key: entry for key, entry in value.items() if isinstance(key, str) and isinstance(entry, str)}


def text(value: object) -> str | None:
    """Return the value if it is a non-empty string, otherwise `None`."""
    return value if isinstance(value, str) and value else None


def whole(value: object) -> int | None:
    """Return a whole number from 0 to 2³¹-1, also from a string of decimal digits, as in annotations; otherwise `None`."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= 10:
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST:
        return int(value)
    return None


def code(value: object) -> int | None:
    """Return the value if it is an exit code, a signed 32-bit integer, as on Windows; otherwise `None`."""
    return int(value) if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _LARGEST + 1 else None


def moment(value: object) -> int | None:
    """Return a time in microseconds; `None` if it is absent or invalid.

    Times up to 1970-01-01 count as absent: Go writes the year 1 for no time, container runtimes write 1970 for a container that
    never started.
    """
    return _moment(value) if isinstance(value, str) else None


def deletion_asked(metadata: dict[str, Any]) -> int | None:
    """Return the time of the deletion request (microseconds); `None` if the object is not being deleted.

    It is the timestamp minus the grace period, which the API server keeps consistent when the grace period changes.
    """
    deleted = moment(metadata.get("deletionTimestamp"))
    return None if deleted is None else deleted - (whole(metadata.get("deletionGracePeriodSeconds")) or 0) * SECOND


def last_write(metadata: dict[str, Any]) -> int | None:
    """Return the time of the last write (microseconds), from `managedFields`; `None` if they are absent."""
    times = (moment(manager.get("time")) for manager in mappings(metadata.get("managedFields")))
    return max((time for time in times if time is not None), default=None)


# Cached, because a second of a pod's life is in several of its fields, and in each later version.
@lru_cache(maxsize=16384)
def _moment(value: str) -> int | None:
    try:
        found = parse_time(value)
    except (ValueError, OverflowError):
        return None
    return found if found > 0 else None
