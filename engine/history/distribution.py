"""How lengths of time are distributed, in exact arithmetic."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from engine.history.exact import ratio, seconds

__all__ = ["distribution"]


def distribution(lengths: Iterable[int]) -> dict[str, Any]:
    """Describe lengths of time.

    Args:
        lengths: microseconds.

    Returns:
        `n`, and in seconds `mean` (to the microsecond), `median`, `p99` (linear interpolation, exact) and `max`; `None` for
        the four if there are no lengths.
    """
    ordered = sorted(lengths)
    if not ordered:
        return {"n": 0, "mean": None, "median": None, "p99": None, "max": None}
    return {
        "n": len(ordered),
        "mean": ratio(sum(ordered), len(ordered)),
        "median": _percentile(ordered, 50),
        "p99": _percentile(ordered, 99),
        "max": seconds(ordered[-1]),
    }


def _percentile(ordered: list[int], percent: int) -> Decimal:
    """Interpolate linearly at position percent / 100 * (n - 1)."""
    place, rest = divmod(percent * (len(ordered) - 1), 100)
    low = ordered[place]
    high = ordered[place + 1] if rest else low
    return seconds(low * 100 + (high - low) * rest, 100_000_000)
