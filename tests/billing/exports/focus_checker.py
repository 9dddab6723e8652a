"""Checks a CSV against the FinOps Open Cost and Usage Specification, 1.2 or 1.4, dataset Cost and Usage.

The rules are those that a file alone can break: presence and order of columns, nullability, types, formats, allowed values, how
columns of one row depend on each other, and how all rows of a SKU, service or invoice do. A finding names the column or attribute
whose rule is broken. Written from the text of the specification; nothing of the exporter is used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime
from decimal import Context, Decimal
from typing import Any, NamedTuple

EXACT = Context(prec=600)

MANDATORY = {
    *("BilledCost", "BillingAccountId", "BillingAccountName", "BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart"),
    *("ChargeCategory", "ChargeClass", "ChargeDescription", "ChargePeriodEnd", "ChargePeriodStart", "ContractedCost"),
    *("EffectiveCost", "InvoiceIssuerName", "ListCost", "PricingQuantity", "PricingUnit", "ServiceCategory", "ServiceName"),
}
CONDITIONAL = {
    *("ConsumedQuantity", "ConsumedUnit"),  # usage is measured
    *("ContractedUnitPrice", "ListUnitPrice", "SkuId", "SkuMeter", "SkuPriceDetails", "SkuPriceId"),  # units have prices
    "PricingCategory",  # more than one
    *("ResourceId", "ResourceName", "ResourceType"),  # resources are provisioned, of a type
    *("SubAccountId", "SubAccountName", "Tags", "InvoiceId", "ChargeFrequency", "ServiceSubcategory"),
}
"""What Lahar's operating model makes mandatory, and what is recommended and it has."""
OTHERS = {
    *("AvailabilityZone", "BillingAccountType", "CapacityReservationId", "CapacityReservationStatus", "CommitmentDiscountCategory"),
    *("CommitmentDiscountId", "CommitmentDiscountName", "CommitmentDiscountQuantity", "CommitmentDiscountStatus"),
    *("CommitmentDiscountType", "CommitmentDiscountUnit", "PricingCurrency", "PricingCurrencyContractedUnitPrice"),
    *("PricingCurrencyEffectiveCost", "PricingCurrencyListUnitPrice", "RegionId", "RegionName", "SubAccountType"),
}
VERSIONS = {
    "1.2": ({"ProviderName", "PublisherName"}, set[str]()),
    "1.4": (
        {"HostProviderName", "ServiceProviderName", "InvoiceDetailId"},
        {
            "AllocatedMethodDetails",
            "AllocatedMethodId",
            "AllocatedResourceId",
            "AllocatedResourceName",
            "AllocatedTags",
            "ContractApplied",
        },
    ),
}
"""What a version demands beside that, and what else it knows."""

NOT_NULL = {
    *("BilledCost", "BillingAccountId", "BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart", "ChargeCategory"),
    *(
        "ChargeFrequency",
        "ChargePeriodEnd",
        "ChargePeriodStart",
        "ContractedCost",
        "EffectiveCost",
        "InvoiceIssuerName",
        "ListCost",
    ),
    *("ServiceCategory", "ServiceName", "ServiceSubcategory", "ProviderName", "PublisherName", "HostProviderName"),
    "ServiceProviderName",
}
DECIMALS = {
    *("BilledCost", "ConsumedQuantity", "ContractedCost", "ContractedUnitPrice", "EffectiveCost", "ListCost", "ListUnitPrice"),
    "PricingQuantity",
}
TIMES = {"BillingPeriodEnd", "BillingPeriodStart", "ChargePeriodEnd", "ChargePeriodStart"}
OBJECTS = {"Tags", "SkuPriceDetails"}
ALLOWED = {
    "ChargeCategory": {"Usage", "Purchase", "Tax", "Credit", "Adjustment"},
    "ChargeClass": {"Correction"},
    "ChargeFrequency": {"One-Time", "Recurring", "Usage-Based"},
    "PricingCategory": {"Standard", "Dynamic", "Committed", "Other"},
    "ServiceCategory": {
        *("AI and Machine Learning", "Analytics", "Business Applications", "Compute", "Databases", "Developer Tools", "Multicloud"),
        *(
            "Identity",
            "Integration",
            "Internet of Things",
            "Management and Governance",
            "Media",
            "Migration",
            "Mobile",
            "Networking",
        ),
        *("Security", "Storage", "Web", "Other"),
    },
}
SUBCATEGORIES = {
    "Compute": {
        *("Containers", "End User Computing", "Quantum Compute", "Serverless Compute", "Virtual Machines", "Other (Compute)"),
    }
}
"""Of the categories that Lahar may use."""
SKU_PROPERTIES = {
    "CoreCount",
    "DiskMaxIops",
    "DiskSpace",
    "DiskType",
    "GpuCount",
    "InstanceType",
    "InstanceSeries",
    "MemorySize",
} | {
    *("NetworkMaxIops", "NetworkMaxThroughput", "OperatingSystem", "Redundancy", "StorageClass"),
}

_NUMBER = re.compile(r"-?\d+(\.\d+)?(E-?\d+)?")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_CURRENCY = re.compile(r"[A-Z]{3}")
_SIZE = r"(?:[KMGTPE]i?)?[bB]"
_SINGULAR = r"(?:Year|Month|Day|Hour|Minute|Second)"
_COUNT = r"[A-Z][A-Za-z]*"
_UNIT = re.compile(rf"(?:\d+ )?(?:{_SIZE}|{_COUNT})(?:-{_SINGULAR}s)?(?:/{_SINGULAR}|/\d+ {_SINGULAR}s)?")
_WRONG_SIZE = re.compile(r"\b(?:[Bb]its?|[Bb]ytes?)\b")

Row = dict[str, str | None]


class Finding(NamedTuple):
    """A rule that is broken."""

    rule: str
    row: int
    """From 1; 0: the header, or the file as a whole."""
    what: str


def fields(text: str) -> Iterator[list[str | None]]:
    """Yield the lines of a CSV by RFC 4180; an empty field is `None`, one that is quoted and empty is ''.

    Raises:
        ValueError: it is not one.
    """
    line: list[str | None] = []
    place = 0
    while place < len(text):
        if text[place] == '"':
            end = place + 1
            while text[end] != '"' or text[end + 1 : end + 2] == '"':
                end += 2 if text[end] == '"' else 1
            line.append(text[place + 1 : end].replace('""', '"'))
            end += 1
        else:
            end = place
            while end < len(text) and text[end] not in ",\r\n":
                if text[end] == '"':
                    raise ValueError(f"a quote inside a field that is not quoted, at {end}")
                end += 1
            line.append(text[place:end] or None)
        if text[end : end + 1] == ",":
            place = end + 1
            if text[place : place + 1] in ("", "\r"):
                line.append(None)
        else:
            place = end
        if text[place : place + 2] == "\r\n":
            yield line
            line = []
            place += 2
        elif place == end:
            raise ValueError(f"neither a comma nor the end of the line at {end}")


def read(content: bytes) -> tuple[list[str], list[Row]]:
    """Return the header and the rows of a file."""
    header, *lines = fields(content.decode())
    names = [name or "" for name in header]
    return names, [dict(zip(names, line, strict=True)) for line in lines]


def check(content: bytes, version: str) -> list[Finding]:
    """Return what is wrong with a file."""
    names, rows = read(content)
    found = list(_header(names, version))
    for number, row in enumerate(rows, 1):
        found += [Finding(rule, number, what) for rule, what in _row(row)]
    return found + list(_across(rows))


def _header(names: list[str], version: str) -> Iterator[Finding]:
    demanded, known = VERSIONS[version]
    for name in sorted((MANDATORY | CONDITIONAL | demanded) - set(names)):
        yield Finding(name, 0, "is missing")
    for name in names:
        if name.startswith("x_"):
            if not re.fullmatch(r"x_([A-Z][a-z0-9]*)+", name) or len(name) > 50:
                yield Finding("CustomColumnHandling", 0, f"{name} is not x_PascalCase of at most 50 characters")
        elif name not in MANDATORY | CONDITIONAL | OTHERS | demanded | known:
            yield Finding("ColumnHandling", 0, f"{name!r} is no column of FOCUS {version}")
    if len(set(names)) < len(names):
        yield Finding("ColumnHandling", 0, "a column stands there twice")
    own = [name.startswith("x_") for name in names]
    if own != sorted(own):
        yield Finding("ColumnHandling", 0, "custom columns stand before others")


def _row(row: Row) -> Iterator[tuple[str, str]]:
    for name, value in row.items():
        if value is None:
            if name in NOT_NULL:
                yield name, "is null"
        elif not value.strip():
            yield "NullHandling", f"{name} is an empty text"
        else:
            yield from ((name, what) for what in _value(name, value))
    yield from _relations(row)


def _value(name: str, value: str) -> Iterator[str]:
    if name in DECIMALS and not _NUMBER.fullmatch(value):
        yield f"{value!r} is no number"
    if name in TIMES:
        yield from _moment(value)
    if name in OBJECTS:
        yield from _object(name, value)
    if name == "BillingCurrency" and not _CURRENCY.fullmatch(value):
        yield f"{value!r} is no code of ISO 4217"
    if name in ("PricingUnit", "ConsumedUnit") and (not _UNIT.fullmatch(value) or _WRONG_SIZE.search(value)):
        yield f"{value!r} is no unit"
    if name in ALLOWED and value not in ALLOWED[name]:
        yield f"{value!r} is not allowed"


def _moment(value: str) -> Iterator[str]:
    if not _TIME.fullmatch(value):
        yield f"{value!r} is not YYYY-MM-DDTHH:mm:ssZ"
        return
    try:
        datetime.fromisoformat(value)
    except ValueError:
        yield f"{value!r} is no time"


def _object(name: str, value: str) -> Iterator[str]:
    def pairs(given: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in given}) < len(given):
            raise ValueError("a key stands there twice")
        return dict(given)

    try:
        document = json.loads(value, object_pairs_hook=pairs)
    except ValueError as error:
        yield f"{value!r}: {error}"
        return
    if not isinstance(document, dict):
        yield f"{value!r} is no object"
        return
    for key, one in document.items():
        if isinstance(one, list | dict):
            yield f"{key!r} holds an array or an object"
        if name == "SkuPriceDetails" and key not in SKU_PROPERTIES and not key.startswith("x_"):
            yield f"{key!r} is no property of FOCUS and lacks x_"


NULL_TOGETHER = (
    ("ResourceId", "ResourceType"),
    ("SubAccountId", "SubAccountName"),
    ("PricingQuantity", "PricingUnit"),
    ("ConsumedQuantity", "ConsumedUnit"),
)
NULL_WITHOUT = (
    ("SkuMeter", "SkuId"),
    ("SkuPriceDetails", "SkuPriceId"),
    ("ResourceName", "ResourceId"),
    ("ListUnitPrice", "SkuPriceId"),
    ("ContractedUnitPrice", "SkuPriceId"),
    ("PricingCategory", "SkuPriceId"),
    ("ConsumedQuantity", "SkuPriceId"),
    ("SkuPriceId", "SkuId"),
)
"""The first is null where the second is."""
OF_USAGE = ("ListUnitPrice", "ContractedUnitPrice", "PricingQuantity", "PricingCategory", "SkuId", "SkuPriceId", "ConsumedQuantity")
"""Not null in a row of usage that corrects nothing."""


def _relations(row: Row) -> Iterator[tuple[str, str]]:
    category, is_correction = row.get("ChargeCategory"), row.get("ChargeClass") == "Correction"
    for one, other in NULL_TOGETHER:
        if (row.get(one) is None) != (row.get(other) is None):
            yield other, f"is null where {one} is not, or the other way round"
    for one, other in NULL_WITHOUT:
        if row.get(one) is not None and row.get(other) is None:
            yield one, f"is given where {other} is null"
    if category == "Usage" and not is_correction:
        yield from ((name, "is null in a row of usage") for name in OF_USAGE if row.get(name) is None)
    if category != "Usage" and row.get("ConsumedQuantity") is not None:
        yield "ConsumedQuantity", f"is given in a row of {category}"
    if category == "Purchase" and row.get("ChargeFrequency") == "Usage-Based":
        yield "ChargeFrequency", "a purchase is not usage-based"
    if row.get("ResourceName") is not None and row.get("ResourceName") == row.get("ResourceId"):
        yield "ResourceName", "repeats ResourceId"
    if row.get("ServiceSubcategory") not in SUBCATEGORIES.get(row.get("ServiceCategory") or "", ()):
        yield "ServiceSubcategory", f"{row.get('ServiceSubcategory')!r} is not of {row.get('ServiceCategory')!r}"
    for name in ("Billing", "Charge"):
        if (row.get(f"{name}PeriodStart") or "") >= (row.get(f"{name}PeriodEnd") or ""):
            yield f"{name}PeriodEnd", "does not lie behind the start"
    yield from _amounts(row)


def _amounts(row: Row) -> Iterator[tuple[str, str]]:
    numbers = {name: Decimal(value) for name in DECIMALS if (value := row.get(name)) is not None and _NUMBER.fullmatch(value)}
    for kind in ("List", "Contracted"):
        price, quantity, cost = numbers.get(f"{kind}UnitPrice"), numbers.get("PricingQuantity"), numbers.get(f"{kind}Cost")
        if price is not None and price < 0:
            yield f"{kind}UnitPrice", "is below zero"
        # The specification lets corrections deviate; Lahar's do not.
        if price is not None and quantity is not None and cost is not None and EXACT.multiply(price, quantity) != cost:
            yield f"{kind}Cost", f"{price} x {quantity} is not {cost}"
    if row.get("ChargeCategory") in ("Credit", "Adjustment"):
        costs = {numbers.get(name) for name in ("BilledCost", "EffectiveCost", "ContractedCost", "ListCost")}
        if len(costs) > 1:
            yield "BilledCost", "a charge that relates to no other has costs that differ"


ONE_FOR_EACH = (
    ("SkuPriceId", "SkuId"),
    ("SkuPriceId", "ListUnitPrice"),
    ("SkuPriceId", "SkuPriceDetails"),
    ("SkuId", "SkuMeter"),
    ("ServiceName", "ServiceCategory"),
    ("ServiceName", "ServiceSubcategory"),
    ("InvoiceId", "BillingAccountId"),
    ("InvoiceId", "BillingCurrency"),
    ("InvoiceId", "BillingPeriodStart"),
    ("InvoiceId", "BillingPeriodEnd"),
)
"""All rows with one value of the first have one value of the second."""


def _across(rows: list[Row]) -> Iterator[Finding]:
    for key, name in ONE_FOR_EACH:
        known: dict[str, str | None] = {}
        for number, row in enumerate(rows, 1):
            given = row.get(key)
            if given is not None and known.setdefault(given, row.get(name)) != row.get(name):
                yield Finding(name, number, f"{row.get(name)!r} and {known[given]!r} for {key} {given!r}")
    yield from _invoices(rows)


def _invoices(rows: list[Row]) -> Iterator[Finding]:
    """Amounts of an invoice add up to one that can be paid, no currency having more than three decimals."""
    sums: dict[str, Decimal] = {}
    adjusted: dict[str, int] = {}
    for row in rows:
        cost = row.get("BilledCost")
        if (invoice := row.get("InvoiceId")) is not None and cost is not None and _NUMBER.fullmatch(cost):
            sums[invoice] = EXACT.add(sums.get(invoice, Decimal(0)), Decimal(cost))
            adjusted[invoice] = adjusted.get(invoice, 0) + (row.get("ChargeCategory") == "Adjustment")
    for invoice, total in sums.items():
        if EXACT.remainder(total, Decimal("0.001")):
            yield Finding("BilledCost", 0, f"invoice {invoice} adds up to {total}, which nobody can pay")
        if adjusted[invoice] > 1:
            yield Finding("ChargeCategory", 0, f"invoice {invoice} has {adjusted[invoice]} adjustments")
