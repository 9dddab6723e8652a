"""Budgets, told one use at a time: what is said, when, and what never is."""

from __future__ import annotations

from decimal import localcontext
from typing import Any

import pytest
from budget_histories import crossings, shard_of

from engine.budgets.stage import BudgetsStage
from engine.budgets.state import KEPT_MONTHS, LAST_MONTH
from engine.events import Event, encode
from engine.events.billing import Charge, UsageRecorded, UsageWithdrawn
from engine.events.inputs import ObjectApplied, ObjectDeleted
from engine.events.times import SECOND, parse_time
from engine.log.memory import MemoryLog

STAGE = BudgetsStage()
MARCH = parse_time("2026-03-02T12:00:00Z")


class Story:
    """A shard without a log."""

    def __init__(self) -> None:
        self.state = STAGE.initial()
        self.count = 0
        self.jobs: dict[str, int] = {}

    def take(self, data: Any, subject: str, at: int = MARCH) -> list[Event[Any]]:
        self.count += 1
        event = Event(f"e{self.count}", "test", data.TYPE, subject, at, at, self.count, subject, "", "c1", data)
        STAGE.absorb(self.state, event)
        found = []
        for made in STAGE.decide(self.state, event, at):
            STAGE.evolve(self.state, made)
            found.append(made)
        return found

    def budget(self, amount: str | None, thresholds: list[int] | None = None, currency: str = "EUR", **when: int) -> list[str]:
        spec: dict[str, Any] = {"priority": 0}
        if amount is not None:
            spec["budget"] = {"amount": amount, "currency": currency} | ({} if thresholds is None else {"thresholds": thresholds})
        return told(self.take(ObjectApplied("Tenant", "ml", spec), "ml", **when))

    def use(self, amount: str, period: str = "2026-03", kind: str = "Job", **when: int) -> list[str]:
        data = UsageRecorded(
            *("main", 0, 1, "uid", "usage", 0, 1, 1, "running", "begun", period),
            charges=[Charge("gpu_seconds", "1", "1", amount, amount), Charge("cpu_seconds", "1")],
            currency="EUR",
            tenant="ml",
            job_kind=kind,
        )
        return told(self.take(data, "job", **when))

    def void(self, amount: str | None, period: str = "2026-03", kind: str = "Job") -> list[str]:
        data = UsageWithdrawn(*("main", 0, 1, "uid", "usage", 0, 1, period, 1), tenant="ml", job_kind=kind, amount=amount)
        return told(self.take(data, "job"))


def told(events: list[Event[Any]]) -> list[str]:
    return [f"{e.data.period} {e.data.threshold} % of {e.data.budget}: {e.data.amount}" for e in events]


def test_each_threshold_is_said_once_with_the_use_that_reached_it():
    story = Story()
    assert story.budget("100") == []
    assert story.use("49.999999999999999999") == []
    assert story.use("0.000000000000000001") == ["2026-03 50 % of 100: 50"]
    assert story.use("60") == ["2026-03 80 % of 100: 110", "2026-03 100 % of 100: 110"]
    assert story.use("1000") == []


def test_what_is_taken_back_is_so_to_the_last_digit():
    """More digits than a decimal number has where nobody says how many."""
    story = Story()
    story.budget("100", [100])
    amount = "12.0123456789012345678901234567890123456789"
    story.use(amount)
    story.void(amount)
    assert story.state.tenants["ml"].months["2026-03"].spent == 0


def test_the_event_names_its_cause():
    story = Story()
    story.budget("10", [100])
    story.use("4")
    (event,) = story.take(
        UsageRecorded(
            *("main", 0, 1, "uid", "usage", 0, 1, 1, "running", "begun", "2026-03"),
            charges=[Charge("gpu_seconds", "1", "1", "6", "6")],
            currency="EUR",
            tenant="ml",
        ),
        "job-7",
    )
    assert (event.subject, event.sequence, event.causationid, event.time) == ("ml", 1, "e3", MARCH)
    assert (event.data.usage, event.data.job, event.data.currency) == ("e3", "job-7", "EUR")


def test_a_correction_that_brings_the_sum_down_says_nothing_again():
    story = Story()
    story.budget("100")
    assert story.use("60") == ["2026-03 50 % of 100: 60"]
    assert story.void("60") == []
    assert story.use("55") == []
    assert story.use("25") == ["2026-03 80 % of 100: 80"]


def test_a_reversal_counts_in_the_month_on_whose_invoice_it_stands():
    story = Story()
    story.budget("100")
    assert story.use("70") == ["2026-03 50 % of 100: 70"]
    assert story.use("-30", "2026-04") == []
    assert story.use("75", "2026-04") == []
    assert story.use("5", "2026-04") == ["2026-04 50 % of 100: 50"]


def test_a_budget_that_changes_is_compared_anew():
    story = Story()
    story.budget("100")
    story.use("90")
    assert story.budget("160") == ["2026-03 50 % of 160: 90"]
    assert story.budget("160", [50, 55]) == ["2026-03 55 % of 160: 90"]
    assert story.budget("160", [50, 55]) == []
    assert story.use("70") == []
    assert story.budget("50", [100, 400]) == ["2026-03 100 % of 50: 160"]


def test_a_budget_counts_from_the_month_in_which_it_is_given():
    story = Story()
    story.use("90")
    april = parse_time("2026-04-01T00:00:00Z")
    assert story.budget("100", at=april) == []
    assert story.use("5", "2026-03", at=april) == []
    assert story.use("50", "2026-04", at=april) == ["2026-04 50 % of 100: 50"]
    assert story.budget("90", at=MARCH) == [
        *("2026-03 50 % of 90: 95", "2026-03 80 % of 90: 95", "2026-03 100 % of 90: 95"),
        "2026-04 50 % of 90: 50",
    ]


def test_a_tenant_without_a_budget_is_compared_with_none():
    story = Story()
    story.budget("100")
    assert story.budget(None) == []
    assert story.use("100") == []
    assert story.budget("100") == [f"2026-03 {threshold} % of 100: 100" for threshold in (50, 80, 100)]
    assert told(story.take(ObjectDeleted("Tenant", "ml"), "ml")) == []
    assert story.use("1000", "2026-04") == []


def test_another_currency_is_not_compared():
    story = Story()
    story.budget("100", currency="USD")
    assert story.use("1000") == []
    assert story.budget("1000") == [f"2026-03 {threshold} % of 1000: 1000" for threshold in (50, 80, 100)]


def test_what_no_invoice_has_is_not_counted():
    story = Story()
    story.budget("100")
    assert story.use("90", kind="Other") == []
    assert story.void("40", kind="Other") == []
    assert story.use("49") == []
    assert story.void(None) == []
    assert story.use("1") == ["2026-03 50 % of 100: 50"]


def test_what_is_old_is_forgotten():
    """Of a log of ten years the months of one are kept, and nothing of a tenant of which nothing is left."""
    story = Story()
    story.budget("100", [100])
    budgets = [("2026-03", story.state.tenants["ml"].budget("2026-03"))]
    for month in range(120):
        period = f"{2026 + (month + 2) // 12:04d}-{(month + 2) % 12 + 1:02d}"
        now = parse_time(f"{period}-15T00:00:00Z")
        assert story.use("100", period, at=now) == [f"{period} 100 % of 100: 100"]
        story.budget(str(101 + month), at=now)
        story.budget("100", [100], at=now)
        assert len(story.state.tenants["ml"].months) <= KEPT_MONTHS
        assert len(story.state.tenants["ml"].budgets) <= KEPT_MONTHS + 1
    assert story.use("1000", "2030-01", at=now) == []
    assert budgets[0][1] is not None

    story = Story()
    story.use("1")
    story.take(ObjectApplied("Queue", "q", {}), "q", at=parse_time("2027-03-31T23:59:59Z"))
    assert list(STAGE.records(story.state)) == ["tenant/ml", "month"]
    story.take(ObjectApplied("Queue", "q", {}), "q", at=parse_time("2027-04-01T00:00:00Z"))
    assert list(STAGE.records(story.state)) == ["month"]
    assert STAGE.dump(story.state, "tenant/ml") is None


def test_all_months_that_a_tenant_may_use_fit_into_one_record():
    """Times of pods may lie thousands of years ahead, and a shard whose record is too large stops for everybody."""
    story = Story()
    story.budget("1")
    for year in [*range(2026, 2200), *range(2200, 10_000, 100)]:
        for month in range(1, 13):
            story.use("0.1234567890123456789", f"{year}-{month:02d}")
    assert LAST_MONTH in story.state.tenants["ml"].months
    assert max(story.state.tenants["ml"].months) == LAST_MONTH
    assert len(STAGE.dump(story.state, "tenant/ml")) < 1 << 20
    assert story.use("1", LAST_MONTH) != []
    assert story.use("1", "2200-01") == []
    story.void("1", "2200-01")
    assert "2200-01" not in story.state.tenants["ml"].months


def test_a_budget_that_cannot_be_read_is_none():
    """Whoever writes to the log without Lahar's edge may give anything."""
    story = Story()
    for budget in (5, {"amount": 1.5}, {"amount": "1", "currency": "EUR", "thresholds": [[]]}, None, "x" * 1000, {"amount": "NaN"}):
        assert story.take(ObjectApplied("Tenant", "ml", {"budget": budget}), "ml") == []
    assert story.use("1000") == []


@pytest.mark.parametrize("amount", ["1_000", "\u0661\u0660\u0660\u0660", " 1000 ", "+1000"])
def test_a_budget_of_a_log_keeps_an_amount_that_is_refused_now(amount):
    """Earlier builds took it; a snapshot has it as it was given, too."""
    story = Story()
    story.budget(amount, [100])
    stored = [(record, STAGE.dump(story.state, record)) for record in STAGE.records(story.state)]
    story.state = STAGE.initial()
    STAGE.load(story.state, stored)
    assert story.use("1000") == ["2026-03 100 % of 1000: 1000"]


@pytest.mark.parametrize(
    ("budget", "use"), [("10", "9." + 40 * "9"), ("100000000000000000000.000000001", "100000000000000000000"), ("1000", "999.9999")]
)
def test_a_budget_that_is_not_reached_by_the_last_digit_is_not_crossed(budget, use):
    """Whatever precision the program that runs it has chosen for its own sums."""
    story = Story()
    with localcontext(prec=5):
        story.budget(budget, [100])
        assert story.use(use) == []


def test_a_budget_that_is_given_after_uses_that_wait_is_not_crossed_before():
    log = MemoryLog(1)
    charges = [Charge("gpu_seconds", "1", "1", "90", "90")]
    use = UsageRecorded(
        *("main", 0, 1, "uid", "usage", 0, 1, 1, "running", "begun", "2026-03"), charges=charges, currency="EUR", tenant="ml"
    )
    spec = {"priority": 0, "budget": {"amount": "100", "currency": "EUR", "thresholds": [50]}}
    given = MARCH + 3600 * SECOND
    log.append("billing", [encode(Event("e1", "test", use.TYPE, "job", MARCH, MARCH, 1, "job", "", "c1", use))])
    budget = ObjectApplied("Tenant", "ml", spec)
    log.append("cluster", [encode(Event("e2", "test", budget.TYPE, "ml", given, given, 2, "", "", "c1", budget))])
    shard_of(log).run_until_quiet()
    (crossed,) = crossings(log)
    assert (crossed.time, crossed.causationid, crossed.data.usage) == (given, "e2", None)
