"""JSON of any shape inside an event, within bounds that every later reader and writer keeps to."""

from __future__ import annotations

from math import isfinite
from typing import Annotated, Any, Final

from pydantic import AfterValidator

__all__ = ["DEEPEST", "JsonObject"]

DEEPEST: Final = 100
"""Levels of nesting. Parsers stop at 200, and an event may later stand inside others (a parked input)."""


def _bounded(value: dict[str, Any]) -> dict[str, Any]:
    level: list[Any] = [value]
    for _ in range(DEEPEST):
        level = [child for item in level for child in (item.values() if isinstance(item, dict) else item)]
        for child in level:
            if isinstance(child, float) and not isfinite(child):
                # JSON cannot write it back: what is replayed would differ from what was decided on.
                raise ValueError("a number is not finite")
        level = [child for child in level if isinstance(child, dict | list)]
        if not level:
            return value
    raise ValueError(f"nested more than {DEEPEST} levels deep")


JsonObject = Annotated[dict[str, Any], AfterValidator(_bounded)]
"""A JSON object with finite numbers, at most `DEEPEST` levels deep."""
