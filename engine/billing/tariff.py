"""Rates of one shape by meter, and charges for a duration. All arithmetic is exact."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from decimal import Decimal
from typing import Final, NamedTuple, TypeAlias

from engine.events.billing import Charge
from engine.events.decimals import EXACT, plain
from engine.events.prices import Meter, PriceVersion

_Kind: TypeAlias = tuple[str | None, str | None]
"""Type and GPU model of a node."""

_ZERO: Final = Decimal(0)


def quantity(size: Decimal, length: int) -> Decimal:
    """Return the units of a meter that a size uses in a duration (microseconds)."""
    return EXACT.multiply(size, Decimal(length)).scaleb(-6, EXACT)


def cost(price: str | None, used: Decimal) -> Decimal:
    """Return the cost of a quantity; 0 without a price."""
    return _ZERO if price is None else EXACT.multiply(Decimal(price), used)


class _Rate(NamedTuple):
    """Rate of one meter."""

    meter: Meter
    size: Decimal
    """Units per second."""
    size_text: str
    price: Decimal | None
    """Price of a unit including all factors; `None`: none."""
    price_text: str | None


class Tariff:
    """Rates of a shape. The last charges are cached, because attempts of one shape are charged for the same hour."""

    __slots__ = ("_charges", "_length", "_rates")

    def __init__(self, rates: list[_Rate]) -> None:
        """Start without cached charges."""
        self._rates = rates
        self._length: int | None = None
        self._charges: list[Charge] = []

    def charges(self, length: int) -> list[Charge]:
        """Return the charges for a duration (microseconds), in the order of the meters; the list is shared by all callers."""
        if length != self._length:
            self._length, self._charges = length, [_charge(rate, quantity(rate.size, length)) for rate in self._rates]
        return self._charges


def tariff_of(rules: PriceVersion | None, sizes: Iterable[tuple[Meter, Decimal]], kind: _Kind, factors: Collection[str]) -> Tariff:
    """Return the tariff of a shape.

    Args:
        rules: price version; `None`: nothing has a price.
        sizes: units per second of each meter.
        kind: type and GPU model of the node.
        factors: factors of the prices.
    """
    return Tariff([_rate(rules, meter, size, kind, factors) for meter, size in sizes])


def _charge(rate: _Rate, used: Decimal) -> Charge:
    amount = "0" if rate.price is None else plain(EXACT.multiply(rate.price, used))
    return Charge(rate.meter, rate.size_text, rate.price_text, plain(used), amount)


def _rate(rules: PriceVersion | None, meter: Meter, size: Decimal, kind: _Kind, factors: Collection[str]) -> _Rate:
    price = None if rules is None else rules.rate("prices", meter, *kind)
    if price is None:
        return _Rate(meter, size, plain(size), None, None)
    for factor in factors:
        price = EXACT.multiply(price, Decimal(factor))
    return _Rate(meter, size, plain(size), price, plain(price))
