"""Invoices: the valid records of one tenant and month, summed exactly and rounded once; quotes are summed in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import partial
from hashlib import blake2b
from typing import Any, Final, TypeAlias, TypeVar

from engine.billing.records import UNITS
from engine.billing.tariff import cost, quantity
from engine.events import Event
from engine.events.billing import Charge, UsageRecorded, Worth
from engine.events.currencies import CURRENCIES
from engine.events.decimals import EXACT, plain
from engine.events.prices import METERS, Meter, PriceVersion, rate_name

_ZERO: Final = Decimal(0)
_ROUNDED: Final = Context(prec=400, rounding=ROUND_HALF_EVEN)

Unpriced: TypeAlias = dict[tuple[Meter, str, str], Decimal]
"""Quantities that lack a price, by meter, node type and GPU model (empty: unknown); below zero where reversals exceed them."""


def invoice_id(tenant: str, period: str, *, other: bool = False) -> str:
    """Return the id of the invoice of a tenant and month; `other`: of one that includes jobs of kind `Other`."""
    covers = "\x1fall" if other else ""
    return blake2b(f"invoice\x1f{tenant}\x1f{period}{covers}".encode(), digest_size=16).hexdigest()


def adjustment_id(invoice: str) -> str:
    """Return the id of an invoice's rounding adjustment."""
    return blake2b(f"adjustment\x1f{invoice}".encode(), digest_size=16).hexdigest()


def rounded(amount: Decimal, currency: str | None) -> Decimal:
    """Return an amount rounded for payment: half to even, to the currency's decimals; zero has no sign."""
    return _ROUNDED.plus(_ROUNDED.quantize(amount, Decimal(1).scaleb(-CURRENCIES.get(currency or "", 2))))


def used(data: UsageRecorded) -> Iterator[tuple[Charge, Decimal, Decimal]]:
    """Yield the charges of a run with quantity and amount, the sums of its records."""
    for charge in data.charges:
        taken = quantity(Decimal(charge.size), data.length)
        yield charge, taken, cost(charge.price, taken)


def unpriced(data: UsageRecorded, rules: PriceVersion | None) -> Iterator[tuple[Meter, Decimal]]:
    """Yield the unpriced meters of a run with their quantities.

    Args:
        data: the run.
        rules: price version of the run; `None`: none, or unknown.
    """
    for charge in data.charges:
        if charge.price is None and (rules is None or rules.lacks_price(charge.meter, data.node_type, data.gpu_model)):
            yield charge.meter, quantity(Decimal(charge.size), data.length)


def note_unpriced(found: Unpriced, data: UsageRecorded, meter: Meter, taken: Decimal) -> None:
    """Add the unpriced quantity of a run to a sum."""
    place = (meter, data.node_type or "", data.gpu_model or "")
    found[place] = EXACT.add(found.get(place, _ZERO), taken)


def without_price(found: Unpriced) -> Iterator[str]:
    """Yield texts for unpriced quantities, such as `3600 GPU-Seconds on V100`; none where reversals exceed them."""
    named: dict[tuple[Meter, str], Decimal] = {}
    for (meter, node_type, gpu_model), taken in sorted(found.items()):
        place = (meter, rate_name(meter, node_type, gpu_model))
        named[place] = EXACT.add(named.get(place, _ZERO), taken)
    for (meter, name), taken in named.items():
        if taken > 0:
            yield f"{plain(taken)} {UNITS[meter]} on {name}"


@dataclass(slots=True)
class Sum:
    """Quantities by meter, and the amount."""

    quantities: dict[Meter, Decimal] = field(default_factory=dict)
    amount: Decimal = _ZERO

    def take(self, meter: Meter, taken: Decimal, amount: Decimal) -> None:
        """Add a charge."""
        self.quantities[meter] = EXACT.add(self.quantities.get(meter, _ZERO), taken)
        self.amount = EXACT.add(self.amount, amount)

    def add(self, other: Sum) -> None:
        """Add another sum."""
        self.amount = EXACT.add(self.amount, other.amount)
        _add(self.quantities, other.quantities)

    def document(self) -> dict[str, Any]:
        """Return the JSON: quantities by meter, in the meters' order, and `amount`, all as text."""
        return _by_meter(self.quantities) | {"amount": plain(self.amount)}


def _add(mine: dict[Meter, Decimal], others: Mapping[Meter, Decimal]) -> None:
    for meter, taken in others.items():
        mine[meter] = EXACT.add(mine.get(meter, _ZERO), taken)


def _by_meter(quantities: Mapping[Meter, Decimal]) -> dict[str, Any]:
    return {meter: plain(quantities[meter]) for meter in METERS if meter in quantities}


@dataclass(slots=True)
class LineSum(Sum):
    """Sum of one or more invoice lines."""

    useful: Sum = field(default_factory=Sum)
    wasted: Sum = field(default_factory=Sum)
    """Sum of failed, preempted and restarted attempts, and of reserved resources."""
    price_versions: set[str] = field(default_factory=set)
    unpriced: dict[Meter, Decimal] = field(default_factory=dict)
    """Unpriced part of the quantities."""

    def merge(self, other: LineSum) -> None:
        """Add another line."""
        self.add(other)
        self.useful.add(other.useful)
        self.wasted.add(other.wasted)
        self.price_versions |= other.price_versions
        _add(self.unpriced, other.unpriced)

    def document(self) -> dict[str, Any]:
        """Return the JSON."""
        return Sum.document(self) | {
            "useful": self.useful.document(),
            "wasted": self.wasted.document(),
            "unpriced": _by_meter(self.unpriced),
            "price_versions": sorted(self.price_versions),
        }


@dataclass(frozen=True, slots=True, order=True)
class InvoiceLine:
    """Key of a line of an invoice."""

    queue: str
    project: str
    user: str
    namespace: str
    name: str
    job: str
    month: str
    """Closed month that the line corrects, by reversals and replacements; empty: usage of the invoice's own month."""


@dataclass(slots=True)
class Bill:
    """Usage and cost of a tenant in a month: an invoice, or a quote, which has no id."""

    tenant: str
    period: str
    currency: str | None = None
    lines: dict[InvoiceLine, LineSum] = field(default_factory=dict)
    worths: dict[Worth, Sum] = field(default_factory=dict)
    """Sums by worth; all but `useful` is waste."""
    corrections: dict[str, Sum] = field(default_factory=dict)
    """Corrections of closed months, by month; the lines include them."""
    price_versions: set[str] = field(default_factory=set)
    unpriced: Unpriced = field(default_factory=dict)
    unpriced_jobs: set[str] = field(default_factory=set)
    """Ids of the jobs with usage that no price version covers."""
    total: Sum = field(default_factory=Sum)

    @property
    def jobs(self) -> int:
        """Number of jobs with a line."""
        return len({line.job for line in self.lines})

    @property
    def rounded(self) -> Decimal:
        """Total to pay, rounded once."""
        return rounded(self.total.amount, self.currency)

    @property
    def paid(self) -> str:
        """Total to pay as text, with the currency's decimals; without a currency, with the necessary decimals."""
        return plain(self.rounded) if self.currency is None else f"{self.rounded:f}"

    @property
    def adjustment(self) -> Decimal:
        """Rounded total minus exact total."""
        return EXACT.subtract(self.rounded, self.total.amount)

    def take(self, event: Event[UsageRecorded], rules: PriceVersion | None) -> None:
        """Add a valid run; `rules`: its price version."""
        data = event.data
        corrected = (data.month or data.period) if data.month is not None or data.reverses is not None else ""
        line = InvoiceLine(data.queue, data.project, data.user, data.namespace, data.job_name, event.subject, corrected)
        line_sum = self.lines.setdefault(line, LineSum())
        part = line_sum.useful if data.worth == "useful" else line_sum.wasted
        sums = [self.total, line_sum, part, self.worths.setdefault(data.worth, Sum())]
        if corrected:
            sums.append(self.corrections.setdefault(corrected, Sum()))
        if data.price_version is not None:
            self.price_versions.add(data.price_version)
            line_sum.price_versions.add(data.price_version)
        self.currency = self.currency or data.currency
        for charge, taken, amount in used(data):
            for one in sums:
                one.take(charge.meter, taken, amount)
        for meter, taken in unpriced(data, rules):
            note_unpriced(self.unpriced, data, meter, taken)
            _add(line_sum.unpriced, {meter: taken})
            if data.price_version is None:
                self.unpriced_jobs.add(event.subject)

    def document(self) -> dict[str, Any]:
        """Return the JSON."""
        groups = {
            f"by_{name}": {key: sums.document() for key, sums in sorted(self._grouped(name).items())}
            for name in ("queue", "project", "user")
        }
        return {
            "tenant": self.tenant,
            "period": self.period,
            "currency": self.currency,
            "total": self.paid,
            "amount": plain(self.total.amount),
            "adjustment": plain(self.adjustment),
            "price_versions": sorted(self.price_versions),
            "sum": self.total.document(),
            "useful": self.worths.get("useful", Sum()).document(),
            "wasted": {worth: sums.document() for worth, sums in sorted(self.worths.items()) if worth != "useful"},
            **groups,
            "lines": [
                {
                    "job": line.job,
                    "namespace": line.namespace,
                    "name": line.name,
                    "queue": line.queue,
                    "project": line.project or None,
                    "user": line.user or None,
                    "month": line.month or None,
                    **self.lines[line].document(),
                }
                for line in sorted(self.lines)
            ],
            "corrections": {month: sums.document() for month, sums in sorted(self.corrections.items())},
            "unpriced": [
                {"meter": meter, "node_type": node or None, "gpu_model": model or None, "quantity": plain(taken)}
                for (meter, node, model), taken in sorted(self.unpriced.items())
                if taken
            ],
        }

    def _grouped(self, name: str) -> dict[str, LineSum]:
        found: dict[str, LineSum] = {}
        for line, sums in self.lines.items():
            found.setdefault(getattr(line, name), LineSum()).merge(sums)
        return found


@dataclass(slots=True)
class Invoice(Bill):
    """Invoice: the recorded usage of a tenant in a month."""

    other: bool = False
    """True if it includes jobs of kind `Other` (services)."""

    @property
    def id(self) -> str:
        """Id by tenant, month and included kinds of jobs."""
        return invoice_id(self.tenant, self.period, other=self.other)

    @property
    def adjustment_id(self) -> str:
        """Id of its rounding adjustment."""
        return adjustment_id(self.id)

    def document(self) -> dict[str, Any]:
        """Return the JSON."""
        return {"invoice": self.id, **Bill.document(self)}


B = TypeVar("B", bound=Bill)


def invoices(runs: Iterable[Event[UsageRecorded]], versions: Mapping[str, PriceVersion], *, other: bool = False) -> list[Invoice]:
    """Return the invoices of valid runs, by month and tenant.

    Args:
        runs: valid runs.
        versions: price versions by name, which define the meters that need a price.
        other: the runs include jobs of kind `Other`.
    """
    return _added(runs, versions, partial(Invoice, other=other))


def quotes(runs: Iterable[Event[UsageRecorded]], versions: Mapping[str, PriceVersion]) -> list[Bill]:
    """Return the quotes of runs that are not recorded yet, by month and tenant; `versions` as in `invoices`."""
    return _added(runs, versions, Bill)


def _added(runs: Iterable[Event[UsageRecorded]], versions: Mapping[str, PriceVersion], new: Callable[[str, str], B]) -> list[B]:
    found: dict[tuple[str, str], B] = {}
    for event in runs:
        key = (event.data.period, event.data.tenant)
        if (bill := found.get(key)) is None:
            bill = found[key] = new(key[1], key[0])
        bill.take(event, versions.get(event.data.price_version or ""))
    return [found[key] for key in sorted(found)]
