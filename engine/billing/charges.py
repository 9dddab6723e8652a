"""Charges of a run: one per meter that its pod uses, with the price factors of its owner and of a free preemption."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Final, TypeVar

from engine.billing.book import Book
from engine.billing.state import Run, Size, Terms
from engine.billing.tariff import tariff_of
from engine.events.billing import Charge
from engine.events.decimals import EXACT, plain
from engine.events.prices import METERS, Meter, Multiplier, PriceVersion

T = TypeVar("T")

_KNOWN: Final = 10_000
FREE: Final = "preempted_free_seconds"
"""Name of the factor 0 of a free preemption."""


def charged(book: Book, terms: Terms, run: Run, length: int) -> tuple[dict[str, str], list[Charge]]:
    """Return the price factors of a run by name, in the order of the price book, and its charges.

    Factors and tariffs are cached, because many attempts have the same owner and the same shape.

    Args:
        book: price book with the run's price version.
        terms: terms of the run's job.
        run: run to charge.
        length: charged time (microseconds).

    Raises:
        LookupError: the book lacks the version.
    """
    version = run.price_version
    factors, items = _factors_of(book, terms, run)
    key = version, run.size, run.node_type, run.gpu_model, items
    found = book.tariffs.get(key)
    if found is None:
        rules = None if version is None else book.names[version]
        found = tariff_of(rules, _sizes(rules, run), (run.node_type, run.gpu_model), factors.values())
        _keep(book.tariffs, key, found)
    return factors, found.charges(length)


def _factors_of(book: Book, terms: Terms, run: Run) -> tuple[dict[str, str], tuple[tuple[str, str], ...]]:
    """Return the price factors of a run, as a dictionary and as a key."""
    version = run.price_version
    key = version, run.free, terms.queue, terms.tenant, terms.priority_class, terms.preemptible
    found = book.factors.get(key)
    if found is None:
        fitting = () if version is None else (one for one in book.names[version].multipliers if _fits(one, terms))
        factors = {one.name: plain(one.factor) for one in fitting} | ({FREE: "0"} if run.free else {})
        found = factors, tuple(factors.items())
        _keep(book.factors, key, found)
    return found


def _keep(known: dict[object, T], key: object, found: T) -> None:
    if len(known) >= _KNOWN:
        known.clear()
    known[key] = found


def _fits(multiplier: Multiplier, terms: Terms) -> bool:
    return (
        multiplier.queue in (None, terms.queue)
        and multiplier.tenant in (None, terms.tenant)
        and multiplier.priority_class in (None, terms.priority_class)
        and multiplier.preemptible in (None, terms.preemptible)
    )


def _sizes(rules: PriceVersion | None, run: Run) -> Iterator[tuple[Meter, Decimal]]:
    """Yield the units per second of each used meter."""
    weighted = Decimal(0)
    for meter in METERS:
        if meter == "weighted_seconds":
            size = weighted
        else:
            size = _size(run.size, meter)
            weight = None if rules is None else rules.rate("weights", meter, run.node_type, run.gpu_model)
            if weight is not None:
                weighted = EXACT.add(weighted, EXACT.multiply(weight, size))
        if size:
            yield meter, size


def _size(size: Size, meter: Meter) -> Decimal:
    if meter == "gpu_seconds":
        return Decimal(size.gpu) if size.gpu_nano is None else Decimal(size.gpu_nano).scaleb(-9)
    if meter == "cpu_seconds":
        return Decimal(size.cpu_milli).scaleb(-3)
    return Decimal(size.memory_bytes)
