"""Bounds on decoded values: nesting, number and size, computed level by level without recursion."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from pydantic_core import to_json

_NESTED: Final = (dict, list)


def _inner(level: Iterable[object]) -> list[Any]:
    return [below for one in level if isinstance(one, _NESTED) for below in (one.values() if isinstance(one, dict) else one)]


def deeper_than(levels: int, value: object) -> bool:
    """Return true if lists and mappings are nested deeper than `levels`."""
    level = [value]
    for _ in range(levels):
        level = [one for one in _inner(level) if isinstance(one, _NESTED)]
        if not level:
            return False
    return bool(level) and any(isinstance(one, _NESTED) for one in level)


def more_than(values: int, value: object) -> bool:
    """Return true if a value has more than `values` values, including itself and all nested ones."""
    level, found = [value], 0
    while level:
        found += len(level)
        if found > values:
            return True
        level = _inner(level)
    return False


def longest_key(value: object) -> int:
    """Return the length of the longest text key in a value (characters); 0 without one."""
    level, longest = [value], 0
    while level:
        keys = (key for one in level if isinstance(one, dict) for key in one if isinstance(key, str))
        longest = max(longest, max(map(len, keys), default=0))
        level = _inner(level)
    return longest


def json_bytes(value: object) -> int:
    """Return the length of a value as JSON (bytes)."""
    return len(to_json(value, inf_nan_mode="constants"))
