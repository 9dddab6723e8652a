"""Decimal arithmetic of money and quantities: exact, with one text per number (design rule 10)."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Context, Decimal, Inexact
from typing import Final

EXACT: Final = Context(prec=400, traps=[Inexact])
"""Precision for any price, all its factors and any quantity; a lost digit is an error, never a rounded amount."""


def plain(number: Decimal) -> str:
    """Return a decimal number without exponent and trailing zeros: one text per number."""
    text = str(number)  # the same digits in half of the time, but for an exponent
    if "E" in text:
        text = format(number, "f")
    if text[-1] == "0" and "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def total(amounts: Iterable[str | Decimal]) -> Decimal:
    """Return the exact sum of decimal numbers."""
    found = Decimal(0)
    for amount in amounts:
        found = EXACT.add(found, Decimal(amount))
    return found
