"""FOCUS files keep the specification, whatever was recorded, and say what records say."""

from __future__ import annotations

import io
from decimal import Decimal
from typing import Any

import pytest
from focus_checker import EXACT, Row, check, fields, read
from hypothesis import given, settings
from msgspec.structs import replace
from usage_records import OCTOBER, PRICES, SELLER, TERMS, any_records, recorded, records, run, sample, taken_back

from engine.billing.calendar import HOUR
from engine.billing.exports.errors import ExportError
from engine.billing.exports.focus_columns import FOCUS_COLUMNS, focus_columns
from engine.billing.exports.formats import export
from engine.billing.exports.seller import Seller
from engine.billing.invoice import invoice_id, rounded
from engine.billing.records import Record
from engine.billing.state import Size
from engine.events.prices import Multiplier
from engine.events.times import format_time, parse_time

VERSIONS = ("1.2", "1.4")
both = pytest.mark.parametrize("version", VERSIONS)


def focus(given: list[Record], version: str = "1.4", seller: Seller = SELLER) -> bytes:
    stream = io.BytesIO()
    export(f"focus-{version}", iter(given), seller, stream)
    return stream.getvalue()


def rows_of(given: list[Record], version: str = "1.4") -> list[Row]:
    return read(focus(given, version))[1]


@both
@given(any_records())
@settings(max_examples=150)
def test_any_records_make_a_file_that_keeps_the_specification(version: str, given: list[Record]) -> None:
    assert check(focus(given, version), version) == []


@both
def test_every_kind_of_record_makes_a_file_that_keeps_the_specification(version: str) -> None:
    assert check(focus(sample(), version), version) == []


@both
@given(any_records())
def test_sums_over_the_file_are_those_over_the_records(version: str, given: list[Record]) -> None:
    """Exactly; and with the adjustments those of the invoices."""
    exact: dict[str, Decimal] = {}
    for record in given:
        invoice = invoice_id(record.run.tenant, record.run.period)
        exact[invoice] = EXACT.add(exact.get(invoice, Decimal(0)), record.amount)
    used: dict[str, Decimal] = dict.fromkeys(exact, Decimal(0))
    billed = dict(used)
    for row in rows_of(given, version):
        invoice, cost = row["InvoiceId"], Decimal(row["BilledCost"])
        billed[invoice] = EXACT.add(billed[invoice], cost)
        if row["ChargeCategory"] == "Usage":
            used[invoice] = EXACT.add(used[invoice], cost)
    assert used == exact
    assert billed == {invoice: rounded(amount, "EUR") for invoice, amount in exact.items()}


@given(any_records())
def test_each_record_is_a_row_and_rows_keep_their_order(given: list[Record]) -> None:
    rows = [row for row in rows_of(given) if row["x_RecordKind"] != "adjustment"]
    assert [row["x_RecordId"] for row in rows] == [record.id for record in given]
    for row, record in zip(rows, given, strict=True):
        assert Decimal(row["PricingQuantity"]) == record.quantity
        assert (parse_time(row["x_SliceStart"]), parse_time(row["x_SliceEnd"])) == (record.start, record.end)


@both
@given(any_records())
def test_the_table_of_columns_says_which_may_be_null(version: str, given: list[Record]) -> None:
    nullable = {column.name: column.nullable for column in focus_columns(version)}
    header, rows = read(focus(given, version))
    assert header == list(nullable)
    for row in rows:
        assert [name for name, value in row.items() if value is None and not nullable[name]] == []


def test_focus_columns_stand_by_name_before_own_ones() -> None:
    names = [column.name for column in FOCUS_COLUMNS]
    assert names == sorted(names, key=lambda name: (name.startswith("x_"), name))


@both
def test_every_column_is_filled_somewhere(version: str) -> None:
    """A name that the table has and no row fills would be a column of nulls."""
    header, rows = read(focus(sample(), version))
    assert [name for name in header if all(row[name] is None for row in rows)] == []


# --- single rules ---------------------------------------------------------------------------------------------------------------


def test_the_charge_period_is_the_hour_around_the_slice() -> None:
    (first, second, third) = (
        row
        for row in rows_of(records(recorded(run(start=OCTOBER, end=OCTOBER + 90 * 60_000_000 + 10_000))))
        if row["SkuMeter"] == "gpu_seconds"
    )
    assert [(row["ChargePeriodStart"], row["ChargePeriodEnd"]) for row in (first, second, third)] == [
        ("2026-10-05T08:00:00Z", "2026-10-05T09:00:00Z"),
        ("2026-10-05T09:00:00Z", "2026-10-05T10:00:00Z"),
        ("2026-10-05T10:00:00Z", "2026-10-05T11:00:00Z"),
    ]
    assert (third["x_SliceStart"], third["x_SliceEnd"]) == ("2026-10-05T10:00:00.000000Z", "2026-10-05T10:00:00.010000Z")


def test_billing_periods_are_months_of_the_price_book() -> None:
    row = rows_of(records(recorded(run())))[0]
    assert (row["BillingPeriodStart"], row["BillingPeriodEnd"]) == ("2026-09-30T22:00:00Z", "2026-10-31T23:00:00Z")


def only(given: list[Record], **wanted: Any) -> Row:
    (row,) = [row for row in rows_of(given) if all(row[name] == value for name, value in wanted.items())]
    return row


def test_a_correction_of_a_closed_month_is_marked_and_keeps_its_period() -> None:
    given = records(
        recorded(run(end=OCTOBER + HOUR // 2)),
        taken_back(run(end=OCTOBER + HOUR // 2)),
        recorded(run(end=OCTOBER + HOUR // 4, revision=1), closed=["2026-10"]),
    )
    original, reversal, replacement = (row for row in rows_of(given) if row["SkuMeter"] == "gpu_seconds")
    assert [row["ChargeClass"] for row in (original, reversal, replacement)] == [None, "Correction", "Correction"]
    assert {row["ChargePeriodStart"] for row in (original, reversal, replacement)} == {"2026-10-05T08:00:00Z"}
    assert [row["BillingPeriodStart"] for row in (original, reversal, replacement)] == [
        "2026-09-30T22:00:00Z",
        "2026-10-31T23:00:00Z",
        "2026-10-31T23:00:00Z",
    ]
    assert Decimal(reversal["BilledCost"]) == -Decimal(original["BilledCost"]) != 0
    assert reversal["x_ReversesId"] == original["x_RecordId"]
    assert reversal["SkuPriceId"] == original["SkuPriceId"]


def test_a_correction_within_an_open_month_is_no_correction_to_focus() -> None:
    assert {row["ChargeClass"] for row in rows_of(records(recorded(run(revision=3))))} == {None}


def test_preemptible_jobs_are_priced_dynamically() -> None:
    spot = replace(TERMS, preemptible=True)
    assert {row["PricingCategory"] for row in rows_of(records(recorded(run(), spot))) if row["SkuId"]} == {"Dynamic"}
    assert {row["PricingCategory"] for row in rows_of(records(recorded(run()))) if row["SkuId"]} == {"Standard"}


def test_an_excess_is_priced_but_not_consumed() -> None:
    given = records(recorded(run(record="excess", end=OCTOBER + HOUR // 2, length=7_000_000)))
    row = only(given, SkuMeter="gpu_seconds")
    assert (row["PricingQuantity"], row["ConsumedQuantity"]) == ("14", "0")


def test_a_tenant_multiplier_is_negotiated_and_not_in_the_list_price() -> None:
    tenant = {"tenant": "acme", "factor": "0.9"}
    rules = PRICES.model_copy(update={"multipliers": (*PRICES.multipliers, Multiplier.model_validate(tenant))})
    for_everybody = only(records(recorded(run(end=OCTOBER + 1))), SkuMeter="cpu_seconds")
    for_acme = only(records(recorded(run(end=OCTOBER + 1), rules=rules)), SkuMeter="cpu_seconds")
    for name in ("ListUnitPrice", "ListCost", "SkuPriceId", "SkuPriceDetails"):
        assert for_acme[name] == for_everybody[name]
    assert (for_acme["ListUnitPrice"], for_acme["ContractedUnitPrice"]) == ("0.00000888", "0.000007992")
    assert (for_acme["ListCost"], for_acme["BilledCost"]) == ("0.00000000003552", "0.000000000031968")
    assert for_acme["x_Multipliers"] == "queue=research x 0.8, tenant=acme x 0.9"


def test_usage_without_a_price_is_listed_and_says_so() -> None:
    row = only(records(recorded(run(end=OCTOBER + 1))), SkuMeter="memory_byte_seconds")
    assert (row["ListUnitPrice"], row["BilledCost"], row["x_Priced"]) == ("0", "0", "false")


def test_rounding_is_a_row_of_its_own() -> None:
    (row,) = [row for row in rows_of(records(recorded(run(size=Size(gpu=1))))) if row["ChargeCategory"] == "Adjustment"]
    # 5,400 s x 0.000833333333 x 0.8 = 3.59999999856
    assert (row["BilledCost"], row["ChargePeriodStart"], row["ChargeFrequency"]) == (
        "0.00000000144",
        "2026-09-30T22:00:00Z",
        "One-Time",
    )


def test_an_even_invoice_has_no_adjustment() -> None:
    free = run(free=True)
    assert [row for row in rows_of(records(recorded(free))) if row["ChargeCategory"] == "Adjustment"] == []


def test_usage_of_no_tenant_is_billed_to_the_deployment() -> None:
    nobody = replace(TERMS, tenant="")
    assert {row["BillingAccountId"] for row in rows_of(records(recorded(run(), nobody)))} == {"gpu-west"}


def test_the_last_hour_that_can_be_written_has_a_charge_period() -> None:
    end = parse_time("9999-12-31T23:59:59.999999Z")
    content = focus(records(recorded(run(start=end - 5, end=end))))
    assert check(content, "1.4") == []
    assert format_time(end)[:19] in content.decode()


def test_without_a_price_book_there_is_no_focus() -> None:
    with pytest.raises(ExportError, match="apply a PriceBook"):
        focus(sample(), seller=Seller("a", "b"))


# --- the checker ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "value", "rule"),
    [
        ("BilledCost", None, "BilledCost"),
        ("BilledCost", "+1", "BilledCost"),
        ("BilledCost", "0.001", "BilledCost"),
        ("ListCost", "1,5", "ListCost"),
        ("ListCost", "7", "ListCost"),
        ("ListUnitPrice", "-1", "ListUnitPrice"),
        ("ListUnitPrice", None, "ListUnitPrice"),
        ("BillingCurrency", "euro", "BillingCurrency"),
        ("ChargePeriodStart", "2026-10-05 08:00:00", "ChargePeriodStart"),
        ("ChargePeriodStart", "2026-13-05T08:00:00Z", "ChargePeriodStart"),
        ("ChargePeriodEnd", "2026-10-05T08:00:00.000Z", "ChargePeriodEnd"),
        ("ChargePeriodEnd", "2026-10-05T08:00:00Z", "ChargePeriodEnd"),
        ("ChargeCategory", "Use", "ChargeCategory"),
        ("ChargeCategory", "Adjustment", "ConsumedQuantity"),
        ("ChargeClass", "correction", "ChargeClass"),
        ("ChargeFrequency", "Hourly", "ChargeFrequency"),
        ("PricingCategory", "Spot", "PricingCategory"),
        ("PricingUnit", "Byte-Seconds", "PricingUnit"),
        ("PricingUnit", "gpu-seconds", "PricingUnit"),
        ("PricingUnit", None, "PricingUnit"),
        ("ServiceCategory", "Gpu", "ServiceCategory"),
        ("ServiceSubcategory", "Media Streaming", "ServiceSubcategory"),
        ("SkuPriceDetails", '{"a": 1}', "SkuPriceDetails"),
        ("SkuId", None, "SkuId"),
        ("SkuMeter", "other", "SkuMeter"),
        ("Tags", "[1]", "Tags"),
        ("Tags", '{"a": {"b": 1}}', "Tags"),
        ("Tags", '{"a": 1, "a": 2}', "Tags"),
        ("Tags", "", "NullHandling"),
        ("x_QueueName", "", "NullHandling"),
        ("ResourceName", "uid-1", "ResourceName"),
        ("SubAccountName", None, "SubAccountName"),
        ("BillingAccountId", "another", "BillingAccountId"),
        ("ServiceProviderName", None, "ServiceProviderName"),
    ],
)
def test_the_checker_sees(column: str, value: str | None, rule: str) -> None:
    header, rows = read(focus(records(recorded(run()))))
    rows[0][column] = value
    assert rule in {finding.rule for finding in check(written(header, rows), "1.4")}


def written(header: list[str], rows: list[Row]) -> bytes:
    def field(value: str | None) -> str:
        return "" if value is None else '"' + value.replace('"', '""') + '"'

    return "".join(
        ",".join(map(field, line)) + "\r\n" for line in [header, *([row[name] for name in header] for row in rows)]
    ).encode()


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda names: [name for name in names if name != "ListCost"], "ListCost"),
        (lambda names: [*names, "Cost"], "ColumnHandling"),
        (lambda names: [*names, "x_own"], "CustomColumnHandling"),
        (lambda names: [*names[::-1]], "ColumnHandling"),
        (lambda names: [*names, names[0]], "ColumnHandling"),
        (lambda names: ["ProviderName" if name == "ServiceProviderName" else name for name in names], "ServiceProviderName"),
    ],
)
def test_the_checker_sees_columns(change: Any, rule: str) -> None:
    header, rows = read(focus(records(recorded(run()))))
    names = change(header)
    assert rule in {
        finding.rule for finding in check(written(names, [{**dict.fromkeys(names, "a"), **row} for row in rows]), "1.4")
    }


def test_the_checker_reads_csv() -> None:
    assert list(fields('a,"b",\r\n"c,""\r\n""","",\r\n')) == [["a", "b", None], ['c,"\r\n"', "", None]]
    for wrong in ('a"b\r\n', '"a"b\r\n'):
        with pytest.raises(ValueError, match=r"quote|comma"):
            list(fields(wrong))
