"""The tests of budgets can fail: for each rule a bug against it is planted, and found."""

from __future__ import annotations

from decimal import Decimal

import pytest
from budget_histories import histories
from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st
from test_budget_laws import (
    must_be_said_rightly,
    must_commute,
    must_recover_behind_every_commit,
    small_chunks,
)

from engine.budgets import state
from engine.budgets.stage import BudgetsStage
from engine.events.decimals import total

__all__ = ["small_chunks"]

right_add, right_give, right_advance, right_reached = state._add, state._give, state._advance, state.Tenant.reached


def never_taken_back(known, name, period, amount, currency):
    right_add(known, name, period, max(amount, Decimal(0)), currency)


def first_month_only(known, name, period, amount, currency):
    months = known.tenants[name].months if name in known.tenants else {}
    right_add(known, name, min(months, default=period), amount, currency)


def rounded(amounts):
    return total(amounts).quantize(Decimal("0.01"))


def said_again(known, event):
    tenant = known.touch(event.data.tenant)
    tenant.written = event.sequence
    for month in tenant.months.values():
        month.crossed = [event.data.threshold]


def never_anew(known, name, since, budget):
    crossed = {period: month.crossed for period, month in (known.tenants[name].months if name in known.tenants else {}).items()}
    right_give(known, name, since, budget)
    for period, thresholds in crossed.items():
        known.tenants[name].months[period].crossed = thresholds


def for_all_months(known, name, since, budget):
    right_give(known, name, "0001-01", budget)


def whatever_the_currency(self, period):
    month = self.months.get(period)
    if month is not None and (budget := self.budget(period)) is not None:
        month.currency = budget.currency
    yield from right_reached(self, period)


def not_touched(known, name, period, amount, currency):
    before = dict(known.touched)
    right_add(known, name, period, amount, currency)
    known.touched.clear()
    known.touched.update(before)


def subject_of_its_own(self, record):
    return record


BUGS = {
    "a withdrawal is not taken off": (state, "_add", never_taken_back),
    "a use counts in another month": (state, "_add", first_month_only),
    "amounts are rounded before they are added": (state, "total", rounded),
    "a threshold is said again": (BudgetsStage, "evolve", staticmethod(said_again)),
    "a new budget is not compared anew": (state, "_give", never_anew),
    "a budget counts for months before it": (state, "_give", for_all_months),
    "currencies are not compared": (state.Tenant, "reached", whatever_the_currency),
    "the snapshot is not told of a sum": (state, "_add", not_touched),
    "records of a snapshot are of several moments": (BudgetsStage, "subject", subject_of_its_own),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(plant, bug):
    plant(*BUGS[bug])
    by_snapshot = "snapshot" in bug

    @seed(4711)
    @settings(
        max_examples=100,
        phases=[Phase.generate],
        database=None,
        report_multiple_bugs=False,
        verbosity=Verbosity.quiet,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(histories(), st.integers(1, 9), st.integers(1, 40))
    def look(program, batch, every):
        if by_snapshot:
            must_recover_behind_every_commit(program, batch, every)
        else:
            must_be_said_rightly(program)

    with pytest.raises(AssertionError):
        look()


def test_a_sum_that_depends_on_the_order_is_found(plant):
    """A use counts only if the budget has come before it."""

    def dropped(known, name, period, amount, currency):
        if name in known.tenants and known.tenants[name].budgets:
            right_add(known, name, period, amount, currency)

    plant(state, "_add", dropped)

    @seed(4711)
    @settings(max_examples=100, phases=[Phase.generate], database=None, report_multiple_bugs=False, verbosity=Verbosity.quiet)
    @given(histories(), st.lists(st.integers(0, 3), max_size=200))
    def look(program, choices):
        must_commute(program, choices)

    with pytest.raises(AssertionError):
        look()
