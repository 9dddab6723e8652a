"""Bounded types of values from outside."""

from __future__ import annotations

from math import isfinite
from typing import Annotated, Any, Final

from msgspec import Meta
from pydantic import AfterValidator, Field

from engine.events.bounds import INT32, LABELS, NAME_CHARACTERS, NESTING, TEXT_CHARACTERS

DEEPEST: Final = NESTING
"""Levels of nesting. Parsers stop at 200, and an event may later be nested in another one (a parked input)."""


def _bounded(value: dict[str, Any]) -> dict[str, Any]:
    level: list[Any] = [value]
    for _ in range(DEEPEST):
        level = [child for item in level for child in (item.values() if isinstance(item, dict) else item)]
        for child in level:
            if isinstance(child, float) and not isfinite(child):
                # JSON cannot write it: a replay would differ from the decision.
                raise ValueError("a number is not finite")
        level = [child for child in level if isinstance(child, dict | list)]
        if not level:
            return value
    raise ValueError(f"nested more than {DEEPEST} levels deep")


JsonObject = Annotated[dict[str, Any], AfterValidator(_bounded)]
"""A JSON object with finite numbers, at most `DEEPEST` levels deep."""

Name = Annotated[str, Field(max_length=NAME_CHARACTERS), Meta(max_length=NAME_CHARACTERS)]
"""A name, an id, a key, a reason in one word."""

Text = Annotated[str, Field(max_length=TEXT_CHARACTERS), Meta(max_length=TEXT_CHARACTERS)]
"""A message for people."""

Labels = Annotated[dict[Name, Name], Field(max_length=LABELS), Meta(max_length=LABELS)]
"""Labels of one object."""

Count = Annotated[int, Field(ge=0, le=INT32), Meta(ge=0, le=INT32)]
"""A count of 32 bits, as in Kubernetes."""


class OddlyWritten(int):
    """A whole number that YAML has read from other than plain digits: `010` is 8, `0x10` is 16, `1:30` is 90.

    Of objects that are given now only; msgspec does not write it, pydantic writes it as any other.
    """
