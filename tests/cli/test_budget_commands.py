"""Budgets by command: what is shown, told and refused."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest
from test_billing import BOOK, TRACE

from engine.events.budgets import Budget
from engine.history.budgets import TenantBudgetStatus

BUDGET = """\
apiVersion: lahar.dev/v1
kind: Tenant
metadata: {name: default}
spec:
  budget: {amount: "10", currency: EUR, thresholds: [50, 70, 100]}
"""
CALLBACK = """\
from engine.effects import BudgetNotice, budget_callback


@budget_callback(tenant="default")
def spent(notice: BudgetNotice) -> None:
    print("told:", notice)
"""


@pytest.fixture
def spent(lahar, folder):
    """The command, with a budget of which 7.36925 EUR are spent."""
    Path("prices.yaml").write_text(BOOK)
    Path("budget.yaml").write_text(BUDGET)
    Path("small.csv").write_text(TRACE)
    lahar("apply", "prices.yaml", "budget.yaml", "--at", "2023-01-01T00:00:00Z")
    lahar("import-trace", "--format", "openb", "small.csv")
    return lahar


def test_what_is_spent_is_what_the_invoice_says(spent):
    (found,) = spent("billing", "budgets", "--json").records
    assert found["spent"] == spent("billing", "invoice", "--json").record["amount"] == "7.36925"
    assert (found["tenant"], found["period"], found["percent"], found["currency"]) == ("default", "2023-05", "73.6", "EUR")
    assert found["budget"] == {"amount": "10", "currency": "EUR", "thresholds": [50, 70, 100]}
    assert [(crossed["threshold"], crossed["budget"]) for crossed in found["crossed"]] == [(50, "10"), (70, "10")]
    shown = spent("billing", "budgets").out.splitlines()
    assert shown[1].split()[:8] == ["2023-05", "default", "10", "EUR", "7.37", "EUR", "73.6", "%"]
    assert "50 % 2023-05-25 09:00:00Z" in shown[1]
    assert spent("billing", "budgets", "--tenant", "other", "--json").records == []
    assert spent("billing", "budgets", "--period", "2023-06", "--json").records == []


def test_less_than_a_tenth_of_a_percent_below_zero_has_no_sign():
    """A month in which reversals exceed what is spent."""
    budget = Budget(amount="1000", currency="EUR")
    told = [f"{TenantBudgetStatus('t', '2026-10', budget, Decimal(spent), 'EUR', ()).percent:f}" for spent in ("-0.5", "0", "-1.5")]
    assert told == ["0.0", "0.0", "-0.1"]


def test_what_is_told_names_the_use_that_reached_it(spent):
    told = [
        json.loads(line) for line in spent("events", "--topic", "budgets", "--type", "budget.crossed", "--json").out.splitlines()
    ]
    assert [event["data"]["threshold"] for event in told[:-1]] == [50, 70]
    assert told[-1]["caught_up"]
    (first, _) = told[:-1]
    assert (first["subject"], first["type"], int(first["sequence"])) == ("default", "lahar.budget.crossed.v1", 1)
    assert first["data"]["usage"] == first["causationid"]
    job = first["data"]["job"]
    assert any(line["job"] == job for line in map(json.loads, spent("billing", "records", "--json").out.splitlines()))
    assert "50 % of the budget of 2023-05 was crossed" in spent("events", "--topic", "budgets", "--tenant", "default").out
    rest = spent("events", "--topic", "budgets", "--from", told[-1]["token"], "--json").out.splitlines()
    assert len(rest) == 1
    for more in (("--queue", "q"), ("--level", "job"), ("--job", job)):
        assert "by tenant and type only" in spent("events", "--topic", "budgets", *more, code=2).err
    assert "it is of topic budgets, not job-events" in spent("events", "--from", told[-1]["token"], code=2).err


def test_both_checks_hold_and_a_copy_goes_on(spent):
    assert "verify: ok" in spent("billing", "verify").out
    assert [found["shard"] for found in spent("verify", "--json").records if found["ok"]] == [
        "lifecycle/0",
        "scheduling/0",
        "billing/0",
        "budgets/0",
    ]
    Path("all.jsonl").write_text(spent("export").out)
    spent("import", "all.jsonl", "--log", "sqlite:other.db")
    assert spent("billing", "budgets", "--json", "--log", "sqlite:other.db").out == spent("billing", "budgets", "--json").out
    assert "verify: ok" in spent("billing", "verify", "--log", "sqlite:other.db").out


def test_a_budget_that_changes_is_compared_anew(spent):
    Path("budget.yaml").write_text(BUDGET.replace('"10"', '"14"'))
    spent("apply", "budget.yaml", "--at", "2023-05-26T00:00:00Z")
    (found,) = spent("billing", "budgets", "--json").records
    last = found["crossed"][-1]
    assert (last["threshold"], last["budget"], last["usage"]) == (50, "14", None)
    assert "50 % 2023-05-2" in spent("billing", "budgets").out
    assert "70 %" not in spent("billing", "budgets").out


def test_another_currency_is_said_and_not_compared(lahar):
    Path("prices.yaml").write_text(BOOK)
    Path("budget.yaml").write_text(BUDGET.replace("EUR", "USD"))
    Path("small.csv").write_text(TRACE)
    done = lahar("apply", "budget.yaml", "prices.yaml", "--at", "2023-01-01T00:00:00Z")
    told = "budget.yaml: line 5, column 26: spec.budget.currency: USD is not that of the price book, EUR: nothing is compared"
    assert told in done.err
    lahar("import-trace", "--format", "openb", "small.csv")
    done = lahar("billing", "budgets")
    assert "the budget is in USD, prices are in EUR: nothing is compared" in done.err
    (found,) = lahar("billing", "budgets", "--json").records
    assert (found["percent"], found["crossed"]) == (None, [])


def test_a_budget_of_which_nothing_is_used_is_shown(lahar):
    Path("budget.yaml").write_text(BUDGET)
    lahar("apply", "budget.yaml", "--at", "2026-03-02T00:00:00Z")
    (found,) = lahar("billing", "budgets", "--json").records
    assert (found["period"], found["spent"], found["percent"], found["currency"]) == ("2026-03", "0", "0", None)


@pytest.mark.parametrize(
    ("budget", "told"),
    [
        ("{amount: 10.5, currency: EUR}", "spec.budget.amount: 10.5 is a binary number; write it in quotes"),
        ("{amount: 0100, currency: EUR}", "spec.budget.amount: is read by YAML as 64"),
        ('{amount: "-1", currency: EUR}', "spec.budget.amount: -1 must not be below zero"),
        ('{amount: "0", currency: EUR}', "spec.budget.amount: must be more than 0"),
        ('{amount: "1e999999999", currency: EUR}', "spec.budget.amount: 1e999999999 has more than 30 digits"),
        (f'{{amount: "{"1" * 40}", currency: EUR}}', "spec.budget.amount: "),
        ('{amount: "1_000", currency: EUR}', "spec.budget.amount: '1_000' is not written as plain digits; write 1000"),
        ('{amount: "1", currency: euro}', "spec.budget.currency: 'euro' is no code of ISO 4217"),
        ('{amount: "1"}', "spec.budget.currency: Field required"),
        ('{amount: "1", currency: EUR, thresholds: [50, 50]}', "spec.budget.thresholds: 50 stands there twice"),
        ('{amount: "1", currency: EUR, thresholds: [50.5]}', "spec.budget.thresholds: '50.5' is no whole number of percent"),
        ('{amount: "1", currency: EUR, thresholds: [020]}', "spec.budget.thresholds: 16 is what YAML reads there"),
        ('{amount: "1", currency: EUR, thresholds: [1001]}', "spec.budget.thresholds: '1001' is no whole number of percent"),
        ('{amount: "1", currency: EUR, thresholds: []}', "spec.budget.thresholds: must be a list of 1 to 16 thresholds"),
        (f'{{amount: "1", currency: EUR, thresholds: {list(range(1, 18))}}}', "spec.budget.thresholds: must be a list of 1 to 16"),
        ('{amount: "1", currency: EUR, limit: 3}', "spec.budget.limit: Extra inputs are not permitted"),
        ("much", "spec.budget: "),
    ],
)
def test_a_budget_that_is_wrong_is_refused_with_its_path(lahar, budget, told):
    Path("budget.yaml").write_text(BUDGET.partition("  budget:")[0] + f"  budget: {budget}\n")
    done = lahar("apply", "budget.yaml", code=2)
    assert told in done.err
    assert len(done.err.splitlines()) == 1
    assert not Path("lahar.db").exists()


def test_a_callback_is_told(spent, monkeypatch, folder):
    Path("spending.py").write_text(CALLBACK)
    Path("lahar.toml").write_text('callbacks = ["spending"]\n')
    monkeypatch.setenv("LAHAR_CONFIG", str(Path("lahar.toml").absolute()))
    (listed,) = spent("callbacks", "list", "--json").records
    assert listed["selector"] == {"event": ["budget.crossed"], "tenant": ["default"]}
    assert listed["lag"] > 2
    done = spent("run", "--once")
    assert "told: 2023-05-25T" in done.out
    assert "tenant default: 70 % of 2023-05" in done.out
    assert "told:" not in spent("run", "--once").out
    assert spent("callbacks", "list", "--json").record["lag"] == 0
