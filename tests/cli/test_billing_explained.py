"""`lahar billing explain`: any line of a bill is recomputed by hand from what it shows."""

from __future__ import annotations

import csv
import json
from decimal import ROUND_CEILING, Decimal
from hashlib import blake2b
from pathlib import Path

import pytest

from engine.billing.event_factory import EventFactory
from engine.billing.invoice import invoice_id
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
        gpu_seconds: {"*": "0.0005", A100: "0.001"}
        weighted_seconds: {"*": "0.0001"}
      weights:
        gpu_seconds: {"*": "10"}
        cpu_seconds: {"*": "0.75"}
      multipliers:
        - {queue: default, factor: "0.5"}
      increment_seconds: "60"
      minimum_seconds: "300"
"""
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "job-1", "controller": True}


def pod(name: str, began: str, ended: str, owner: dict[str, object] | None = OWNER) -> str:
    """A pod that has run, as a line of a watch."""
    state = {"terminated": {"exitCode": 0, "startedAt": began, "finishedAt": ended}}
    resources = {"requests": {"cpu": "2", "nvidia.com/gpu": "1"}}
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": "1", "creationTimestamp": began}
    return json.dumps(
        {
            "kind": "Pod",
            "metadata": metadata | ({} if owner is None else {"ownerReferences": [owner]}),
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": resources}]},
            "status": {"phase": "Succeeded", "startTime": began, "containerStatuses": [{"name": "c", "state": state}]},
        }
    )


LONG = pod("long", "2023-05-25T11:59:00Z", "2023-05-25T13:10:11Z")
SHORT = pod("short", "2023-05-25T12:00:00Z", "2023-05-25T12:00:07Z")


@pytest.fixture
def billed(lahar, folder):
    """A pod of 4,271 s and one of 7 s, charged in whole minutes, at least five."""
    Path("prices.yaml").write_text(BOOK)
    lahar("apply", "prices.yaml", "--at", "2023-01-01T00:00:00Z")
    lahar("ingest", "--recorded", given=f"{LONG}\n{SHORT}\n")
    return lahar


def exported(lahar, *options):
    return list(map(json.loads, lahar("billing", "export", *options).out.splitlines()))


def only(found, **fields):
    (one,) = (record for record in found if all(record[name] == value for name, value in fields.items()))
    return one


def length(part):
    return (parse_time(part["end"]) - parse_time(part["start"])) // 1_000_000


def by_hand(shown):
    """Quantity and amount of a record, from nothing but the numbers that explain it."""
    size = Decimal(shown["size"])
    if shown["weights"] is not None:
        assert size == sum(Decimal(one["size"]) * Decimal(one["weight"]) for one in shown["weights"].values())
    seconds = Decimal(length(shown))
    if (excess := shown["excess"]) is not None:
        used = Decimal(sum(map(length, excess["used"])))
        minutes = (used / Decimal(excess["increment_seconds"])).to_integral_value(ROUND_CEILING)
        charged = max(minutes * Decimal(excess["increment_seconds"]), Decimal(excess["minimum_seconds"]))
        assert (str(used), excess["round"], str(charged)) == (excess["used_seconds"], "up", excess["charged_seconds"])
        seconds = charged - used
    if shown["record"] == "reversal":
        seconds = -seconds
    amount = seconds * size * Decimal(shown["list_price"] or 0)
    for factor in shown["factors"].values():
        amount *= Decimal(factor)
    assert Decimal(shown["seconds"]) == seconds
    return seconds * size, amount


def must_be_recomputed(lahar, records):
    for record in records:
        shown = lahar("billing", "explain", record["id"], "--json").record
        assert shown.items() >= record.items()
        assert by_hand(shown) == (Decimal(record["quantity"]), Decimal(record["amount"]))


def test_every_record_is_recomputed_from_what_explain_shows(billed):
    records = [one for one in exported(billed) if one["record"] != "adjustment"]
    assert {one["record"] for one in records} == {"usage", "excess"}
    assert {one["meter"] for one in records} == {"gpu_seconds", "cpu_seconds", "weighted_seconds"}
    must_be_recomputed(billed, records)


def test_an_id_is_a_digest_of_what_the_page_says(billed):
    """docs/billing-exports.md, of records before and after the month was closed."""
    billed("billing", "close", "2023-05", "--at", "2023-06-02T00:00:00Z")
    node = {"kind": "Node", "metadata": {"name": "n1", "labels": {"nvidia.com/gpu.product": "A100"}}, "status": {}}
    Path("node.json").write_text(json.dumps(node))
    billed("apply", "node.json", "--at", "2023-06-03T00:00:00Z")
    events = billed("history", "default/train", "--json").records
    uids = {event["data"]["index"]: event["data"]["uid"] for event in events if event["type"] == "lahar.attempt.started.v1"}
    found = {one["id"]: one for one in exported(billed) if one["record"] != "adjustment"}
    assert {one["record"] for one in found.values()} == {"usage", "excess", "reversal"}
    for ident, one in found.items():
        kind = "reversal/excess" if one["reverses"] and found[one["reverses"]]["record"] == "excess" else one["record"]
        parts = kind, one["meter"], uids[one["replica"]], parse_time(one["start"]), one["events"][0], one["revision"]
        assert blake2b("\x1f".join(map(str, parts)).encode(), digest_size=16).hexdigest() == ident


def test_an_excess_names_the_use_of_the_attempt_and_the_rules_that_made_it(billed):
    excess = only(exported(billed), record="excess", meter="gpu_seconds", start="2023-05-25T13:00:00.000000Z")
    told = billed("billing", "explain", excess["id"]).out.splitlines()
    assert told[0].endswith("running, excess")
    assert told[1] == "running 2023-05-25T11:59:00.000000Z to 2023-05-25T13:10:11.000000Z: 4271 s"
    assert told[2] == ("the attempt is charged for 4320 s (increments of 60 s, rounded up, at least 300 s): 4320 s - 4271 s = 49 s")
    assert told[3] == "49 s x 1 = 49 GPU-Seconds"
    assert told[4] == "x 0.0005 EUR x 0.5 (queue=default) = 0.01225 EUR (price version first)"
    shown = billed("billing", "explain", excess["id"], "--json").record
    for event in shown["excess"]["used"][0]["events"]:
        assert any(line.startswith(event) for line in told)


def test_an_excess_after_a_correction_counts_the_use_that_stands(billed):
    """The owner says more, so that everything is recorded anew; and the attempt is in two phases."""
    node = {"kind": "Node", "metadata": {"name": "n1", "labels": {"nvidia.com/gpu.product": "A100"}}, "status": {}}
    Path("node.json").write_text(json.dumps(node))
    billed("apply", "node.json", "--at", "2023-05-26T00:00:00Z")
    records = [one for one in exported(billed) if one["record"] != "adjustment"]
    assert {(one["revision"], one["gpu_model"]) for one in records} == {(1, "A100")}
    must_be_recomputed(billed, records)


def test_a_weighted_record_names_the_weights(billed):
    found = exported(billed)
    weighted = only(found, record="usage", meter="weighted_seconds", start="2023-05-25T12:00:00.000000Z", quantity="41400")
    told = billed("billing", "explain", weighted["id"]).out.splitlines()
    assert told[1] == "1 x 10 (gpu_seconds) + 2 x 0.75 (cpu_seconds) = 11.5 weighted units"
    assert "3600 s x 11.5 = 41400 Weighted-Seconds" in told[2]


def test_a_reversal_names_what_it_takes_back_and_what_was_learnt(billed):
    billed("billing", "close", "2023-05", "--at", "2023-06-02T00:00:00Z")
    before = {one["id"]: one for one in exported(billed, "--period", "2023-05")}
    node = {"kind": "Node", "metadata": {"name": "n1", "labels": {"nvidia.com/gpu.product": "A100"}}, "status": {}}
    Path("node.json").write_text(json.dumps(node))
    billed("apply", "node.json", "--at", "2023-06-03T00:00:00Z")
    later = [one for one in exported(billed, "--period", "2023-06") if one["record"] != "adjustment"]
    assert {one["record"] for one in later} == {"usage", "excess", "reversal"}
    must_be_recomputed(billed, later)
    must_be_recomputed(billed, [one for one in before.values() if one["record"] != "adjustment"])
    (observed,) = (one["id"] for one in billed("export").records if one.get("type") == "lahar.node.observed.v1")
    for one in later:
        shown = billed("billing", "explain", one["id"], "--json").record
        assert shown["cause"] == (observed if one["record"] == "reversal" else None)
    taken = only(before.values(), record="usage", meter="gpu_seconds", start="2023-05-25T13:00:00.000000Z")
    back = only(later, record="reversal", reverses=taken["id"])
    told = billed("billing", "explain", back["id"]).out.splitlines()
    assert told[0].endswith("running, reversal")
    assert told[1] == f"takes back usage {taken['id']} of the invoice of 2023-05"
    assert told[2] == "2023-05-25T13:00:00.000000Z to 2023-05-25T13:10:11.000000Z: -611 s x 1 = -611 GPU-Seconds"
    place = told.index("because later was learnt:")
    assert told[place + 1].startswith(observed)
    assert told[place + 1].endswith("node n1 was observed at 2023-06-03 00:00:00Z: type unknown, GPU model A100")
    # Its price had no model; that of the replacement names the model, and the fact that has it.
    assert told[3].endswith("EUR (price version first)")
    anew = only(later, record="usage", meter="gpu_seconds", start="2023-05-25T13:00:00.000000Z")
    told = billed("billing", "explain", anew["id"]).out.splitlines()
    assert told[2].endswith("EUR (price version first, GPU model A100)")
    assert told[-1].startswith(observed)
    nodes = {one["id"]: billed("billing", "explain", one["id"], "--json").record for one in (back, anew)}
    assert [(one["node"], one["node_fact"]) for one in nodes.values()] == [("n1", None), ("n1", observed)]


def test_of_several_node_facts_the_one_before_the_binding_is_named(lahar, folder):
    """Those of other nodes, and what the node became later, price nothing of it."""
    Path("prices.yaml").write_text(BOOK)
    lahar("apply", "prices.yaml", "--at", "2023-01-01T00:00:00Z")
    facts = (("n1", "V100", "24"), ("n1", "A100", "25"), ("n2", "V100", "25"), ("n1", "H100", "26"))
    for name, model, day in facts:
        node = {"kind": "Node", "metadata": {"name": name, "labels": {"nvidia.com/gpu.product": model}}, "status": {}}
        Path("node.json").write_text(json.dumps(node))
        lahar("apply", "node.json", "--at", f"2023-05-{day}T00:00:00Z")
    lahar("ingest", "--recorded", given=f"{LONG}\n")
    record = only(exported(lahar), record="usage", meter="gpu_seconds", start="2023-05-25T13:00:00.000000Z")
    told = lahar("billing", "explain", record["id"]).out.splitlines()
    assert told[2].endswith("GPU model A100)")
    (observed,) = (line for line in told if "was observed" in line)
    assert observed.endswith("node n1 was observed at 2023-05-25 00:00:00Z: type unknown, GPU model A100")


def job(version: str, **labels: str) -> str:
    """The job's own object, as a line of a watch."""
    metadata = {"name": "train", "namespace": "default", "uid": "job-1", "creationTimestamp": "2023-05-25T11:58:00Z"}
    named = {f"lahar/{name}": value for name, value in labels.items()}
    spec = {"template": {"spec": {"containers": [{"name": "c"}]}}}
    content = {"metadata": metadata | {"resourceVersion": version, "labels": named}, "spec": spec, "status": {}}
    return json.dumps({"apiVersion": "batch/v1", "kind": "Job"} | content)


def explained(lahar, **fields):
    """Lines of the events behind a record, without ids."""
    record = only(exported(lahar), **fields)
    return [line[34:] for line in lahar("billing", "explain", record["id"]).out.splitlines() if line[32:34] == "  "]


def test_the_events_behind_terms_and_price_book_are_named_by_time(billed):
    """The job's object is observed after its pods, and its tenant is known from then on."""
    book, opened, *_ = before = explained(billed, meter="gpu_seconds", record="usage", start="2023-05-25T13:00:00.000000Z")
    assert book.endswith("PriceBook prices was applied at 2023-01-01 00:00:00Z")
    assert opened.endswith("; tenant default, queue default")
    assert len(before) == 5  # and what the pod requested, began and ended
    billed("ingest", "--recorded", given=f"{job('7', tenant='research')}\n")
    after = explained(billed, meter="gpu_seconds", record="usage", start="2023-05-25T13:00:00.000000Z")
    # The object shows no time but that of its creation.
    given = "2023-05-25T11:58:00.000000Z  the specification of the job changed at 2023-05-25 11:58:00Z; tenant research"
    assert after == [book, given, opened.replace("; tenant default, queue", "; queue"), *before[2:]]


def test_the_class_is_shown_with_the_reason_of_the_end(lahar, folder):
    killed = LONG.replace('"exitCode": 0', '"exitCode": 137, "reason": "OOMKilled"').replace("Succeeded", "Failed")
    lahar("ingest", "--recorded", given=f"{killed}\n{SHORT}\n")
    for one in exported(lahar):
        if one["meter"] != "gpu_seconds":
            continue
        shown = lahar("billing", "explain", one["id"], "--json").record
        told = lahar("billing", "explain", one["id"]).out.splitlines()
        if one["class"] == "failed":
            assert shown["class_reason"] == "OomKilled"
            assert "class failed: the attempt ended Failed, OomKilled" in told
            assert any(line.startswith(shown["class_event"]) and "OOM-killed" in line for line in told)
        else:
            assert "class useful: the attempt ended Succeeded" in told


def test_a_reversal_after_a_late_fact_of_the_job_names_that_event(billed):
    billed("billing", "close", "2023-05", "--at", "2023-06-02T00:00:00Z")
    sooner = LONG.replace("2023-05-25T13:10:11Z", "2023-05-25T13:05:00Z").replace(
        '"resourceVersion": "1"', '"resourceVersion": "2"'
    )
    billed("ingest", "--recorded", given=f"{sooner}\n")
    reversals = [one for one in exported(billed) if one["record"] == "reversal"]
    events = {event["id"]: event["type"] for event in billed("history", "default/train", "--json").records}
    for one in reversals:
        assert events[billed("billing", "explain", one["id"], "--json").record["cause"]] == "lahar.attempt.late_fact.v1"
    must_be_recomputed(billed, reversals)


def test_a_reversal_after_a_late_price_book_names_the_book(lahar, folder):
    lahar("ingest", "--recorded", given=f"{LONG}\n{SHORT}\n")
    lahar("billing", "close", "2023-05", "--at", "2023-06-02T00:00:00Z")
    Path("prices.yaml").write_text(BOOK)
    lahar("apply", "prices.yaml", "--at", "2023-06-03T00:00:00Z")
    records = [one for one in exported(lahar) if one["record"] != "adjustment"]
    reversals = [one for one in records if one["record"] == "reversal"]
    assert {one["period"] for one in lahar("billing", "invoice", "--json").records} == {"2023-05", "2023-06"}
    assert {one["amount"] for one in reversals} == {"0"}
    must_be_recomputed(lahar, records)
    told = lahar("billing", "explain", reversals[0]["id"]).out.splitlines()
    assert "no price is known for it" in told
    assert told[told.index("because later was learnt:") + 1].endswith("PriceBook prices was applied at 2023-06-03 00:00:00Z")


def test_an_excess_that_rounds_down_is_below_zero(lahar, folder):
    Path("prices.yaml").write_text(BOOK.replace('increment_seconds: "60"', 'increment_seconds: "60"\n      round: half_even'))
    lahar("apply", "prices.yaml", "--at", "2023-01-01T00:00:00Z")
    lahar("ingest", "--recorded", given=f"{LONG}\n")
    excess = only(exported(lahar), record="excess", meter="gpu_seconds")
    told = lahar("billing", "explain", excess["id"]).out
    assert "4260 s (increments of 60 s, rounded half to even, at least 300 s): 4260 s - 4271 s = -11 s" in told
    assert "-11 s x 1 = -11 GPU-Seconds" in told


def test_a_reversal_of_what_is_no_record_is_said_in_a_line(billed, monkeypatch):
    """As earlier builds wrote it, which took another uid for it."""
    billed("billing", "close", "2023-05", "--at", "2023-06-02T00:00:00Z")
    monkeypatch.setattr(EventFactory, "_key", lambda _, attempt: (attempt.task, attempt.index, attempt.number, "another"))
    sooner = LONG.replace("2023-05-25T13:10:11Z", "2023-05-25T13:05:00Z").replace('"1"', '"2"')
    billed("ingest", "--recorded", given=f"{sooner}\n")
    reversals = [one for one in exported(billed) if one["record"] == "reversal"]
    for one in reversals:
        told = f"lahar: record {one['id']} takes back {one['reverses']}, which is no record; "
        assert billed("billing", "explain", one["id"], code=2).err.startswith(told)
    found = billed("billing", "verify", code=1).out
    assert all(one["reverses"] in found for one in reversals if one["start"] == reversals[0]["start"])


def test_an_adjustment_says_what_was_rounded(billed):
    adjustment = only(exported(billed), record="adjustment")
    invoice = billed("billing", "invoice", "--json").record
    shown = billed("billing", "explain", adjustment["id"][:12], "--json").record
    assert (shown["id"], shown["invoice"], shown["sum"]) == (adjustment["id"], invoice["invoice"], invoice["amount"])
    assert Decimal(shown["total"]) - Decimal(shown["sum"]) == Decimal(shown["amount"]) == Decimal(adjustment["amount"])
    told = billed("billing", "explain", adjustment["id"]).out.splitlines()
    assert told[0] == f"adjustment of invoice {invoice['invoice']}: default, 2023-05"
    assert f"{invoice['total']} - {invoice['amount']} = {adjustment['amount']} EUR" in told[2]


def test_a_total_has_the_decimals_of_its_currency_in_json_as_in_the_table(lahar, folder):
    Path("prices.yaml").write_text(BOOK.replace('minimum_seconds: "300"', 'minimum_seconds: "1000"').replace('"0.0001"', '"0"'))
    lahar("apply", "prices.yaml", "--at", "2023-01-01T00:00:00Z")
    lahar("ingest", "--recorded", given=f"{SHORT}\n{SHORT.replace('short', 'more')}\n")
    assert lahar("billing", "invoice", "--json").record["total"] == "0.50"
    assert "0.50 EUR" in lahar("billing", "invoice").out


def test_a_total_that_rounds_to_zero_from_below_has_no_sign(lahar, folder):
    Path("prices.yaml").write_text(BOOK.replace('increment_seconds: "60"', 'increment_seconds: "1"'))
    lahar("apply", "prices.yaml", "--at", "2023-01-01T00:00:00Z")
    lahar("ingest", "--recorded", given=f"{LONG}\n")
    lahar("billing", "close", "2023-05", "--at", "2023-06-02T00:00:00Z")
    sooner = LONG.replace("2023-05-25T13:10:11Z", "2023-05-25T13:10:10Z").replace(
        '"resourceVersion": "1"', '"resourceVersion": "2"'
    )
    lahar("ingest", "--recorded", given=f"{sooner}\n")
    invoice = lahar("billing", "invoice", "--period", "2023-06", "--json").record
    assert (invoice["total"], invoice["amount"], invoice["adjustment"]) == ("0.00", "-0.000825", "0.000825")
    assert " 0.00 EUR" in lahar("billing", "invoice", "--period", "2023-06").out
    adjustment = only(exported(lahar, "--period", "2023-06"), record="adjustment")
    *_, told = lahar("billing", "explain", adjustment["id"]).out.splitlines()
    assert told == "0.00 - -0.000825 = 0.000825 EUR"


def book_of(*versions):
    """A price book of versions, each with the day from which it holds."""
    head, body = BOOK.split('    - version: first\n      from: "2023-01-01"\n')
    return head + "".join(f'    - version: {name}\n      from: "{day}"\n{body}' for name, day in versions)


def test_the_named_price_book_is_the_one_that_priced_the_use(lahar, folder):
    """Not one that had the version for another time, nor one that only repeats it."""
    later = ("c", "2031-01-01")
    for month, versions in (
        (1, (("a", "2023-01-01"), ("b", "2030-01-01"))),
        (4, (("a", "2023-01-01"), ("b", "2023-05-01"))),
        (5, (("a", "2023-01-01"), ("b", "2023-05-01"), later)),
    ):
        Path("prices.yaml").write_text(book_of(*versions))
        lahar("apply", "prices.yaml", "--at", f"2023-{month:02}-01T00:00:00Z")
    lahar("ingest", "--recorded", given=f"{LONG}\n")
    book, *_ = explained(lahar, meter="gpu_seconds", record="usage", start="2023-05-25T13:00:00.000000Z")
    assert book.endswith("PriceBook prices was applied at 2023-04-01 00:00:00Z")


def test_a_late_price_book_that_prices_the_past_is_named(lahar, folder):
    Path("prices.yaml").write_text(book_of(("a", "2030-01-01")))
    lahar("apply", "prices.yaml", "--at", "2023-01-01T00:00:00Z")
    lahar("ingest", "--recorded", given=f"{LONG}\n")
    Path("prices.yaml").write_text(book_of(("a", "2023-05-01")))
    lahar("apply", "prices.yaml", "--at", "2023-06-03T00:00:00Z")
    told = explained(lahar, meter="gpu_seconds", record="usage", start="2023-05-25T13:00:00.000000Z")
    assert told[-1].endswith("PriceBook prices was applied at 2023-06-03 00:00:00Z")


def test_a_version_that_a_later_book_leaves_out_is_still_found(lahar, folder):
    """The book's clock was behind: by its time the version was not in force yet."""
    for day, name in ((1, "a"), (3, "b")):
        Path("prices.yaml").write_text(book_of((name, "2023-05-01")))
        lahar("apply", "prices.yaml", "--at", f"2023-01-0{day}T00:00:00Z")
        if name == "a":
            lahar("ingest", "--recorded", given=f"{LONG}\n")
            lahar("billing", "close", "2023-05", "--at", "2023-06-02T00:00:00Z")
    must_be_recomputed(lahar, [one for one in exported(lahar) if one["record"] != "adjustment"])
    record = only(exported(lahar, "--period", "2023-05"), meter="gpu_seconds", record="excess")
    shown = lahar("billing", "explain", record["id"]).out
    assert "(price version a)" in shown
    assert "PriceBook prices was applied at 2023-01-01" in shown


def test_an_invoice_with_jobs_of_kind_other_has_ids_of_its_own(billed):
    """One id never has two contents: neither in a file of records nor among invoices."""
    billed("ingest", "--recorded", given=pod("alone", "2023-05-25T12:00:00Z", "2023-05-25T12:00:09Z", None) + "\n")
    one, more = (billed("billing", "invoice", *options, "--json").record for options in ((), ("--all",)))
    assert Decimal(one["amount"]) < Decimal(more["amount"])
    assert one["invoice"] == invoice_id("default", "2023-05") != more["invoice"]
    found, all_ = ({record["id"]: record for record in exported(billed, *options)} for options in ((), ("--all",)))
    assert all(all_[ident] == found[ident] for ident in found.keys() & all_.keys())
    adjustments = [only(records.values(), record="adjustment") for records in (found, all_)]
    assert adjustments[0]["id"] not in all_
    for adjustment, invoice in zip(adjustments, (one, more), strict=True):
        shown = billed("billing", "explain", adjustment["id"], "--json").record
        assert (shown["invoice"], shown["amount"]) == (invoice["invoice"], adjustment["amount"])
    for form in ("focus-1.2", "focus-1.4"):
        rows = list(csv.DictReader(billed("billing", "export", "--all", "--format", form).out.splitlines()))
        assert {row["InvoiceId"] for row in rows} == {more["invoice"]}


def test_an_id_that_means_none_or_several_is_refused(billed):
    assert "the id of a record is empty" in billed("billing", "explain", "", code=2).err
    more = (pod(f"p{place}", "2023-05-25T12:00:00Z", "2023-05-25T12:00:07Z") for place in range(6))
    billed("ingest", "--recorded", given="".join(f"{line}\n" for line in more))
    # Ids of records, and of adjustments with and without jobs of kind Other.
    first = [ident[0] for ident in {one["id"] for options in ((), ("--all",)) for one in exported(billed, *options)}]
    adjustment = only(exported(billed), record="adjustment")["id"]
    assert first.count(adjustment[0]) > 1
    for start in (adjustment[0], max(first, key=first.count)):
        err = billed("billing", "explain", start, code=2).err
        assert f"'{start}' matches {first.count(start)} records: " in err
        assert err.endswith("; give more of the id\n")
        assert len(err.splitlines()) == 1
    assert "no record 'zz' in this log" in billed("billing", "explain", "zz", code=3).err
