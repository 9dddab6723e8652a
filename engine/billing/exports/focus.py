"""Records as FOCUS CSV for cloud cost tools: one row per record, and one per invoice for its rounding."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import BinaryIO, Final
from urllib.parse import quote

from msgspec.json import encode

from engine.billing.calendar import HOUR, Month, floor_hour
from engine.billing.exports.adjustments import Adjustment, with_adjustments
from engine.billing.exports.comma_separated import write_lines
from engine.billing.exports.errors import ExportError
from engine.billing.exports.focus_columns import FocusVersion, focus_columns
from engine.billing.exports.seller import Seller
from engine.billing.invoice import invoice_id
from engine.billing.records import Record
from engine.events.billing import UsageRecorded
from engine.events.decimals import EXACT, plain
from engine.events.prices import Meter
from engine.events.times import SECOND, Micros, format_time

Row = dict[str, str | None]

_UNITS: Final[dict[Meter, str]] = {
    "gpu_seconds": "GPU-Seconds",
    "cpu_seconds": "Core-Seconds",
    "memory_byte_seconds": "B-Seconds",
    "weighted_seconds": "Unit-Seconds",
}
"""Names that FOCUS defines for sizes and recommends for counts (attribute Unit Format)."""
_NOUNS: Final[dict[Meter, str]] = {
    "gpu_seconds": "GPU",
    "cpu_seconds": "CPU cores",
    "memory_byte_seconds": "bytes of memory",
    "weighted_seconds": "weighted units",
}
_SECOND: Final = Decimal(SECOND)


def write_focus(records: Iterable[Record], seller: Seller, stream: BinaryIO, version: FocusVersion) -> None:
    """Write records as the dataset Cost and Usage of a version of FOCUS.

    Raises:
        ExportError: there is no price book, and so no currency, which FOCUS requires.
    """
    if seller.currency is None:
        raise ExportError("FOCUS needs a currency: apply a PriceBook, or export jsonl, csv or parquet, which go without")
    names = [column.name for column in focus_columns(version)]
    lines = ([row.get(name) for name in names] for row in (_row(one, seller) for one in with_adjustments(records, seller)))
    write_lines(names, lines, stream)


def _row(one: Record | Adjustment, seller: Seller) -> Row:
    return _usage(one, seller) if isinstance(one, Record) else _adjustment(one, seller)


def _text(value: str | None) -> str | None:
    """Return a text, or null for a blank one, because FOCUS has no empty text."""
    return None if value is None or not value.strip() else value


def _second(moment: Micros) -> str:
    return f"{format_time(moment)[:19]}Z"


def _of_invoice(seller: Seller, tenant: str, month: Month, amount: Decimal) -> Row:
    """Return the fields common to rows of every category."""
    account, cost = _text(tenant) or seller.deployment, plain(amount)
    return {
        "BilledCost": cost,
        "BillingAccountId": account,
        "BillingAccountName": account,
        "BillingCurrency": seller.currency,
        "BillingPeriodEnd": _second(month.end),
        "BillingPeriodStart": _second(month.start),
        "ContractedCost": cost,
        "EffectiveCost": cost,
        "HostProviderName": seller.issuer,
        "InvoiceId": invoice_id(tenant, month.name, other=seller.other),
        "InvoiceIssuerName": seller.issuer,
        "ListCost": cost,
        "ProviderName": seller.issuer,
        "PublisherName": seller.issuer,
        "ServiceCategory": "Compute",
        "ServiceName": seller.deployment,
        "ServiceProviderName": seller.issuer,
        "ServiceSubcategory": "Containers",
    }


def _adjustment(one: Adjustment, seller: Seller) -> Row:
    return _of_invoice(seller, one.tenant, one.month, one.amount) | {
        "ChargeCategory": "Adjustment",
        "ChargeDescription": f"invoice of {one.month.name} rounded to what {one.currency} can pay, half to even",
        "ChargeFrequency": "One-Time",
        "ChargePeriodEnd": _second(one.month.end),
        "ChargePeriodStart": _second(one.month.start),
        "InvoiceDetailId": one.id,
        "x_RecordId": one.id,
        "x_RecordKind": "adjustment",
    }


def _usage(record: Record, seller: Seller) -> Row:
    run, charge = record.run, record.charge
    hour = floor_hour(record.start)
    listed, contracted = _prices(record)
    published = [(name, factor) for name, factor in run.factors.items() if not _is_negotiated(name, factor)]
    quantity, unit = plain(record.quantity), _UNITS[charge.meter]
    sku = _sku(run, charge.meter)
    name = f"{run.namespace}/{run.job_name}/{run.task}[{run.index}]"
    return _of_invoice(seller, run.tenant, seller.month(run.period), record.amount) | {
        "ChargeCategory": "Usage",
        "ChargeClass": None if run.month is None and run.reverses is None else "Correction",
        "ChargeDescription": _description(record, name),
        "ChargeFrequency": "Usage-Based",
        "ChargePeriodEnd": _second(hour + HOUR),
        "ChargePeriodStart": _second(hour),
        "ConsumedQuantity": "0" if _is_excess(run) else quantity,
        "ConsumedUnit": unit,
        "ContractedUnitPrice": plain(contracted),
        "InvoiceDetailId": record.job,
        "ListCost": plain(EXACT.multiply(listed, record.quantity)),
        "ListUnitPrice": plain(listed),
        "PricingCategory": "Dynamic" if run.preemptible else "Standard",
        "PricingQuantity": quantity,
        "PricingUnit": unit,
        "ResourceId": run.uid,
        "ResourceName": name,
        "ResourceType": "Pod",
        "SkuId": "/".join(map(_part, sku)),
        "SkuMeter": charge.meter,
        "SkuPriceDetails": _details(run, charge.meter, published),
        "SkuPriceId": "/".join(
            [*map(_part, (*sku, run.price_version)), *(f"{_part(name)}*{factor}" for name, factor in published)]
        ),
        "SubAccountId": _text(run.project),
        "SubAccountName": _text(run.project),
        "Tags": encode(dict(sorted(run.labels.items()))).decode() if run.labels else None,
        "x_Attempt": str(run.attempt),
        "x_ClusterName": _text(record.cluster),
        "x_EventIds": " ".join(record.events),
        "x_GpuModel": _text(run.gpu_model),
        "x_Inferred": "true" if record.inferred else "false",
        "x_JobId": record.job,
        "x_JobName": _text(run.job_name),
        "x_Multipliers": _told(run.factors.items()),
        "x_NamespaceName": _text(run.namespace),
        "x_NodeName": _text(run.node),
        "x_NodeType": _text(run.node_type),
        "x_PriceVersion": run.price_version,
        "x_Priced": "false" if charge.price is None else "true",
        "x_PriorityClass": _text(run.priority_class),
        "x_QueueName": _text(run.queue),
        "x_RecordId": record.id,
        "x_RecordKind": run.record,
        "x_ReplicaIndex": str(run.index),
        "x_ReversesId": record.reverses,
        "x_Revision": str(run.revision),
        "x_SegmentKind": run.kind,
        "x_SliceEnd": format_time(record.end),
        "x_SliceStart": format_time(record.start),
        "x_TaskName": _text(run.task),
        "x_UsageClass": run.worth,
        "x_UserName": _text(run.user),
    }


def _is_excess(run: UsageRecorded) -> bool:
    return run.record == "excess" or (run.reverses is not None and run.reverses.record == "excess")


def _description(record: Record, name: str) -> str:
    run, charge = record.run, record.charge
    excess = _is_excess(run)
    length = abs(run.length) if excess else record.end - record.start
    model = f" ({run.gpu_model})" if charge.meter == "gpu_seconds" and _text(run.gpu_model) is not None else ""
    what = "increment or minimum" if excess else run.kind
    seconds = plain(EXACT.divide(Decimal(length), _SECOND))
    reversed_ = "" if run.reverses is None else f"taken back from {run.reverses.period}: "
    return f"{reversed_}{charge.size} {_NOUNS[charge.meter]}{model} for {seconds} s, {what}, {name}"


def _is_negotiated(multiplier: str, factor: str) -> bool:
    """Return true if FOCUS excludes a multiplier from list prices: one of a tenant, unless it is zero (no list price left)."""
    return multiplier.startswith("tenant=") and factor != "0"


def _prices(record: Record) -> tuple[Decimal, Decimal]:
    """Return list price and contracted price of a unit."""
    contracted = listed = Decimal(record.charge.price or 0)
    for name, factor in record.run.factors.items():
        if _is_negotiated(name, factor):
            listed = EXACT.divide(listed, Decimal(factor))
    return listed, contracted


def _sku(run: UsageRecorded, meter: Meter) -> tuple[str | None, ...]:
    """Return the key of a price."""
    return (meter, run.gpu_model, run.node_type) if meter == "gpu_seconds" else (meter, run.node_type)


def _details(run: UsageRecorded, meter: Meter, published: list[tuple[str, str]]) -> str | None:
    """Return the details of a SKU and its price as JSON."""
    details = {
        "InstanceType": run.node_type,
        "x_GpuModel": run.gpu_model if meter == "gpu_seconds" else None,
        "x_Multipliers": _told(published),
        "x_PriceVersion": run.price_version,
    }
    known = {key: value for key, value in details.items() if value is not None}
    return encode(known).decode() if known else None


def _told(multipliers: Iterable[tuple[str, str]]) -> str | None:
    return ", ".join(f"{name} x {factor}" for name, factor in multipliers) or None


def _part(name: str | None) -> str:
    """Return a name as part of an id; `*` for an unknown name, which no escaped name equals."""
    return "*" if name is None else quote(name, safe="=")
