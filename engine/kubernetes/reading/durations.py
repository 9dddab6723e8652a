"""Durations in Go's format: `300s`, `1h30m`, `1.5s`.

Kubernetes: a `metav1.Duration` is a string for Go's `time.ParseDuration`.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from engine.kubernetes.errors import DurationError

_NANOSECONDS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,  # U+00B5, the micro sign
    "μs": 10**3,  # U+03BC, the Greek letter: Go reads both
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_PART: Final = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_LARGEST: Final = 2**63 - 1
_LONGEST: Final = 128
"""Maximum length (characters); Go has no limit, but exact arithmetic on longer texts is slow."""


def parse_duration(text: str) -> int:
    """Parse a duration.

    Args:
        text: decimal numbers with units (ns, us, ms, s, m, h), optionally signed; `0` needs no unit.

    Returns:
        Microseconds; fractions are rounded up, so that a delay never becomes zero.

    Raises:
        DurationError: the text is not a duration, or longer than 2⁶³-1 nanoseconds.
    """
    sign = -1 if text[:1] == "-" else 1
    rest = text[1:] if text[:1] in {"-", "+"} else text
    if rest == "0":
        return 0
    parts = list(_PART.finditer(rest)) if len(rest) <= _LONGEST else []
    if not parts or "".join(part[0] for part in parts) != rest:
        raise DurationError(text)
    nanoseconds = sum(Fraction(part[1].rstrip(".")) * _NANOSECONDS[part[2]] for part in parts)
    if nanoseconds > _LARGEST:
        raise DurationError(text)
    return sign * -(-nanoseconds // 1000)
