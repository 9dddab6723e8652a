"""Times before now, as the command line takes them: `-1h`, `2h`, `1d12h`."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["before_now"]

_SECOND: Final = 1_000_000
"""Not that of `engine.events`, which every `--help` would import."""
_UNITS: Final = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_PART: Final = re.compile(r"([0-9]{1,9})([wdhms])")
_LENGTH: Final = re.compile(rf"-?(?:{_PART.pattern})+")


def before_now(text: str) -> int | None:
    """Return how long before now a time is (microseconds); `None`: it is not given so."""
    if _LENGTH.fullmatch(text) is None:
        return None
    return sum(int(number) * _UNITS[unit] for number, unit in _PART.findall(text)) * _SECOND
