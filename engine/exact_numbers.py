"""Exact numbers in output: seconds as decimals from integer microseconds, their distribution, and JSON with exact decimals."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from decimal import Context, Decimal
from typing import Any, Final

# Precise enough that no sum of microseconds is ever rounded.
_WIDE: Final = Context(prec=60)


def seconds(micros: int, per: int = 1_000_000) -> Decimal:
    """Return `micros` / `per` as an exact decimal without trailing zeros.

    Args:
        micros: a whole number of microseconds; or microseconds times thousandths of a device or core, with `per` 10⁹.
        per: units per second (or per result); a power of ten.
    """
    return _plain(_WIDE.divide(Decimal(micros), Decimal(per)))


def ratio(total: int, count: int, per: int = 1_000_000) -> Decimal:
    """Return total / count / `per`, rounded half to even to 1 / `per` (for microseconds: to the microsecond)."""
    whole, rest = divmod(total, count)
    if rest * 2 > count or (rest * 2 == count and whole % 2):
        whole += 1
    return seconds(whole, per)


def distribution(lengths: Iterable[int]) -> dict[str, Any]:
    """Return the distribution of durations.

    Args:
        lengths: durations (microseconds).

    Returns:
        `n`, and in seconds `mean` (to the microsecond), `median`, `p99` (linear interpolation, exact) and `max`; these four are
        `None`
            without durations.
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


def _plain(number: Decimal) -> Decimal:
    # normalize() alone formats 1000 as 1E+3.
    number = number.normalize(_WIDE)
    return number.quantize(Decimal(1), context=_WIDE) if number == number.to_integral_value() else number


def dumps(value: object) -> str:
    """Return a value as one line of JSON, decimals as numbers with all digits, keys in their order.

    Raises:
        TypeError: the value holds a type that JSON lacks.
    """
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{json.dumps(str(key), ensure_ascii=False)}:{dumps(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(dumps, value)) + "]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
