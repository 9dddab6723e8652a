"""Bills of the library: what the commands answer, as typed objects."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

import lahar

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
BOOK = {
    "apiVersion": "lahar.dev/v1",
    "kind": "PriceBook",
    "metadata": {"name": "prices"},
    "spec": {"currency": "EUR", "versions": [{"version": "1", "from": "2020-01-01", "prices": {"gpu_seconds": {"*": "0.001"}}}]},
}


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
        assert log.bills.quote(datetime.now(UTC)) == []
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
