"""Total reading of decoded JSON: a missing or wrongly typed field counts as absent; nothing raises.

An API server never sends a wrongly typed field, but files, proxies and other programs do; an object is worth what can be read
of it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from engine.events.times import SECOND, parse_time

__all__ = ["code", "deletion_asked", "last_write", "mapping", "mappings", "moment", "strings", "text", "whole"]

_NOTHING: Final[dict[str, Any]] = {}
_LARGEST: Final = 2**31 - 1
"""Kubernetes counts in 32 bits."""


def mapping(value: object) -> dict[str, Any]:
    """Return the value if it is a mapping, else an empty one (shared: not to be changed)."""
    return value if isinstance(value, dict) else _NOTHING


def mappings(value: object) -> list[dict[str, Any]]:
    """Return the mappings of a sequence, in order; none if it is no sequence."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def strings(value: object) -> dict[str, str]:
    """Return the entries of a mapping whose keys and values are strings, as labels are."""
    if not isinstance(value, dict):
        return {}
    return {key: entry for key, entry in value.items() if isinstance(key, str) and isinstance(entry, str)}


def text(value: object) -> str | None:
    """Return the value if it is a string that is not empty."""
    return value if isinstance(value, str) and value else None


def whole(value: object) -> int | None:
    """Return the value if it is a whole number ≥ 0 of 32 bits; a string of decimal digits is one, as annotations hold them."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= 10:
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST:
        return value
    return None


def code(value: object) -> int | None:
    """Return the value if it is an exit code: a whole number of 32 bits with sign, as Windows uses them."""
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _LARGEST + 1 else None


def moment(value: object) -> int | None:
    """Return a time in microseconds.

    Times up to 1970-01-01 are absent ones: Go writes the year 1 for no time, container runtimes write 1970 for a container that
    never started.
    """
    return _moment(value) if isinstance(value, str) else None


def deletion_asked(metadata: dict[str, Any]) -> int | None:
    """Return when the deletion of an object was requested (microseconds); `None`: it is not being deleted.

    That is the timestamp less the grace period, which the API server keeps consistent when the grace changes.
    """
    deleted = moment(metadata.get("deletionTimestamp"))
    return None if deleted is None else deleted - (whole(metadata.get("deletionGracePeriodSeconds")) or 0) * SECOND


def last_write(metadata: dict[str, Any]) -> int | None:
    """Return when an object was last written (microseconds), by its `managedFields`; `None`: it does not show them."""
    times = (moment(manager.get("time")) for manager in mappings(metadata.get("managedFields")))
    return max((time for time in times if time is not None), default=None)


# One second of a pod's life stands in several of its fields, and again in each of its next versions.
@lru_cache(maxsize=16384)
def _moment(value: str) -> int | None:
    try:
        found = parse_time(value)
    except (ValueError, OverflowError):
        return None
    return found if found > 0 else None
