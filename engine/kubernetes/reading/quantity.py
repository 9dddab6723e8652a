"""Resource quantities: `500m`, `1.5Gi`, `2e3`, exactly.

Kubernetes: a quantity is a decimal number with a binary suffix (Ki … Ei), a decimal suffix (n u m k M G T P E) or a decimal
exponent. What is finer than 10⁻⁹ is rounded away from zero, what is larger than 2⁶³-1 is capped.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

from engine.kubernetes.errors import QuantityError

_FORM: Final = re.compile(r"([+-]?)(\d+)?(?:\.(\d*))?(?:[eE]([+-]?\d+)|([KMGTPE]i|[numkMGTPE]?))", re.ASCII)
_SCALE: Final[dict[str, Fraction]] = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "": Fraction(1),
    **{suffix: Fraction(10 ** (3 * power)) for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", 1)},
}
_NANO: Final = 10**9
LARGEST: Final = 2**63 - 1
"""Largest amount of a resource in Kubernetes."""
_LONGEST: Final = 256
"""Maximum length (characters); Kubernetes has no limit, but exact arithmetic on longer numbers is slow."""


def parse_quantity(value: object) -> Fraction:
    """Parse a quantity of a manifest.

    Args:
        value: a string, or a number (YAML decodes `cpu: 2` and `cpu: 0.5` as numbers).

    Returns:
        The exact value in units of the resource (cores, bytes, devices); it may be negative.

    Raises:
        QuantityError: the value has another type, or the text is not a quantity.
    """
    if isinstance(value, str):
        return _parse(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise QuantityError(value)
    if isinstance(value, int):
        return Fraction(max(-LARGEST, min(value, LARGEST)))
    return _parse(repr(value))


def milli(quantity: Fraction) -> int:
    """Return a quantity in thousandths, rounded up (Kubernetes `MilliValue`)."""
    return -(-quantity.numerator * 1000 // quantity.denominator)


def bytes_(quantity: Fraction) -> int:
    """Return a quantity in whole units (bytes, devices), rounded up (Kubernetes `Value`)."""
    return -(-quantity.numerator // quantity.denominator)


# Cached, because a cluster's pods repeat the same few hundred quantities.
@lru_cache(maxsize=8192)
def _parse(text: str) -> Fraction:
    form = _FORM.fullmatch(text) if len(text) <= _LONGEST else None
    if form is None:
        raise QuantityError(text)
    sign, whole, decimals, exponent, suffix = form.groups()
    digits = (whole or "") + (decimals or "")
    if not digits:
        raise QuantityError(text)
    number = Fraction(int(digits), 10 ** len(decimals or ""))
    if exponent is None:
        number *= _SCALE[suffix]
    else:
        # An exponent beyond ±1000 is capped or rounded anyway for numbers of at most 256 characters.
        number *= Fraction(10) ** max(-1000, min(int(exponent), 1000))
    nanos = min(-(-number.numerator * _NANO // number.denominator), LARGEST * _NANO)
    return Fraction(-nanos if sign == "-" else nanos, _NANO)
