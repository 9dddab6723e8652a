"""Times before now on the command line: `-1h`, `2h`, `1d12h`."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["before_now"]

_SECOND: Final = 1_000_000
"""Not imported from `engine.events`, which would slow down every `--help`."""
_UNITS: Final = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_PART: Final = re.compile(r"([0-9]{1,9})([wdhms])")
_LENGTH: Final = re.compile(rf"-?(?:{_PART.pattern})+")


def before_now(text: str) -> int | None:
    """Return how long before now a time is (microseconds); `None`: it has another form."""
    if _LENGTH.fullmatch(text) is None:
        return None
    return sum(int(number) * _UNITS[unit] for number, unit in _PART.findall(text)) * _SECOND
