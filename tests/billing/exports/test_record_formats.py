"""JSON Lines, CSV and Parquet say what the records say, and only that."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterator
from decimal import Decimal
from itertools import repeat
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from pyarrow import parquet
from usage_records import SELLER, TERMS, any_records, recorded, records, run, sample

from engine.billing.exports.adjustments import adjustment_json, with_adjustments
from engine.billing.exports.columns import COLUMNS, rows
from engine.billing.exports.errors import ExportError
from engine.billing.exports.formats import FORMATS, export
from engine.billing.exports.parquet import ROW_GROUP
from engine.billing.exports.seller import Seller
from engine.billing.invoice import invoices
from engine.billing.records import Record, json_of
from engine.events.decimals import EXACT
from engine.events.times import parse_time

NAMES = [column.name for column in COLUMNS]
FEW = settings(max_examples=30)
every_format = pytest.mark.parametrize("name", FORMATS)


def exported(name: str, given: list[Record]) -> bytes:
    stream = io.BytesIO()
    export(name, iter(given), SELLER, stream)
    return stream.getvalue()


def expected(given: list[Record]) -> list[dict[str, Any]]:
    return list(rows(given, SELLER))


@given(any_records())
def test_a_row_has_the_columns_of_the_table_with_values_of_their_types(given: list[Record]) -> None:
    types = {"integer": int, "boolean": bool, "strings": list}
    for row in expected(given):
        assert list(row) == NAMES
        for column in COLUMNS:
            value = row[column.name]
            assert (value is None and column.nullable) or type(value) is types.get(column.type, str), column
            if column.type == "decimal" and value is not None:
                Decimal(value)


@given(any_records())
def test_json_lines_hold_an_object_for_each_record(given: list[Record]) -> None:
    lines = exported("jsonl", given).split(b"\n")
    assert lines.pop() == b""
    found = [json.loads(line) for line in lines]
    assert found[: len(given)] == [json_of(record) for record in given]
    assert {row["record"] for row in found[len(given) :]} <= {"adjustment"}
    assert [list(row) for row in found] == [NAMES] * len(found)


@FEW
@given(any_records())
def test_csv_holds_the_same(given: list[Record]) -> None:
    def text(value: Any) -> str:
        return {bool: lambda: str(value).lower(), list: lambda: " ".join(value), type(None): str}.get(
            type(value), lambda: str(value)
        )()

    content = exported("csv", given).decode()
    header, *lines = csv.reader(io.StringIO(content, newline=""))
    assert header == NAMES
    assert lines == [[text(value) for value in row.values()] for row in expected(given)]


@FEW
@given(any_records())
def test_parquet_holds_the_same(given: list[Record]) -> None:
    table = parquet.read_table(io.BytesIO(exported("parquet", given)))
    times = {column.name for column in COLUMNS if column.type == "time"}
    wanted = expected(given)
    for name in NAMES:
        values = [parse_time(row[name]) if name in times else row[name] for row in wanted]
        column = table[name].cast(pa.int64()) if name in times else table[name]
        assert column.to_pylist() == values


@every_format
@given(given=any_records())
@FEW
def test_the_same_records_make_the_same_bytes(name: str, given: list[Record]) -> None:
    assert exported(name, given) == exported(name, given)


@pytest.mark.parametrize("name", ["jsonl", "csv", "parquet"])
@given(given=any_records())
@FEW
def test_amounts_of_an_invoice_add_up_to_its_total(name: str, given: list[Record]) -> None:
    """Those of the records exactly to its exact amount; with the adjustment to what is to be paid."""
    found: dict[str, Decimal] = {}
    for kind, amount in _amounts(name, exported(name, given)):
        part = "adjustment" if kind == "adjustment" else "use"
        found[part] = EXACT.add(found.get(part, Decimal(0)), Decimal(amount))
    used = Decimal(0)
    for record in given:
        used = EXACT.add(used, record.amount)
    assert found.get("use", 0) == used
    assert EXACT.remainder(EXACT.add(used, found.get("adjustment", Decimal(0))), Decimal("0.01")) == 0


def _amounts(name: str, content: bytes) -> Iterator[tuple[str, str]]:
    if name == "jsonl":
        for line in content.splitlines():
            row = json.loads(line)
            yield row["record"], row["amount"]
    elif name == "csv":
        for row in csv.DictReader(io.StringIO(content.decode(), newline="")):
            yield row["record"], row["amount"]
    else:
        table = parquet.read_table(io.BytesIO(content))
        yield from zip(table["record"].to_pylist(), table["amount"].to_pylist(), strict=True)


def test_an_adjustment_makes_the_total_of_the_invoice() -> None:
    events = [recorded(run()), recorded(run(), uid="uid-2")]
    (invoice,) = invoices(events, {})
    *_, adjustment = expected(records(*events))
    document = invoice.document()
    assert (adjustment["record"], adjustment["tenant"], adjustment["amount"]) == ("adjustment", "acme", document["adjustment"])
    assert (adjustment["start"], adjustment["end"]) == ("2026-09-30T22:00:00.000000Z", "2026-10-31T23:00:00.000000Z")


def test_an_adjustment_has_one_id_for_an_invoice() -> None:
    one, other = (list(with_adjustments(records(recorded(run(end=run().start + length))), SELLER))[-1] for length in (1, 2))
    assert one.id == other.id
    assert one.amount != other.amount
    assert set(adjustment_json(one)) == set(NAMES)


def test_without_a_price_book_records_are_exported_without_adjustments() -> None:
    stream = io.BytesIO()
    export("jsonl", records(recorded(run(), TERMS, None)), Seller("a", "b"), stream)
    found = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert {(row["record"], row["amount"], row["currency"]) for row in found} == {("usage", "0", None)}


# --- streams --------------------------------------------------------------------------------------------------------------------


class Pipe(io.RawIOBase):
    """What standard output is: it can be written, and nothing else."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.taken.append(bytes(data))
        return len(data)


@every_format
def test_a_pipe_gets_the_same_bytes_and_stays_open(name: str) -> None:
    pipe = Pipe()
    export(name, sample(), SELLER, pipe)
    assert not pipe.closed
    assert b"".join(pipe.taken) == exported(name, sample())


@every_format
def test_no_record_makes_a_file_too(name: str) -> None:
    content = exported(name, [])
    if name == "parquet":
        assert parquet.read_table(io.BytesIO(content)).num_rows == 0
    else:
        assert content.count(b"\n") == (name != "jsonl")


@every_format
def test_records_are_written_while_they_come(name: str) -> None:
    """What is held back does not grow: one row, or one row group of Parquet."""
    held = ROW_GROUP if name == "parquet" else 1
    (record, *_) = records(recorded(run()))
    pipe = Pipe()
    sizes: list[int] = []

    def coming() -> Iterator[Record]:
        for count in range(held + 2):
            if count in (1, held + 1):
                sizes.append(sum(map(len, pipe.taken)))
            yield record

    export(name, coming(), SELLER, pipe)
    before, after = sizes
    assert before < after


# --- Parquet --------------------------------------------------------------------------------------------------------------------


def test_parquet_has_a_schema_of_its_own_and_says_nothing_of_the_machine() -> None:
    file = parquet.ParquetFile(io.BytesIO(exported("parquet", sample())))
    assert {field.name: field.nullable for field in file.schema_arrow} == {column.name: column.nullable for column in COLUMNS}
    assert {column.type: str(file.schema_arrow.field(column.name).type) for column in COLUMNS} == {
        "string": "string",
        "decimal": "string",
        "integer": "int64",
        "boolean": "bool",
        "time": "timestamp[us, tz=UTC]",
        "strings": "list<element: string not null>",
    }
    assert file.metadata.metadata is None
    assert file.metadata.created_by.startswith("parquet-cpp-arrow version ")


def test_row_groups_have_one_size() -> None:
    (record, *_) = records(recorded(run()))
    stream = io.BytesIO()
    export("parquet", repeat(record, ROW_GROUP + 1), Seller("a", "b"), stream)
    metadata = parquet.ParquetFile(stream).metadata
    assert [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)] == [ROW_GROUP, 1]


def test_an_installation_without_pyarrow_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ExportError, match=r"pyarrow is not installed; Parquet needs lahar\[parquet\]"):
        exported("parquet", sample())
    assert exported("csv", sample())


def test_an_unknown_format_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ExportError, match=r"no format 'xlsx'; there are csv, parquet, jsonl, focus-1\.2, focus-1\.4"):
        exported("xlsx", [])
