"""Rounding adjustments: a record of its own per invoice, so that the records of an invoice add up to its total."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from engine.billing.calendar import Month
from engine.billing.exports.seller import Seller
from engine.billing.invoice import adjustment_id, invoice_id, rounded
from engine.billing.records import Record
from engine.events.decimals import EXACT, plain
from engine.events.times import format_time

_ZERO: Final = Decimal(0)


@dataclass(frozen=True, slots=True)
class Adjustment:
    """Rounded total of an invoice minus the exact total."""

    tenant: str
    month: Month
    currency: str
    amount: Decimal
    invoice: str
    """Id of the invoice."""

    @property
    def id(self) -> str:
        """Id of the record, derived from the invoice's id."""
        return adjustment_id(self.invoice)


def with_adjustments(records: Iterable[Record], seller: Seller) -> Iterator[Record | Adjustment]:
    """Yield the records, then a rounding adjustment for each invoice that needs one, by month and tenant."""
    sums: dict[tuple[str, str], Decimal] = {}
    for record in records:
        key = (record.run.period, record.run.tenant)
        sums[key] = EXACT.add(sums.get(key, _ZERO), record.amount)
        yield record
    if seller.currency is None:
        return
    for (period, tenant), amount in sorted(sums.items()):
        residue = EXACT.subtract(rounded(amount, seller.currency), amount)
        if residue:
            yield Adjustment(tenant, seller.month(period), seller.currency, residue, invoice_id(tenant, period, other=seller.other))


def adjustment_json(adjustment: Adjustment) -> dict[str, Any]:
    """Return an adjustment as JSON: the fields of a record, null where they do not apply to an invoice."""
    return {
        "id": adjustment.id,
        "record": "adjustment",
        "meter": None,
        "quantity": None,
        "unit": None,
        "amount": plain(adjustment.amount),
        "currency": adjustment.currency,
        "tenant": adjustment.tenant,
        "project": None,
        "queue": None,
        "user": None,
        "job": None,
        "attempt": None,
        "task": None,
        "replica": None,
        "node_type": None,
        "gpu_model": None,
        "start": format_time(adjustment.month.start),
        "end": format_time(adjustment.month.end),
        "kind": "rounding",
        "class": None,
        "price_version": None,
        "inferred": False,
        "revision": 0,
        "reverses": None,
        "events": [],
    }
