"""Bills of the library: what the commands answer, as typed objects."""

from __future__ import annotations

import csv
import json
import resource
from datetime import UTC, datetime
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from tempfile import gettempdir
from typing import Any, BinaryIO

import pytest
from typer.testing import CliRunner

import lahar
from engine.billing.calendar import Month
from engine.billing.stage import BillingStage
from engine.cli.main import app
from engine.events import Event, encode
from engine.events.billing import PeriodClosed
from engine.events.ids import digest
from engine.events.times import parse_time
from engine.history.closings import Closing, closings
from engine.log.memory import MemoryLog
from engine.log.port import Commit, ShardId
from engine.processor.partitions import input_partitions

RUNNER = CliRunner()

OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "job-1", "controller": True}
BEGAN, ENDED = "2023-05-25T07:10:00Z", "2023-05-25T09:00:00Z"
TERMINATED = {"terminated": {"exitCode": 0, "startedAt": BEGAN, "finishedAt": ENDED}}
POD = {
    "kind": "Pod",
    "metadata": {
        "name": "p",
        "namespace": "default",
        "uid": "uid-1",
        "resourceVersion": "7",
        "creationTimestamp": "2023-05-25T07:00:00Z",
        "ownerReferences": [OWNER],
    },
    "spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": "2"}}}]},
    "status": {"phase": "Succeeded", "startTime": BEGAN, "containerStatuses": [{"name": "c", "state": TERMINATED}]},
}
BOOK: dict[str, Any] = {
    "apiVersion": "lahar.dev/v1",
    "kind": "PriceBook",
    "metadata": {"name": "prices"},
    "spec": {"currency": "EUR", "versions": [{"version": "1", "from": "2020-01-01", "prices": {"gpu_seconds": {"*": "0.001"}}}]},
}


def test_a_program_gets_what_the_commands_export_report_check_and_compare(tmp_path: Path) -> None:
    place = f"sqlite:{tmp_path}/lahar.db"
    node = {"kind": "Node", "metadata": {"name": "n1", "labels": {"node.kubernetes.io/instance-type": "big"}}, "status": {}}
    spec = BOOK["spec"]
    small = {"version": "2", "from": "2024-01-01", "prices": {"gpu_seconds": {"small": "0.002"}}}
    second = BOOK | {"spec": spec | {"versions": [*spec["versions"], small]}}
    with lahar.open(place) as log:
        log.apply(node)
        assert log.bills.check_prices(BOOK) == []
        (fault,) = log.bills.check_prices(second)
        assert fault == lahar.Fault("spec.versions (2).prices.gpu_seconds", "has no price for big")
        log.apply(BOOK)
        log.ingest([POD])
        for form in ("csv", "parquet", "jsonl", "focus-1.2", "focus-1.4"):
            stream = BytesIO()
            log.bills.export(form, stream, period="2023-05", issuer="Example")
            assert stream.getvalue() == command(place, "export", "--format", form, "--period", "2023-05", "--issuer", "Example")
        page = log.bills.report(period="2023-05", tenant="default")
        assert f"{page}\n".encode() == command(place, "report", "--period", "2023-05", "--tenant", "default")
        assert "<h1>Bill of default for 2023-05</h1>" in page
        (record, *_) = log.bills.records()
        explained = log.bills.explain(record.id)
        assert json.dumps(explained.document()) == json.dumps(json.loads(command(place, "explain", record.id, "--json")))
        with pytest.raises(lahar.PeriodError, match="'2023-5' is not a month"):
            log.bills.export("csv", BytesIO(), period="2023-5")
        with pytest.raises(lahar.PeriodError, match="'2023-5' is not a month"):
            log.bills.report(period="2023-5")
        with pytest.raises(lahar.ExportError, match="no format 'xml'"):
            log.bills.export("xml", BytesIO())

        assert log.bills.check_prices(BOOK) == []
        (fault,) = log.bills.check_prices(second)
        assert "begins at 2024-01-01" in fault.message
        (fault,) = log.bills.check_prices(BOOK | {"spec": spec | {"currency": "EURO"}})
        assert fault.path == "spec.currency"
        assert log.bills.diff_prices(BOOK) == []
        assert log.bills.diff_prices(second) == [
            lahar.Change("versions.2.from", None, "2024-01-01"),
            lahar.Change("versions.2.prices.gpu_seconds.small", None, "0.002"),
        ]
        for compare in (log.bills.check_prices, log.bills.diff_prices):
            with pytest.raises(ValueError, match="Node is no PriceBook"):
                compare(node)
        with pytest.raises(ValueError, match="EURO"):
            log.bills.diff_prices(BOOK | {"spec": spec | {"currency": "EURO"}})


def test_a_program_is_told_what_billing_has_not_read(tmp_path: Path) -> None:
    with lahar.open(f"sqlite:{tmp_path}/lahar.db", billing=False) as log:
        log.ingest([POD])
        (found,) = log.bills.verify()
    assert isinstance(found, lahar.Unfinished)
    assert found.document() == {"shard": found.shard, "behind": True, "review": None}
    assert found.sentence() == f"{found.shard}: it has not read all job events and cluster facts yet"


def test_a_text_that_is_no_utf_8_is_refused(tmp_path: Path) -> None:
    with lahar.open(f"sqlite:{tmp_path}/lahar.db", billing=True) as log:
        bills = log.bills
        for ask in (bills.records, bills.invoices, bills.budgets, bills.report):
            with pytest.raises(ValueError, match=r"^tenant '\\udcff' is no UTF-8 text$"):
                ask(tenant="\udcff")
        with pytest.raises(ValueError, match=r"^job '\\udcff' is no UTF-8 text$"):
            bills.records(job="\udcff")
        with pytest.raises(ValueError, match=r"^issuer '\\udcff' is no UTF-8 text$"):
            bills.export("focus-1.2", BytesIO(), issuer="\udcff")


def test_a_full_disk_for_temporary_files_is_named(tmp_path: Path) -> None:
    """Files may have no more than 100 kB while the answer is written."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)

    def answer(_: object, file: BinaryIO) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limit[1]))
        file.write(b"x" * 200_000)
        file.flush()

    with lahar.open(f"sqlite:{tmp_path}/lahar.db", billing=True) as log:
        log.ingest([POD])
        got = BytesIO()
        try:
            with pytest.raises(OSError, match="File too large") as raised:
                log.bills.write(got, answer)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert raised.value.filename == gettempdir()
    assert got.getvalue() == b""


def test_a_closing_from_before_the_end_of_its_month_closes_nothing(tmp_path: Path) -> None:
    """Earlier builds wrote such closings; readers of the event go by the rule of the stage, and the month can be closed later."""
    with lahar.open(f"sqlite:{tmp_path}/lahar.db", billing=True) as log:
        log.ingest([POD])
        early = parse_time("2023-05-26")
        event = Event(
            digest(b"period/2023-05"), "command/", PeriodClosed.TYPE, "c", early, early, 0, "", "", "c", PeriodClosed("2023-05")
        )
        log.log.append("cluster", [encode(event, "c")])
        assert log.bills.closings() == {}
        log.close_month("2023-05")
        assert log.bills.closed().keys() == {"2023-05"}
        assert list(log.bills.verify()) == []


def test_a_month_that_was_closed_before_the_first_book_keeps_its_end(tmp_path: Path) -> None:
    """In Nepal it ends at 18:15 UTC; what was charged behind that stands on the invoice that was closed."""
    state = {"terminated": {"exitCode": 0, "startedAt": "2023-05-31T17:00:00Z", "finishedAt": "2023-05-31T23:00:00Z"}}
    status = {"phase": "Succeeded", "startTime": "2023-05-31T17:00:00Z", "containerStatuses": [{"name": "c", "state": state}]}
    prices = {"version": "1", "from": "2020-01-01", "prices": {"gpu_seconds": {"*": "0.0000007"}}}
    book = BOOK | {"spec": {"currency": "EUR", "time_zone": "Asia/Kathmandu", "versions": [prices]}}
    with lahar.open(f"sqlite:{tmp_path}/lahar.db", billing=True) as log:
        log.ingest([POD | {"status": status}])
        log.close_month("2023-05")
        log.apply(book)
        stream = BytesIO()
        log.bills.export("focus-1.2", stream)
    rows = list(csv.DictReader(stream.getvalue().decode().splitlines()))
    charged = [row for row in rows if row["x_Revision"] == "0" and not row["ChargeClass"]]
    assert max(row["ChargePeriodEnd"] for row in charged) == "2023-05-31T23:00:00Z"
    assert {(row["BillingPeriodStart"], row["BillingPeriodEnd"]) for row in charged} == {
        ("2023-05-01T00:00:00Z", "2023-06-01T00:00:00Z")
    }


def test_a_month_is_closed_once_every_shard_of_billing_has_taken_it() -> None:
    log, at = MemoryLog(2), parse_time("2023-06-01")
    event = Event("e", "command/", PeriodClosed.TYPE, "c", at, at, 0, "", "", "c", PeriodClosed("2023-05"))
    log.append("cluster", [encode(event, "c")])
    for number, closed in enumerate((False, False, True)):
        assert closings(log) == {"2023-05": Closing(at, closed, Month("2023-05", parse_time("2023-05-01"), at))}
        if not closed:
            shard = log.open(ShardId("billing", number), input_partitions(log, BillingStage(), number))
            assert closings(log)["2023-05"].taken is False
            shard.commit(Commit((1, 0), at))


def command(place: str, *arguments: str) -> bytes:
    """What the command writes to standard output."""
    return RUNNER.invoke(app, ["--log", place, "billing", *arguments], catch_exceptions=False).stdout_bytes


def test_a_program_asks_for_bills_and_closes_a_month(tmp_path: Path) -> None:
    with lahar.open(f"sqlite:{tmp_path}/lahar.db", billing=True) as log:
        log.apply(BOOK)
        log.ingest([POD])
        records = log.bills.records(job="default/train")
        assert [(r.charge.meter, r.quantity, r.amount) for r in records] == [
            ("gpu_seconds", 2 * 50 * 60, 6),
            ("cpu_seconds", 50 * 60, 0),
            ("gpu_seconds", 2 * 60 * 60, Decimal("7.2")),
            ("cpu_seconds", 60 * 60, 0),
        ]
        (invoice,) = log.bills.invoices(tenant="default")
        assert (invoice.period, invoice.rounded, invoice.currency) == ("2023-05", Decimal("13.20"), "EUR")
        assert list(log.bills.verify()) == []
        assert log.bills.quote(datetime.now(UTC)) == ([], [])
        assert log.bills.price_book().names.keys() == {"1"}
        bills = log.bills
        for ask in (bills.records, bills.invoices, bills.budgets):
            with pytest.raises(lahar.PeriodError, match="'2023-5' is not a month: write YYYY-MM"):
                ask(period="2023-5")
        with pytest.raises(lahar.PeriodError, match="nothing is recorded of 2023-04; recorded months: 2023-05"):
            log.close_month("2023-04")
        assert log.close_month("2023-05", by="finance").name == "2023-05"
        assert log.bills.closed().keys() == {"2023-05"}
        with pytest.raises(lahar.PeriodError, match="was closed"):
            log.close_month("2023-05")
