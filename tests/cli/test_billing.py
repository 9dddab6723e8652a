"""Bills by command: what an outsider can check by hand, what is refused, what never changes once a month is closed."""

from __future__ import annotations

import csv
import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from engine.billing import forgetting
from engine.events.times import parse_time

BOOK = """\
apiVersion: lahar.dev/v1
kind: PriceBook
metadata: {name: prices}
spec:
  currency: EUR
  versions:
    - version: first
      from: "2023-01-01"
      prices:
        gpu_seconds: {"*": "0.0005"}
        cpu_seconds: {"*": "0.00001"}
      multipliers:
        - {queue: BE, factor: "0.5"}
"""
TRACE = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
good,2000,0,2,1000,,LS,Succeeded,1685000000,1685007210,1685000010
bad,500,0,1,1000,,BE,Failed,1685000000,1685000100,1685000000
never,500,0,1,1000,,BE,Pending,1685000000,1685000100,
"""
"""`good` ran from 07:33:30 to 09:33:30 UTC on 2023-05-25, 7,200 s; `bad` 100 s."""


@pytest.mark.parametrize("way", ["the environment", "lahar.toml"])
def test_nothing_is_billed_where_it_is_off_and_that_is_said(lahar, monkeypatch, way):
    if way == "lahar.toml":
        Path("lahar.toml").write_text("billing = false\n")
    else:
        monkeypatch.setenv("LAHAR_BILLING", "0")
    Path("small.csv").write_text(TRACE)
    lahar("import-trace", "--format", "openb", "small.csv")
    done = lahar("billing", "invoice", "--json")
    assert done.out == ""
    assert "the billing stage is off" in done.err
    assert [found["shard"] for found in lahar("status", "--json").records] == ["lifecycle/0", "scheduling/0"]
    # Once it is on it begins with the first job event.
    monkeypatch.delenv("LAHAR_BILLING", raising=False)
    Path("lahar.toml").unlink(missing_ok=True)
    lahar("run", "--once")
    assert lahar("billing", "invoice", "--json").record["sum"]["gpu_seconds"] == "14500"


def test_verify_calls_no_log_right_that_was_never_billed(lahar):
    lahar("ingest", "--recorded", given=pod(1, RUNNING) + "\n", LAHAR_BILLING="0")
    done = lahar("billing", "verify")
    told, last = done.out.splitlines()
    assert "it has not read all job events and cluster facts yet" in told
    assert last == "verify: apart from what billing has still to do, every record follows from the job events"
    found = lahar("billing", "verify", "--json").record
    assert found == {"shard": told.partition(":")[0], "behind": True, "review": None}
    lahar("run", "--once")
    assert lahar("billing", "verify").out == "verify: ok, every record follows from the job events\n"


@pytest.fixture
def billed(lahar, folder):
    """The command, with a price book and a small trace in its log."""
    Path("prices.yaml").write_text(BOOK)
    Path("small.csv").write_text(TRACE)
    lahar("apply", "prices.yaml", "--at", "2023-01-01T00:00:00Z")
    lahar("import-trace", "--format", "openb", "small.csv")
    return lahar


def exported(lahar, *options):
    lines = map(json.loads, lahar("billing", "export", "--format", "jsonl", *options).out.splitlines())
    return [line for line in lines if line["record"] != "adjustment"]


def test_an_invoice_is_what_one_computes_by_hand(billed):
    invoice = billed("billing", "invoice", "--json").record
    gpu = 2 * 7200 * Decimal("0.0005") + 100 * Decimal("0.0005") * Decimal("0.5")
    cpu = 2 * 7200 * Decimal("0.00001") + Decimal("0.5") * 100 * Decimal("0.00001") * Decimal("0.5")
    assert Decimal(invoice["amount"]) == gpu + cpu == Decimal("7.36925")
    assert (invoice["total"], invoice["adjustment"], invoice["currency"]) == ("7.37", "0.00075", "EUR")
    assert invoice["useful"] == {"gpu_seconds": "14400", "cpu_seconds": "14400", "amount": "7.344"}
    assert invoice["wasted"] == {"failed": {"gpu_seconds": "100", "cpu_seconds": "50", "amount": "0.02525"}}
    assert [line["name"] for line in invoice["lines"]] == ["bad", "good"]  # what never ran costs nothing
    assert {(line["project"], line["user"]) for line in invoice["lines"]} == {(None, None)}
    lines = [json.loads(line) for line in billed("billing", "export", "--format", "jsonl").out.splitlines()]
    assert sum(Decimal(line["amount"]) for line in lines) == Decimal(invoice["total"])
    assert [line["amount"] for line in lines if line["record"] == "adjustment"] == [invoice["adjustment"]]


def test_an_invoice_can_be_had_as_csv_and_markdown(billed):
    invoice = billed("billing", "invoice", "--json").record
    lines = list(csv.DictReader(billed("billing", "invoice", "--format", "csv").out.splitlines()))
    assert [line["name"] for line in lines] == ["bad", "good", ""]
    assert [line["line"] for line in lines] == ["job", "job", "adjustment"]
    assert sum(Decimal(line["amount"]) for line in lines) == Decimal(invoice["total"])
    assert {(line["invoice"], line["state"], line["currency"]) for line in lines} == {(invoice["invoice"], "open", "EUR")}
    columns = ("useful_gpu_seconds", "wasted_gpu_seconds", "wasted_amount", "price_versions")
    parts = [tuple(line[name] for name in columns) for line in lines]
    assert parts == [("", "100", "0.02525", "first"), ("14400", "", "0", "first"), ("", "", "", "")]
    text = billed("billing", "invoice", "--format", "markdown").out
    assert text.splitlines()[:5] == [
        "# Invoice 2023-05, default",
        "",
        f"Invoice {invoice['invoice']}, open. Total: **7.37 EUR**",
        "",
        "Price versions: first",
    ]
    assert "| useful | 14400 | 14400 | 7.344 |" in text
    assert "| wasted: failed | 100 | 50 | 0.02525 |" in text
    assert "| queue | gpu_seconds | cpu_seconds | amount | wasted gpu_seconds | wasted amount |" in text
    assert "| BE | 100 | 50 | 0.02525 | 100 | 0.02525 |" in text
    assert "| job | queue | project | user | id | gpu_seconds | cpu_seconds | amount |" in text
    assert text.endswith("\nSum 7.36925, by rounding 0.00075, total 7.37 EUR\n")
    assert "no format 'pdf' of invoices" in billed("billing", "invoice", "--format", "pdf", code=2).err


def test_any_line_can_be_asked_for_the_events_behind_it(billed):
    records = exported(billed)
    assert len(records) == 2 * 3 + 2  # slices of `good` in three hours, one of `bad`, each of two meters
    events = {event["id"]: event for event in billed("history", "default/good", "--json").records}
    slices = [record for record in records if record["meter"] == "gpu_seconds" and record["queue"] == "LS"]
    assert [(one["start"][11:19], one["end"][11:19], one["quantity"]) for one in slices] == [
        ("07:33:30", "08:00:00", "3180"),
        ("08:00:00", "09:00:00", "7200"),
        ("09:00:00", "09:33:30", "4020"),
    ]
    for record in slices:
        assert events[record["events"][0]]["type"] == "lahar.attempt.running.v1"
    assert events[slices[-1]["events"][1]]["type"] == "lahar.attempt.ended.v1"
    told = billed("billing", "explain", slices[-1]["id"]).out
    assert "2010 s x 2 = 4020 GPU-Seconds" in told
    assert "x 0.0005 EUR = 2.01 EUR (price version first)" in told
    assert slices[-1]["events"][1] in told
    requested = next(line for line in told.splitlines() if "; it requests 2 GPUs, 2 cores, 0 bytes" in line)
    assert events[requested.split()[0]]["data"]["requests"]["gpu"] == 2


def test_a_record_is_recomputed_from_what_explain_shows(billed):
    """List price, factors in their order, requests and length: no number of the sum is missing."""
    for record in exported(billed):
        shown = billed("billing", "explain", record["id"], "--json").record
        length = (parse_time(record["end"]) - parse_time(record["start"])) // 1_000_000
        amount = length * Decimal(shown["size"]) * Decimal(shown["list_price"])
        for factor in shown["factors"].values():
            amount *= Decimal(factor)
        assert amount == Decimal(record["amount"])
    half = next(record for record in exported(billed) if record["queue"] == "BE" and record["meter"] == "gpu_seconds")
    told = billed("billing", "explain", half["id"]).out
    assert "x 0.0005 EUR x 0.5 (queue=BE) = 0.025 EUR (price version first)" in told


def test_the_record_list_has_the_export_lines_without_adjustments(lahar):
    """Byte for byte, whatever the names are made of."""
    Path("prices.yaml").write_text(BOOK)
    Path("small.csv").write_text(TRACE.replace("good", "g\u00f6\u00f6d\u202e"))
    lahar("apply", "prices.yaml", "--at", "2023-01-01T00:00:00Z")
    lahar("import-trace", "--format", "openb", "small.csv")
    exported_lines = lahar("billing", "export", "--format", "jsonl").out.splitlines()
    listed = lahar("billing", "records", "--json").out.splitlines()
    assert listed == exported_lines[: len(listed)]
    assert [json.loads(line)["record"] for line in exported_lines[len(listed) :]] == ["adjustment"]


@pytest.mark.parametrize("form", ["csv", "focus-1.2", "focus-1.4"])
def test_an_export_has_a_row_for_each_record_and_the_adjustment(billed, form):
    assert len(billed("billing", "export", "--format", form).out.splitlines()) == 1 + 2 * 3 + 2 + 1


def test_a_format_that_is_none_is_refused_with_those_that_are(billed):
    assert "there are csv, parquet, jsonl" in billed("billing", "export", "--format", "xml", code=2).err


def test_the_same_log_gives_the_same_bytes(billed):
    first = billed("billing", "export", "--format", "jsonl").out
    Path("export.jsonl").write_text(billed("export").out)
    billed("--log", "sqlite:other.db", "import", "export.jsonl")
    assert billed("--log", "sqlite:other.db", "billing", "export", "--format", "jsonl").out == first


def test_verify_finds_what_does_not_follow_from_the_job_events(billed):
    assert "verify: ok" in billed("billing", "verify").out
    lines = billed("export").out.splitlines()
    place = next(at for at, line in enumerate(lines) if '"lahar.usage.recorded.v1"' in line and '"5.19"' in line)
    forged = [*lines[:place], lines[place].replace('"5.19"', '"5.29"'), *lines[place + 1 :]]
    Path("forged.jsonl").write_text("\n".join(forged) + "\n")
    billed("--log", "sqlite:forged.db", "import", "forged.jsonl")
    done = billed("--log", "sqlite:forged.db", "billing", "verify", code=1)
    assert "= 5.29" in done.out
    assert "expected gpu_seconds 10380 x 0.0005 = 5.19" in done.out
    assert "1 difference(s)" in done.err


def test_without_a_price_book_quantities_are_exact_and_amounts_zero(lahar):
    Path("small.csv").write_text(TRACE)
    lahar("import-trace", "--format", "openb", "small.csv")
    invoice = lahar("billing", "invoice", "--json").record
    assert (invoice["sum"]["gpu_seconds"], invoice["amount"], invoice["currency"]) == ("14500", "0", None)
    assert {one["meter"]: one["quantity"] for one in invoice["unpriced"]} == {"gpu_seconds": "14500", "cpu_seconds": "14450"}
    assert "14500 GPU-Seconds on nodes of unknown type have no price" in lahar("billing", "invoice").err


def test_weight_charged_use_has_a_price_and_weighted_use_may_lack_one(lahar):
    Path("small.csv").write_text(TRACE)
    weights = """      prices: {weighted_seconds: {"*": "0.5"}}
      weights: {gpu_seconds: {"*": "2"}, cpu_seconds: {"*": "0"}}
"""
    Path("prices.yaml").write_text(BOOK.partition("      prices:")[0] + weights)
    lahar("import-trace", "--format", "openb", "small.csv")
    lahar("apply", "prices.yaml", "--at", "2023-05-26T00:00:00Z")
    assert lahar("billing", "invoice", "--json").record["amount"] == "14500"
    assert lahar("billing", "invoice").err == ""
    Path("prices.yaml").write_text(BOOK.partition("      prices:")[0] + weights.replace('"*": "0.5"', 'big: "0.5"'))
    for question in (("apply", "prices.yaml"), ("import-trace", "--format", "openb", "small.csv")):
        lahar("--log", "sqlite:other.db", *question)
    done = lahar("--log", "sqlite:other.db", "billing", "invoice")
    assert done.err == "warning: 2023-05 default: 29000 Weighted-Seconds on nodes of unknown type have no price\n"
    assert "29000 Weighted-Seconds on nodes of unknown type" in lahar("--log", "sqlite:other.db", "billing", "report").out


def test_use_without_a_price_is_on_the_invoice_in_every_format(lahar):
    Path("small.csv").write_text(TRACE)
    Path("prices.yaml").write_text(BOOK.replace('gpu_seconds: {"*"', 'gpu_seconds: {"big"'))
    lahar("apply", "prices.yaml", "--at", "2023-01-01T00:00:00Z")
    lahar("import-trace", "--format", "openb", "small.csv")
    invoice = lahar("billing", "invoice", "--json").record
    assert [line["unpriced"] for line in invoice["lines"]] == [{"gpu_seconds": "100"}, {"gpu_seconds": "14400"}]
    assert invoice["by_queue"]["LS"]["unpriced"] == {"gpu_seconds": "14400"}
    lines = list(csv.DictReader(lahar("billing", "invoice", "--format", "csv").out.splitlines()))
    assert [(line["unpriced_gpu_seconds"], line["unpriced_cpu_seconds"]) for line in lines] == [
        ("100", ""),
        ("14400", ""),
        ("", ""),
    ]
    text = lahar("billing", "invoice", "--format", "markdown").out
    assert "\n## Without a price\n" in text
    assert "\n| gpu\\_seconds | - | - | 14500 |\n" in text
    Path("prices.yaml").write_text(BOOK)
    lahar("--log", "sqlite:other.db", "apply", "prices.yaml", "--at", "2023-01-01T00:00:00Z")
    lahar("--log", "sqlite:other.db", "import-trace", "--format", "openb", "small.csv")
    assert "Without a price" not in lahar("--log", "sqlite:other.db", "billing", "invoice", "--format", "markdown").out


def test_a_book_that_comes_late_prices_what_had_no_price(lahar):
    Path("small.csv").write_text(TRACE)
    Path("prices.yaml").write_text(BOOK)
    lahar("import-trace", "--format", "openb", "small.csv")
    lahar("apply", "prices.yaml", "--at", "2023-05-26T00:00:00Z")
    invoice = lahar("billing", "invoice", "--json").record
    assert (invoice["amount"], invoice["unpriced"]) == ("7.36925", [])
    assert {record["revision"] for record in exported(lahar)} == {1}
    assert "verify: ok" in lahar("billing", "verify").out


def test_jobs_that_left_billing_without_a_price_are_named_with_the_remedy(lahar, monkeypatch):
    """Of three jobs that are forgotten 30 days after their end, two may stay; the book that comes then prices these."""
    monkeypatch.setattr(forgetting, "_UNPRICED", 2)
    more = "".join(
        f"{name},500,0,1,1000,,LS,Succeeded,{at},{at + 60},{at}\n" for name, at in (("x", 1685001000), ("y", 1690000000))
    )
    Path("small.csv").write_text(TRACE + more)
    Path("prices.yaml").write_text(BOOK)
    lahar("import-trace", "--format", "openb", "small.csv")
    remedy = "to price them, apply the book to a new log and import their history there"
    for books in (0, 1):
        if books:
            lahar("apply", "prices.yaml", "--at", "2023-08-01T00:00:00Z")
        told = [line for line in lahar("billing", "invoice").err.splitlines() if remedy in line]
        assert told == [
            f"warning: 2023-05 default: billing has forgotten 1 job without a price, because it kept too many; {remedy}"
        ]
    assert "2023-05 default: 100 GPU-Seconds on nodes of unknown type have no price" in lahar("billing", "invoice").err


def test_an_invoice_that_takes_back_use_without_a_price_warns_of_none(lahar):
    Path("small.csv").write_text(TRACE)
    Path("prices.yaml").write_text(BOOK)
    lahar("import-trace", "--format", "openb", "small.csv")
    lahar("billing", "close", "2023-05", "--at", "2023-06-02T00:00:00Z")
    lahar("apply", "prices.yaml", "--at", "2023-06-03T00:00:00Z")
    assert lahar("billing", "invoice", "--period", "2023-06", "--json").record["unpriced"][0]["quantity"] == "-14450"
    assert lahar("billing", "invoice", "--period", "2023-06").err == ""
    assert "14500 GPU-Seconds on nodes of unknown type have no price" in lahar("billing", "invoice", "--period", "2023-05").err


def test_a_book_of_today_bills_an_old_trace_as_a_book_of_then(billed):
    """The same records, and nothing was recorded up to today and withdrawn."""
    then = exported(billed)
    billed("apply", "prices.yaml", "--log", "sqlite:today.db")
    billed("import-trace", "--format", "openb", "small.csv", "--log", "sqlite:today.db")
    assert exported(billed, "--log", "sqlite:today.db") == then
    written = [event["type"] for event in billed("export", "--log", "sqlite:today.db").records if "usage" in event.get("type", "")]
    assert written == ["lahar.usage.recorded.v1"] * 2
    assert "verify: ok" in billed("billing", "verify", "--log", "sqlite:today.db").out


def test_a_closed_month_never_changes(billed):
    for period, told in (("2023-05", "ends at"), ("2023-13", "is not a month"), ("2023-04", "nothing is recorded")):
        assert told in billed("billing", "close", period, "--at", "2023-05-31T00:00:00Z", code=2).err
    billed("billing", "close", "2023-05", "--at", "2023-06-02T00:00:00Z")
    assert "was closed" in billed("billing", "close", "2023-05", "--at", "2023-06-03T00:00:00Z", code=2).err
    before = billed("billing", "export", "--format", "jsonl", "--period", "2023-05").out
    # A node of the attempt's becomes known only now: nothing here has one, so a later book is what changes the past of nobody.
    later = BOOK.replace("multipliers:", "preempted_free_seconds: 60\n      multipliers:")
    Path("prices.yaml").write_text(later)
    assert "has other rules, but was in force" in billed("apply", "prices.yaml", "--at", "2023-06-04T00:00:00Z", code=2).err
    assert billed("billing", "export", "--format", "jsonl", "--period", "2023-05").out == before
    assert billed("billing", "invoice", "--json").record["closed"] is True


def test_a_month_is_closed_once_billing_has_taken_it(billed):
    """Until then its file may change, and nothing says otherwise; from then on it does not."""
    seen = {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2023-06-01T12:20:00Z"}]}
    billed("ingest", "--recorded", given=pod(1, {**RUNNING, **seen}) + "\n")
    told = billed("billing", "close", "2023-05", "--no-process", "--at", "2023-06-01T13:00:00Z").out
    assert (
        told == "2023-05 will be closed once billing has taken this: 2023-05-01T00:00:00.000000Z to 2023-06-01T00:00:00.000000Z\n"
    )
    note = "2023-05 is closing: it may change until billing has taken this, in `lahar run` or a worker\n"
    invoice = billed("billing", "invoice")
    assert (invoice.out.splitlines()[1].split()[-1], invoice.err) == ("closing", note)
    assert billed("billing", "invoice", "--json").record["closed"] is False
    export = billed("billing", "export", "--period", "2023-05")
    assert (export.err, billed("billing", "export", "--period", "2023-04").err.count("closing")) == (note, 0)
    again = billed("billing", "close", "2023-05", "--no-process", code=2).err
    assert "the closing of 2023-05 was asked for at" in again
    assert "billing has still to take it" in again
    billed("run", "--once")
    final = billed("billing", "export", "--period", "2023-05")
    assert len(final.out) > len(export.out)
    assert final.err == ""
    assert billed("billing", "invoice").out.splitlines()[1].split()[-1] == "closed"
    assert "was closed" in billed("billing", "close", "2023-05", code=2).err


def test_a_month_that_is_closed_where_billing_is_off_waits_for_billing(billed):
    done = billed("billing", "close", "2023-05", "--json", LAHAR_BILLING="0")
    assert done.record["closed"] is False
    assert "the billing stage is off here" in done.err
    billed("run", "--once")
    assert billed("billing", "invoice", "--json").record["closed"] is True


def test_a_month_with_events_that_billing_has_not_read_is_not_closed(lahar):
    """The closing would be taken first, and the attempt, which ended after half an hour, charged up to the closing."""
    ended = {"terminated": {"exitCode": 0, "startedAt": "2023-05-25T07:00:00Z", "finishedAt": "2023-05-25T07:30:00Z"}}
    done = {"phase": "Succeeded", "containerStatuses": [{"name": "c", "state": ended}]}
    lahar("ingest", "--recorded", given=pod(1, RUNNING) + "\n")
    lahar("ingest", "--recorded", given=pod(2, done) + "\n", LAHAR_BILLING="0")
    close = ("billing", "close", "2023-05", "--at", "2023-06-01T01:00:00Z")
    told = "billing has still to read job events of before the end of 2023-05: `lahar run --once`, or wait for a worker"
    assert lahar(*close, "--no-process", code=2).err == f"lahar: {told}\n"
    lahar("run", "--once")
    assert "2023-05 is closed" in lahar(*close).out
    assert lahar("billing", "invoice", "--json").record["sum"]["gpu_seconds"] == "1800"


def test_job_events_of_later_months_may_wait_when_a_month_is_closed(billed):
    in_june = pod(1, RUNNING).replace("2023-05-25", "2023-06-01")
    billed("ingest", "--recorded", given=in_june + "\n", LAHAR_BILLING="0")
    told = billed("billing", "close", "2023-05", "--no-process", "--at", "2023-06-02T00:00:00Z").out
    assert told.startswith("2023-05 will be closed")


def test_a_month_that_has_not_ended_is_not_closed_from_the_future(lahar):
    """The log records no time in the future, and billing would not take such a closing."""
    Path("small.csv").write_text(TRACE.replace("16850", "41024"))  # January 2100
    lahar("import-trace", "--format", "openb", "small.csv")
    told = "2100-01 ends at 2100-02-01T00:00:00.000000Z; close it then"
    assert told + ", as no time in the future" in lahar("billing", "close", "2100-01", "--at", "2100-02-02T00:00:00Z", code=2).err
    assert lahar("billing", "close", "2100-01", code=2).err == f"lahar: {told}\n"


@pytest.mark.parametrize("period", ["2023-5", "bogus", "2023-99", "0000-01", "2023-05-01"])
@pytest.mark.parametrize("question", ["invoice", "records", "export", "budgets", "report"])
def test_a_period_that_is_no_month_is_refused(billed, question, period):
    done = billed("billing", question, "--period", period, code=2)
    assert done.out == ""
    assert done.err.splitlines()[-1] == f"lahar: {period!r} is not a month: write YYYY-MM, as 2026-10"


@pytest.mark.parametrize("question", ["invoice", "records", "export", "report"])
def test_a_tenant_or_a_month_of_which_nothing_is_recorded_is_said(billed, question):
    """On standard error; the answer is as empty as it was, and its form the same."""
    remedy = "; `lahar billing invoice` shows all tenants and months\n"
    cases = {("--tenant", "nobody"): " of tenant 'nobody'", ("--period", "2031-01"): " in '2031-01'"}
    for options, said in cases.items():
        for form in ((), ("--json",)):
            done = billed("billing", question, *options, *form)
            assert done.err == f"nothing is recorded{said}{remedy}"
            assert "nothing is recorded" not in done.out
    assert billed("billing", question, "--period", "2023-05").err == ""


def test_a_tenant_with_only_records_of_kind_other_has_none_on_its_invoice(lahar):
    ended = {"terminated": {"exitCode": 0, "startedAt": "2023-05-25T07:00:00Z", "finishedAt": "2023-05-25T08:00:00Z"}}
    alone = json.loads(pod(1, {"phase": "Succeeded", "containerStatuses": [{"name": "c", "state": ended}]}))
    del alone["metadata"]["ownerReferences"]
    lahar("ingest", "--recorded", given=f"{json.dumps(alone)}\n")
    said = "nothing is recorded of tenant 'default' but jobs of kind Other (--all); `lahar billing invoice` shows"
    assert lahar("billing", "invoice", "--tenant", "default").err.startswith(said)
    assert lahar("billing", "invoice", "--tenant", "default", "--all").err.startswith("warning")
    for question in ("invoice", "records", "export", "report"):
        assert lahar("billing", question).err == "nothing is recorded but jobs of kind Other (--all)\n"


@pytest.mark.parametrize("question", ["invoice", "records", "export", "report"])
def test_a_log_of_which_nothing_is_recorded_yet_is_said_to_have_nothing(lahar, question):
    lahar("ingest", "--recorded", given=pod(1, RUNNING) + "\n")
    said = "nothing is recorded; `lahar billing quote` shows use since the last hour mark\n"
    assert lahar("billing", question).err == said


def test_where_no_invoice_has_anything_the_quote_is_named_instead(lahar):
    lahar("ingest", "--recorded", given=pod(1, RUNNING) + "\n")
    (job,) = {event["subject"] for event in lahar("history", "default/j", "--json").records}
    for given in ("default/j", job):
        said = (
            f"nothing is recorded of tenant 'default' of job {given!r}; `lahar billing quote` shows use since the last hour mark\n"
        )
        assert lahar("billing", "records", "--tenant", "default", "--job", given).err == said


def test_a_budget_that_nobody_gave_is_said_to_be_none(billed):
    said = "no budget of tenant 'nobody' in '2023-05'; `lahar billing budgets` shows all\n"
    assert billed("billing", "budgets", "--tenant", "nobody", "--period", "2023-05").err == said
    assert billed("billing", "budgets").err == "no budget; `lahar apply` a Tenant with `spec.budget` to set one\n"


def test_an_export_by_nobody_is_refused_with_the_remedy(billed):
    done = billed("billing", "export", "--issuer", "", "--tenant", "nobody", code=2)
    assert done.err == "lahar: the issuer is empty; name who writes the invoices (--issuer NAME)\n"
    assert done.out == ""


def test_a_log_without_prices_is_told_from_a_book_of_a_name(lahar):
    lahar("ingest", "--recorded", given=pod(1, RUNNING) + "\n")
    err = lahar("prices", "show", code=3).err
    assert err.startswith("lahar: no price book: sqlite:")
    assert err.endswith(" has none; give one with `lahar apply FILE`\n")


POD: dict[str, Any] = {
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "default", "uid": "uid-1", "creationTimestamp": "2023-05-25T07:00:00Z"},
    "spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}}}]},
}
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "job-1", "controller": True}


def pod(version, status):
    metadata = {**POD["metadata"], "resourceVersion": str(version), "ownerReferences": [OWNER]}
    return json.dumps({**POD, "metadata": metadata, "status": {"startTime": "2023-05-25T07:00:00Z", **status}})


RUNNING = {"phase": "Running", "containerStatuses": [{"name": "c", "state": {"running": {"startedAt": "2023-05-25T07:00:00Z"}}}]}


def test_what_is_learnt_after_a_month_was_closed_corrects_a_later_one(lahar):
    """The node's type comes late: the old month keeps its bytes, the next one has the reversal and the replacement."""
    ended = {"terminated": {"exitCode": 0, "startedAt": "2023-05-25T07:00:00Z", "finishedAt": "2023-05-25T07:30:00Z"}}
    done = {"phase": "Succeeded", "containerStatuses": [{"name": "c", "state": ended}]}
    Path("prices.yaml").write_text(BOOK.replace('{"*": "0.0005"}', '{"*": "0.0005", A100: "0.001"}'))
    lahar("apply", "prices.yaml", "--at", "2023-01-01T00:00:00Z")
    lahar("ingest", "--recorded", given=pod(1, RUNNING) + "\n" + pod(2, done) + "\n")
    first = lahar("billing", "invoice", "--json").record
    lahar("billing", "close", "2023-05", "--at", "2023-06-02T00:00:00Z")
    before = lahar("billing", "export", "--format", "jsonl", "--period", "2023-05").out
    node = {"kind": "Node", "metadata": {"name": "n1", "labels": {"nvidia.com/gpu.product": "A100"}}, "status": {}}
    Path("node.json").write_text(json.dumps(node))
    lahar("apply", "node.json", "--at", "2023-06-03T00:00:00Z")
    assert lahar("billing", "export", "--format", "jsonl", "--period", "2023-05").out == before
    later = exported(lahar, "--period", "2023-06")
    assert {record["record"] for record in later} == {"reversal", "usage"}
    originals = {record["id"]: record for record in map(json.loads, before.splitlines())}
    for record in later:
        assert record["start"] >= "2023-05-25"
        assert record["end"] <= "2023-05-26"
        if record["record"] == "reversal":
            original = originals[record["reverses"]]
            assert Decimal(record["amount"]) + Decimal(original["amount"]) == 0
            assert Decimal(record["quantity"]) + Decimal(original["quantity"]) == 0
    both = lahar("billing", "invoice", "--json").records
    assert both[0]["amount"] == first["amount"]
    assert sum(Decimal(one["amount"]) for one in both) == 1800 * (Decimal("0.001") + Decimal("0.00001"))
    must_show_the_corrected_month(lahar, both)
    assert "verify: ok" in lahar("billing", "verify").out


def must_show_the_corrected_month(lahar, invoices):
    """A line that corrects a closed month is one of its own, and names the month; the others name none."""
    assert [[line["month"] for line in one["lines"]] for one in invoices] == [[None], ["2023-05"]]
    rows = [row.split() for row in lahar("billing", "invoice", "--tenant", invoices[0]["tenant"]).out.splitlines()]
    assert [row[4] for row in rows if row[:1] == ["QUEUE"]] == ["GPU_SECONDS", "CORRECTS"]
    assert [row[4] for row in rows if row[:1] == [invoices[1]["lines"][0]["queue"]]] == ["1800", "2023-05"]
    table = list(csv.DictReader(io.StringIO(lahar("billing", "invoice", "--format", "csv").out)))
    assert [row["month"] for row in table if row["line"] == "job"] == ["", "2023-05"]
    assert "| corrected month |" in lahar("billing", "invoice", "--period", "2023-06", "--format", "markdown").out
    assert "corrected month" not in lahar("billing", "invoice", "--period", "2023-05", "--format", "markdown").out


def test_a_month_known_only_from_a_running_attempt_is_recorded_and_closed(lahar):
    """Nothing came for eight months, so no hour mark has fired yet."""
    Path("prices.yaml").write_text(BOOK)
    lahar("apply", "prices.yaml", "--at", "2023-01-01T00:00:00Z")
    lahar("ingest", "--recorded", given=pod(1, RUNNING) + "\n")
    assert "nothing is recorded of 2023-04" in lahar("billing", "close", "2023-04", "--at", "2024-01-25T00:00:00Z", code=2).err
    assert "2023-05 is closed" in lahar("billing", "close", "2023-05", "--at", "2024-01-25T00:00:00Z").out
    invoice = lahar("billing", "invoice", "--period", "2023-05", "--json").record
    assert (invoice["closed"], invoice["sum"]["gpu_seconds"]) == (True, str((6 * 24 + 17) * 3600))
    assert "verify: ok" in lahar("billing", "verify").out


def test_a_month_with_imported_use_is_closed_after_the_next_hour_mark(lahar):
    """What is seen at 12:20 of a pod that runs since May may be followed by its end: it waits until 13:00."""
    seen = {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2023-06-01T12:20:00Z"}]}
    lahar("ingest", "--recorded", given=pod(1, {**RUNNING, **seen}) + "\n")
    told = lahar("billing", "close", "2023-05", "--at", "2023-06-01T12:59:59Z", code=2).err
    assert "what open attempts used in 2023-05 is recorded at 2023-06-01T13:00:00.000000Z; close it then" in told
    assert "2023-05 is closed" in lahar("billing", "close", "2023-05", "--at", "2023-06-01T13:00:00Z").out
    assert lahar("billing", "invoice", "--period", "2023-05", "--json").record["sum"]["gpu_seconds"] == str((6 * 24 + 17) * 3600)


def test_a_month_with_unrecorded_open_attempts_is_not_closed(billed):
    billed("ingest", given=pod(1, RUNNING) + "\n")
    told = billed("billing", "close", "2023-05", "--at", "2023-06-02T00:00:00Z", code=2).err
    assert "what open attempts used in 2023-05 is recorded at" in told


def test_open_time_is_quoted(lahar):
    Path("prices.yaml").write_text(BOOK)
    lahar("apply", "prices.yaml", "--at", "2023-01-01T00:00:00Z")
    lahar("ingest", "--recorded", given=pod(1, RUNNING) + "\n")
    quoted = lahar("billing", "quote", "--until", "2023-05-25T09:30:00Z", "--json").record
    assert quoted["sum"]["gpu_seconds"] == "9000"
    assert lahar("billing", "records", "--json").records == []
    said = "no running attempt has used anything up to 2023-05-01T00:00:00.000000Z that is not recorded yet\n"
    assert lahar("billing", "quote", "--until", "2023-05-01").err == said


def test_a_quote_counts_the_jobs_of_the_invoice_and_has_no_id(lahar):
    """A single pod, of kind Other, is on neither unless --all says so; a part of an invoice does not bear the invoice's id."""
    alone = json.loads(pod(1, RUNNING))
    del alone["metadata"]["ownerReferences"]
    alone["metadata"] |= {"name": "alone", "uid": "uid-2"}
    lahar("ingest", "--recorded", given=f"{pod(1, RUNNING)}\n{json.dumps(alone)}\n")
    for options, gpu in (((), "1800"), (("--all",), "3600")):
        quoted = lahar("billing", "quote", "--until", "2023-05-25T07:30:00Z", *options, "--json").record
        assert (quoted["sum"]["gpu_seconds"], len(quoted["lines"])) == (gpu, int(gpu) // 1800)
        assert "invoice" not in quoted


def test_a_quote_that_is_empty_says_so_if_jobs_of_kind_other_run(lahar):
    alone = json.loads(pod(1, RUNNING))
    del alone["metadata"]["ownerReferences"]
    lahar("ingest", "--recorded", given=f"{json.dumps(alone)}\n")
    for until, hidden in (("2023-05-25T07:30:00", " but jobs of kind Other (--all)"), ("2023-05-01T00:00:00", "")):
        said = f"no running attempt has used anything up to {until}.000000Z that is not recorded yet{hidden}\n"
        assert lahar("billing", "quote", "--until", f"{until}Z").err == said


def test_a_quote_warns_of_what_has_no_price(lahar):
    """As the invoice does that it adds to."""
    Path("prices.yaml").write_text(BOOK.replace('cpu_seconds: {"*": "0.00001"}', 'cpu_seconds: {big: "0.00001"}'))
    lahar("apply", "prices.yaml", "--at", "2023-01-01T00:00:00Z")
    lahar("ingest", "--recorded", given=pod(1, RUNNING) + "\n")
    quoted = lahar("billing", "quote", "--until", "2023-05-25T07:30:00Z").err
    assert quoted == "warning: 2023-05 default: 1800 vCPU-Seconds on nodes of unknown type have no price\n"


@pytest.mark.parametrize("options", [(), ("--json",), ("--tenant", "default")])
def test_a_quote_names_what_cannot_be_charged(lahar, options):
    """Nothing to pay is another answer."""
    lahar("ingest", "--recorded", given=pod(1, RUNNING) + "\n")
    job = lahar("job", "list", "--json").record["id"]
    err = lahar("billing", "quote", "--until", "2040-01-01T00:00:00Z", *options).err
    told = "it began at 2023-05-25T07:00:00.000000Z and has not ended yet; more than ten years are not charged"
    assert f"{job} main[0] attempt 1: cannot be charged: {told}; give an earlier --until, or report its end (`lahar ingest`)" in err
    noted = lahar("billing", "quote", "--until", "2040-01-01T00:00:00Z", "--tenant", "other").err
    assert (
        noted
        == "no running attempt of tenant 'other' has used anything up to 2040-01-01T00:00:00.000000Z that is not recorded yet\n"
    )


def test_an_invoice_names_what_could_not_be_charged_until_it_is(lahar):
    def done(version, end):
        ended = {"terminated": {"exitCode": 0, "startedAt": "2023-05-25T07:00:00Z", "finishedAt": end}}
        return pod(version, {"phase": "Succeeded", "containerStatuses": [{"name": "c", "state": ended}]})

    lahar("ingest", "--recorded", given=pod(1, RUNNING) + "\n" + done(2, "2039-05-25T07:30:00Z") + "\n")
    job = lahar("job", "list", "--json").record["id"]
    told = "cannot be charged: it began at 2023-05-25T07:00:00.000000Z and ended at 2039-05-25T07:30:00.000000Z"
    for options in ((), ("--json",), ("--tenant", "default")):
        assert f"warning: {job} main[0] attempt 1: {told}" in lahar("billing", "invoice", *options).err
    assert "charged" not in lahar("billing", "invoice", "--tenant", "other").err
    lahar("ingest", "--recorded", given=done(3, "2023-05-25T07:30:00Z") + "\n")
    invoiced = lahar("billing", "invoice", "--json")
    assert (invoiced.err, invoiced.record["sum"]["gpu_seconds"]) == ("", "1800")


BAD = [
    ('"0.0005"', "0.0005", "spec.versions[0].prices.gpu_seconds.*: 0.0005 is a binary number"),
    ('"0.0005"', '"-1"', "spec.versions[0].prices.gpu_seconds.*: -1 must not be below zero"),
    ('"0.0005"', '"Infinity"', "spec.versions[0].prices.gpu_seconds.*: Infinity is no finite number"),
    ('"0.0005"', '"nan"', "spec.versions[0].prices.gpu_seconds.*: nan is no finite number"),
    ("gpu_seconds", "gpu_hours", "spec.versions[0].prices.gpu_hours: "),
    ("  currency: EUR\n", "", "spec.currency: "),
    ('"0.0005"', '"1_000"', "spec.versions[0].prices.gpu_seconds.*: '1_000' is not written as plain digits; write 1000"),
    ('"0.0005"', '"\u0663"', "spec.versions[0].prices.gpu_seconds.*: '\u0663' is not written as plain digits; write 3"),
    ('"0.0005"', '" 5 "', "spec.versions[0].prices.gpu_seconds.*: ' 5 ' is not written as plain digits; write 5"),
    ('"0.0005"', '"-0"', "spec.versions[0].prices.gpu_seconds.*: '-0' is not written as plain digits; write 0"),
    (
        "    - version: first\n",
        '    - version: first\n      minimum_seconds: "1_0"\n',
        "spec.versions[0].minimum_seconds: '1_0' is not written as plain digits; write 10",
    ),
    ('"0.0005"', "010", "spec.versions[0].prices.gpu_seconds.*: is read by YAML as 8; write its digits in quotes"),
    ('"0.0005"', "1:30", "spec.versions[0].prices.gpu_seconds.*: is read by YAML as 90"),
    ('"0.5"', "0x10", "spec.versions[0].multipliers[0].factor: is read by YAML as 16"),
    (
        "    - version: first\n",
        "    - version: first\n      minimum_seconds: 1_0\n",
        "spec.versions[0].minimum_seconds: is read by YAML as 10",
    ),
    ('from: "2023-01-01"', "from: 2027", "spec.versions[0].from: must be a time such as '2026-01-01' or"),
    ('from: "2023-01-01"', "from: 20260101", "spec.versions[0].from: must be a time such as '2026-01-01' or"),
    (
        'from: "2023-01-01"',
        'from: "2023-01-01"\n      until: 2_099',
        "spec.versions[0].until: must be a time such as '2026-01-01' or",
    ),
    ("EUR", "EURO", "currency: 'EURO' is no code of ISO 4217"),
    ('from: "2023-01-01"', 'from: "soon"', "spec.versions[0].from: "),
    (
        "    - version: first\n",
        '    - {version: zero, from: "2022-01-01", until: "2023-02-01"}\n    - version: first\n',
        "versions: 'zero' and 'first' overlap at 2023-01-01T00:00:00.000000Z",
    ),
    ("{queue: BE, factor", "{queue: BE, tenant: t, factor", "exactly one of queue, tenant, priority_class, preemptible"),
    ('"0.0005"', '"1e999999999"', "spec.versions[0].prices.gpu_seconds.*: 1e999999999 has more than 30 digits"),
    (
        "    - version: first\n",
        '    - version: first\n      minimum_seconds: "99e9"\n',
        "spec.versions[0].minimum_seconds: 99e9 s are more than ten years",
    ),
    ("  currency: EUR\n", "  currency: EUR\n  time_zone: localtime\n", "time_zone: 'localtime' is no name of the IANA database"),
]


@pytest.mark.parametrize(("old", "new", "told"), BAD, ids=[told.rpartition(": ")[2][:40] or told for *_, told in BAD])
def test_a_price_book_that_is_wrong_is_refused_with_its_path(lahar, old, new, told):
    assert old in BOOK
    Path("prices.yaml").write_text(BOOK.replace(old, new))
    for command in (("prices", "check"), ("apply",)):
        done = lahar(*command, "prices.yaml", code=2)
        assert told in done.err
        assert "prices.yaml" in done.err
        assert done.err.count("spec") == 1, done.err  # nothing is told that follows from the fault
    assert not Path("lahar.db").exists()


def test_prices_are_checked_shown_and_compared(billed):
    assert "1 version(s), EUR" in billed("prices", "check", "prices.yaml").out
    assert billed("prices", "show").record["currency"] == "EUR"
    assert "nothing changes" in billed("prices", "diff", "prices.yaml").out
    node = {"kind": "Node", "metadata": {"name": "n", "labels": {"node.kubernetes.io/instance-type": "big"}}, "status": {}}
    Path("node.json").write_text(json.dumps(node))
    billed("apply", "node.json", "--log", "sqlite:other.db")
    Path("prices.yaml").write_text(BOOK.replace('"*": "0.0005"', 'small: "0.0005"'))
    done = billed("prices", "check", "prices.yaml", "--log", "sqlite:other.db", code=2)
    assert "prices.gpu_seconds: has no price for big" in done.err
    assert "has other rules, but was in force" in billed("prices", "check", "prices.yaml", code=2).err
    assert "small" in billed("prices", "diff", "prices.yaml", code=1).out
    later = '    - {version: later, from: "2999-01-01", prices: {gpu_seconds: {small: "1"}}}\n'
    Path("prices.yaml").write_text(BOOK + later)
    done = billed("prices", "check", "prices.yaml", "--log", "sqlite:other.db", code=2)
    assert "spec.versions (later).prices.gpu_seconds: has no price for big" in done.err


def test_apply_warns_of_kinds_of_nodes_that_a_book_leaves_without_a_price(lahar):
    """Of those applied with it, too; use without a price is allowed, so the book is taken unless warnings are errors."""
    node = {"kind": "Node", "metadata": {"name": "n", "labels": {"node.kubernetes.io/instance-type": "big"}}, "status": {}}
    Path("node.json").write_text(json.dumps(node))
    Path("prices.yaml").write_text(BOOK.replace('"*": "0.0005"', 'small: "0.0005"').replace("2023", "2999"))
    told = "prices.yaml: line 6, column 3: spec.versions (first).prices.gpu_seconds: has no price for big"
    assert told in lahar("apply", "prices.yaml", "node.json", "--strict", code=2).err
    done = lahar("apply", "prices.yaml", "node.json")
    assert f"warning: {told}" in done.err
    assert "PriceBook prices: created" in done.out
    assert lahar("apply", "prices.yaml").err == ""


def test_nodes_without_gpus_need_no_price_of_gpus(lahar):
    """Nothing there can use any; a node whose capacity is not known may have some."""
    capacity = {"cpu": "64", "memory": "256Gi"}
    sizes = {"small": capacity, "big": capacity | {"nvidia.com/gpu": "8"}, "odd": {}}
    for kind, size in sizes.items():
        labels = {"node.kubernetes.io/instance-type": kind}
        node = {"kind": "Node", "metadata": {"name": kind, "labels": labels}, "status": {"capacity": size}}
        Path(f"{kind}.json").write_text(json.dumps(node))
    lahar("apply", "small.json")
    Path("prices.yaml").write_text(BOOK.replace('"*": "0.0005"', 'V100: "0.0005"'))
    lahar("prices", "check", "prices.yaml")
    lahar("apply", "big.json", "odd.json")
    told = [line.rpartition(": ")[2] for line in lahar("prices", "check", "prices.yaml", code=2).err.splitlines()]
    assert told == ["has no price for big", "has no price for odd"]
    Path("prices.yaml").write_text(
        BOOK.replace('"*": "0.0005"', 'V100: "1", big: "1", odd: "1"').replace('{"*": "0.00001"}', '{big: "1"}')
    )
    told = [line.rpartition(".")[2] for line in lahar("prices", "check", "prices.yaml", code=2).err.splitlines()]
    assert told == ["cpu_seconds: has no price for odd", "cpu_seconds: has no price for small"]


def test_what_lacks_a_price_is_named_as_the_price_book_would_name_it(lahar):
    """A price of CPU under the name of a GPU model would never be used."""
    for name, kind, model in (("n1", "g5", "A10G"), ("n2", "g5", "L4"), ("n3", "", "T4")):
        labels = {"nvidia.com/gpu.product": model} | ({"node.kubernetes.io/instance-type": kind} if kind else {})
        node = {"kind": "Node", "metadata": {"name": name, "labels": labels}, "status": {"capacity": {"nvidia.com/gpu": "4"}}}
        Path(f"{name}.json").write_text(json.dumps(node))
    lahar("apply", "n1.json", "n2.json", "n3.json")
    Path("prices.yaml").write_text(BOOK.replace('"*"', "small"))
    told = [line.rpartition("prices.")[2] for line in lahar("prices", "check", "prices.yaml", code=2).err.splitlines()]
    gpus = [f"gpu_seconds: has no price for {model}" for model in ("A10G", "L4", "T4")]
    assert told == [*gpus, "cpu_seconds: has no price for g5", "cpu_seconds: has no price for nodes of unknown type"]
    lahar("apply", "prices.yaml", "--at", "2023-01-01T00:00:00Z")
    for node in ("n1", "n2"):
        running = json.loads(pod(1, RUNNING))
        running["metadata"] |= {"name": f"on-{node}", "uid": f"uid-{node}"}
        running["spec"]["nodeName"] = node
        lahar("ingest", "--recorded", given=f"{json.dumps(running)}\n")
    quoted = lahar("billing", "quote", "--until", "2023-05-25T07:30:00Z").err
    assert quoted == (
        "warning: 2023-05 default: 3600 vCPU-Seconds on g5 have no price\n"
        "warning: 2023-05 default: 1800 GPU-Seconds on A10G have no price\n"
        "warning: 2023-05 default: 1800 GPU-Seconds on L4 have no price\n"
    )


def test_meters_that_a_version_does_not_price_are_told(lahar):
    """They may be meant, so it is no error; what is charged by weight has a price."""
    Path("prices.yaml").write_text(BOOK)
    told = "spec.versions (first).prices: has no memory_byte_seconds: such use is recorded with the amount 0 and listed as unpriced"
    assert told in lahar("prices", "check", "prices.yaml").err
    weighed = 'weighted_seconds: {"*": "1"}\n      weights: {gpu_seconds: {"*": "1"}, cpu_seconds: {"*": "1"}}\n'
    cpu = '        cpu_seconds: {"*": "0.00001"}\n'
    Path("prices.yaml").write_text(BOOK.replace('gpu_seconds: {"*": "0.0005"}\n', weighed).replace(cpu, ""))
    assert told in lahar("prices", "check", "prices.yaml").err
    Path("prices.yaml").write_text(BOOK.replace(cpu, '        memory_byte_seconds: {"*": "1e-15"}\n' + cpu))
    assert "unpriced" not in lahar("prices", "check", "prices.yaml").err


@pytest.mark.parametrize("question", ["check", "diff"])
@pytest.mark.parametrize("content", [b"kind: [PriceBook\n", b"kind: PriceBook\nspec: {a: .inf}\n", b"kind: \xff\n"])
def test_a_price_book_that_cannot_be_read_is_bad_input(billed, question, content):
    Path("prices.yaml").write_bytes(content)
    told = billed("prices", question, "prices.yaml", code=2).err
    assert "prices.yaml: line " in told
    assert "nothing is applied" not in told
    assert told.count("\n") == 1


def test_changes_of_a_price_book_are_shown_by_version_and_field(billed):
    second = """\
    - version: second
      from: "2024-01-01"
      prices: {gpu_seconds: {"*": "0.0006"}}
      bill_terminating: false
      multipliers: [{preemptible: true, factor: "0.4"}]
"""
    changed = BOOK.replace('"2023-01-01"', '"2023-01-01"\n      until: "2023-12-01"')
    changed = changed.replace('- {queue: BE, factor: "0.5"}', '- {queue: BE, factor: "0.7"}\n        - {tenant: t, factor: "0.9"}')
    Path("prices.yaml").write_text(changed + second)
    told = billed("prices", "diff", "prices.yaml", code=1).out.splitlines()
    assert sorted(told) == [
        "versions.first.multipliers.1: queue=BE x 0.5 -> queue=BE x 0.7",
        "versions.first.multipliers.2: not set -> tenant=t x 0.9",
        "versions.first.until: not set -> 2023-12-01",
        "versions.second.bill_terminating: not set -> false",
        "versions.second.from: not set -> 2024-01-01",
        "versions.second.multipliers.1: not set -> preemptible=true x 0.4",
        "versions.second.prices.gpu_seconds.*: not set -> 0.0006",
    ]
    shown = billed("prices", "diff", "prices.yaml", "--json", code=1).records
    assert {"path": "versions.second.bill_terminating", "before": None, "after": False} in shown
    assert len(shown) == len(told)
    Path("prices.yaml").write_text(BOOK.replace("version: first", "version: other"))
    told = billed("prices", "diff", "prices.yaml", code=1).out.splitlines()
    assert "versions.first.prices.cpu_seconds.*: 0.00001 -> not set" in told
    assert "versions.other.prices.cpu_seconds.*: not set -> 0.00001" in told


def test_another_writing_of_a_book_changes_nothing(billed):
    written = (
        BOOK.replace('"0.0005"', '"5.0e-4"')
        .replace('factor: "0.5"', 'factor: "0.50"')
        .replace("2023-01-01", "2023-01-01T00:00:00Z")
    )
    defaults = """\
      bill_queued: false
      bill_terminating: true
      round: up
      minimum_seconds: "0.0"
      increment_seconds: "1e-6"
      weights: {}
"""
    Path("prices.yaml").write_text(written.replace("  currency: EUR\n", "  currency: EUR\n  time_zone: UTC\n") + defaults)
    assert billed("prices", "diff", "prices.yaml").out == "nothing changes\n"
    assert billed("prices", "diff", "prices.yaml", "--json").out == ""
    assert billed("apply", "prices.yaml").out == "PriceBook prices: unchanged\n"
    Path("prices.yaml").write_text(BOOK)
    assert billed("prices", "diff", "prices.yaml").out == "nothing changes\n"
    Path("prices.yaml").write_text(written + defaults.replace('"0.0"', '"60"').replace("up", "half_even"))
    told = ["versions.first.minimum_seconds: not set -> 60", "versions.first.round: not set -> half_even"]
    assert sorted(billed("prices", "diff", "prices.yaml", code=1).out.splitlines()) == told


def test_a_price_book_can_be_checked_where_there_is_no_log(lahar):
    Path("prices.yaml").write_text(BOOK)
    done = lahar("prices", "check", "prices.yaml")
    assert "1 version(s), EUR" in done.out
    assert "only the file itself was checked" in done.err
    lahar("ingest", given="")
    assert "give one with `lahar apply FILE`" in lahar("prices", "show", code=3).err
