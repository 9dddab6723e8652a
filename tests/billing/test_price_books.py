"""Price books in the stage: whose price is multiplied, what may still be changed, what is recorded while it lasts."""

from __future__ import annotations

import re
from decimal import Decimal, Inexact

import pytest
from bill_story import NOON, PRICES, Story
from standing import written

from engine.application.prices import unpriced_meters, unpriced_nodes
from engine.billing.book import Book, next_book
from engine.billing.invoice import invoices
from engine.events import decode
from engine.events.attempts import AttemptBound
from engine.events.billing import UsageRecorded
from engine.events.decimals import EXACT
from engine.events.inputs import NodeDeleted, NodeObserved
from engine.events.jobs import JobOpened
from engine.events.prices import METERS
from engine.events.times import SECOND, parse_time
from engine.kubernetes.observation.cluster_facts import ClusterFacts
from statemachines.spec import JobSpec, Requests

HOUR = 3600
DAY = 86_400 * SECOND
SPEC = JobSpec(queue="research", priority_class="high")
PREEMPTIBLE = {"volcano.sh/preemptable": "true"}
ALL = {"queue": "research", "tenant": "lab", "priority_class": "high", "preemptible": True}
OTHER = {"queue": "batch", "tenant": "shop", "priority_class": "low", "preemptible": False}


def amount(*multipliers):
    """What 10 s of one GPU cost, without a factor 1, in the queue, of the tenant and so on that `ALL` names."""
    story = Story()
    story.prices({"prices": PRICES, "multipliers": multipliers})
    opened = JobOpened("VCJob", "j", managed=False, spec=SPEC, tenant="lab", labels=PREEMPTIBLE)
    story.say("job-events", opened, "j", 0)
    story.start("j", 0, 0)
    story.run("j", 0, 0)
    story.end("j", 0, 10)
    return story.amount()


@pytest.mark.parametrize("name", ALL)
def test_a_multiplier_is_for_what_it_names(name):
    assert amount({name: ALL[name], "factor": "3"}) == 3
    assert amount({name: OTHER[name], "factor": "3"}) == 1


def test_multipliers_multiply():
    assert amount(*({name: value, "factor": "3"} for name, value in ALL.items())) == 3**4


def spec(**versions):
    """A book of versions: when each begins (days behind noon), and its price."""
    told = [
        {"version": name, "from": NOON + day * DAY, "prices": {"gpu_seconds": {"*": price}}}
        for name, (day, price) in versions.items()
    ]
    return {"currency": "EUR", "versions": told}


@pytest.mark.parametrize(
    ("versions", "fault"),
    [
        ({"now": (-1, "1")}, None),
        ({"now": (-1, "1"), "next": (20, "2")}, None),
        ({"now": (-1, "1"), "soon": (3, "5")}, None),
        ({"now": (-1, "1"), "next": (10, "3")}, "next.*has other rules than the version of that name before"),
        ({"now": (-1, "4"), "next": (10, "2")}, "now.*has other rules, but was in force"),
        ({"next": (10, "2")}, "now.*is left out, but was in force"),
    ],
    ids=["dropped", "later", "another", "changed", "changed in force", "dropped in force"],
)
def test_what_is_not_in_force_yet_may_go_and_a_name_keeps_its_rules(versions, fault):
    known, _ = next_book(Book(), spec(now=(-1, "1"), next=(10, "2")), NOON)
    made, faults = next_book(known, spec(**versions), NOON)
    if fault is None:
        assert made.names.keys() == versions.keys()
        return
    assert made is None
    ((path, message),) = faults
    assert re.search(fault, f"{path} {message}")


@pytest.mark.parametrize("price", ["1_000", "\u0661\u0660\u0660\u0660", " 1000 ", "+1000"])
def test_a_book_of_a_log_keeps_numbers_that_are_refused_now(price):
    """Earlier builds took them; what was charged by them stays, and the same number may be written plainly."""
    story = Story()
    story.prices({"prices": {"gpu_seconds": {"*": price}}})
    story.start("j", 0, 0)
    story.run("j", 0, 0)
    story.end("j", 0, 10)
    assert story.amount() == 10_000
    known, _ = next_book(Book(), spec(now=(-1, price)), NOON)
    made, faults = next_book(known, spec(now=(-1, "1000")), NOON)
    assert made is not None, faults


@pytest.mark.parametrize("rules", [{"billable_from": "bound"}, {"billable_from": "bound", "bill_queued": True}])
def test_what_is_billed_before_it_runs_is_recorded_at_hour_marks_too(rules):
    story = Story()
    story.prices({"prices": PRICES, **rules})
    story.start("j", 0, 0)
    story.say("job-events", AttemptBound("main", 0, 1, node="n1"), "j", 600)
    story.wait(2 * HOUR + 60)
    queued = 600 if "bill_queued" in rules else 0
    assert story.seconds() == 2 * HOUR - 600 + queued
    assert {record.run.kind for record in story.records()} == {"bound", *(["queued"] if queued else [])}


def test_a_first_book_ending_the_month_mid_hour_records_that_hours_use():
    """In Nepal a month ends at 18:15 UTC."""
    began = (parse_time("2026-03-31T18:02:00Z") - NOON) // SECOND
    story = Story()
    story.start("j", 0, began)
    story.run("j", 0, began)
    story.prices({"prices": PRICES}, at=began + 120, time_zone="Asia/Kathmandu")
    story.close("2026-03", began + 20 * 60)
    story.wait(began + 90 * 60)
    assert [(record.run.period, record.run.month) for record in story.records()] == [("2026-03", None), ("2026-04", None)]


def test_a_book_behind_a_month_end_mid_hour_moves_no_attempt_back():
    """Such an attempt would be due for ever."""
    began = (parse_time("2026-03-31T18:02:00Z") - NOON) // SECOND
    story = Story()
    story.prices({"prices": PRICES}, at=began, time_zone="Asia/Kathmandu")
    story.start("j", 0, began)
    story.run("j", 0, began)
    later = {"prices": PRICES, "from": NOON + 40 * 86_400 * SECOND}
    story.prices({"prices": PRICES}, later, at=began + 15 * 60, time_zone="Asia/Kathmandu")
    story.say("cluster", NodeObserved("clock"), "clock", began + 30 * 60)
    assert story.shard.timer_due == parse_time("2026-03-31T19:00:00Z")


@pytest.mark.parametrize("name", ["soon", "2026-13", "2026-3", ""])
def test_the_end_of_a_month_that_is_none_changes_nothing(name):
    story = Story()
    story.close(name, 0)
    story.start("j", 0, 0)
    story.run("j", 0, 0)
    story.end("j", 0, 10)
    assert story.seconds() == 10
    assert story.shard.state.periods == {}


def test_an_amount_that_would_not_be_exact_is_refused():
    with pytest.raises(Inexact):
        EXACT.divide(Decimal(1), Decimal(3))


def test_an_invoice_names_the_versions_by_which_it_charges():
    story = Story()
    story.prices({"prices": PRICES, "until": NOON + HOUR * SECOND}, {"prices": PRICES, "from": NOON + HOUR * SECOND})
    story.start("j", 0, 0)
    story.run("j", 0, 0)
    story.end("j", 0, 2 * HOUR)
    assert invoiced(story)["price_versions"] == ["v0", "v1"]


def invoiced(story):
    runs = (event for event in written(story.log) if isinstance(event.data, UsageRecorded))
    (invoice,) = invoices(runs, story.shard.state.book.names)
    return invoice.document()


@pytest.mark.parametrize(
    ("rules", "listed"),
    [
        # Charged by weights alone; the weight 0 is a price of 0.
        ({"prices": {"weighted_seconds": {"*": "1"}}, "weights": {"gpu_seconds": {"*": "2"}, "cpu_seconds": {"*": "0"}}}, []),
        # Where weighted seconds have no price, it is they that lack it.
        (
            {"prices": {"weighted_seconds": {"p4d": "1"}}, "weights": {"gpu_seconds": {"*": "2"}, "cpu_seconds": {"*": "0"}}},
            [("weighted_seconds", None, "40"), ("weighted_seconds", "g5", "20")],
        ),
        # So it is where the measured meters have prices of their own.
        (
            {
                "prices": {"gpu_seconds": {"*": "1"}, "cpu_seconds": {"*": "1"}, "weighted_seconds": {"p4d": "1"}},
                "weights": {"gpu_seconds": {"*": "2"}},
            },
            [("weighted_seconds", None, "40"), ("weighted_seconds", "g5", "20")],
        ),
        # Without a weight there is nothing by which the meter could be charged.
        (
            {"prices": {"weighted_seconds": {"*": "1"}}, "weights": {"gpu_seconds": {"A100": "2"}, "cpu_seconds": {"*": "1"}}},
            [("gpu_seconds", None, "20"), ("gpu_seconds", "g5", "10")],
        ),
        # Weighted seconds that no price is meant for are measured only; the meters need prices of their own.
        ({"prices": {"gpu_seconds": {"*": "1"}, "cpu_seconds": {"*": "1"}}, "weights": {"gpu_seconds": {"*": "2"}}}, []),
        (
            {"prices": {"gpu_seconds": {"*": "1"}}, "weights": {"cpu_seconds": {"*": "2"}}},
            [("cpu_seconds", None, "20"), ("cpu_seconds", "g5", "10"), ("cpu_seconds", "p4d", "10")],
        ),
    ],
)
def test_use_that_lacks_a_price_is_listed_and_no_other(rules, listed):
    """Of the node types p4d (A100), g5 (V100) and an unknown one; on the invoice as by the check of the book."""
    story = Story()
    story.prices(rules)
    story.say("cluster", NodeObserved("n1", type="p4d", gpu_model="A100"), "n1", 0)
    story.say("cluster", NodeObserved("n2", type="g5", gpu_model="V100"), "n2", 0)
    story.say("cluster", NodeObserved("n3"), "n3", 0)
    for place, (node, length) in enumerate((("n1", 10), ("n2", 10), ("n3", 20))):
        story.start("j", place, 0, requests=Requests(gpu=1, cpu_milli=1000))
        story.run("j", place, 0, node=node)
        story.end("j", place, length)
    found = invoiced(story)["unpriced"]
    assert [(one["meter"], one["node_type"], one["quantity"]) for one in found] == listed
    book, facts = story.shard.state.book, ClusterFacts()
    for record in story.log.scan(("cluster",)):
        facts.absorb(decode(record.message))
    checked = {fault.path.rpartition(".")[2] for fault in unpriced_nodes(book, facts, NOON)}
    left = {meter for fault in unpriced_meters(book, NOON) for meter in METERS if f" {meter}" in fault.message}
    assert checked | (left - {"memory_byte_seconds"}) == {meter for meter, _, _ in listed}


def test_nodes_without_gpus_need_no_price_weighed_by_gpus_alone():
    story, facts = Story(), ClusterFacts()
    story.prices({"prices": {"weighted_seconds": {"p4d": "1"}}, "weights": {"gpu_seconds": {"*": "2"}}})
    story.say("cluster", NodeObserved("n1", type="cpus", cpu_milli=64_000), "n1", 0)
    story.say("cluster", NodeObserved("n2", type="g5", cpu_milli=64_000, gpu=8), "n2", 0)
    for record in story.log.scan(("cluster",)):
        facts.absorb(decode(record.message))
    found = unpriced_nodes(story.shard.state.book, facts, NOON)
    assert [(fault.path, fault.message) for fault in found] == [
        ("spec.versions (v0).prices.weighted_seconds", "has no price for g5")
    ]


def test_what_is_heard_after_its_node_is_gone_has_the_price_of_that_node():
    story = Story()
    story.prices({"prices": {"gpu_seconds": {"*": "0.1", "A100": "7"}}})
    story.say("cluster", NodeObserved("n1", type="large", gpu_model="A100"), "n1", 0)
    story.say("cluster", NodeDeleted("n1"), "n1", 100)
    story.start("j", 0, 50, recorded=200)
    story.run("j", 0, 50, recorded=200)
    story.end("j", 0, 60, recorded=200)
    assert (story.amount(), {record.run.node_type for record in story.records()}) == (70, {"large"})


def test_charged_waiting_is_not_recorded_again_on_a_node_of_equal_price():
    story = Story()
    story.prices({"prices": {"gpu_seconds": {"*": "0.1", "large": "1"}}, "bill_queued": True})
    story.say("cluster", NodeObserved("n2", type="large"), "n2", 0)
    for job in "ab":
        story.start(job, 0, 0)
    story.wait(2 * HOUR)
    for job, node in (("a", "n1"), ("b", "n2")):
        story.run(job, 0, 2 * HOUR + 60, node=node)
        story.end(job, 0, 2 * HOUR + 120)
    assert {record.run.revision for record in story.records("a")} == {0}
    assert {record.run.revision for record in story.records("b")} == {1}
    assert (story.amount("a"), story.amount("b")) == (Decimal(2 * HOUR + 120) / 10, 2 * HOUR + 120)
