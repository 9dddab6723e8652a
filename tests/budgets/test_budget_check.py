"""`lahar billing verify` finds what was said of budgets and does not follow, and what follows and was not said."""

from __future__ import annotations

import pytest
from bill_story import NOON, PRICES, Story
from budget_histories import billed, billing, budget_given, crossings, histories, shard_of
from hypothesis import HealthCheck, given, settings
from job_programs import SECOND, STARTS, Program
from msgspec.structs import force_setattr

from engine.budgets import state
from engine.budgets.stage import BudgetsStage
from engine.history.billing import check_billing
from engine.history.budgets import check_budgets

EUR = {"currency": "EUR", "thresholds": [20, 80]}


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(histories())
def test_what_follows_is_right(program):
    for log in billing(program):
        shard_of(log, batch=3).run_until_quiet()
    assert list(check_budgets(log)) == []


@pytest.fixture
def program():
    """Two jobs that run for some hours, and a budget of which they use more than all."""
    made = Program(STARTS[3], "UTC")
    for step in (("book", 0, 0, 0), ("start", 0, 5, 1), ("run", 0, 0, 2), ("start", 1, 2, 1), ("run", 1, 0, 2)):
        made.do(step)
    made.inputs.insert(0, ("cluster", budget_given("t0", made.inputs[0][1].recordedtime, 0, {"amount": "30", **EUR})))
    for _ in range(3):
        made.do(("wait", 0, 0, 0))
    return made


def findings(program):
    log = billed(program)
    shard_of(log).run_until_quiet()
    return log, [(found.job, found.attempt, found.what.partition(" ")[2]) for found in check_budgets(log)]


def test_the_program_crosses_both(program):
    log, found = findings(program)
    assert [event.data.threshold for event in crossings(log)] == [20, 80]
    assert found == []


def test_a_sum_that_is_wrong_is_found(monkeypatch, program):
    with monkeypatch.context() as patch:
        right = BudgetsStage.decide

        def decide(self, known, event, now):
            decision = right(self, known, event, now)
            while True:
                try:
                    made = next(decision)
                except StopIteration as stop:
                    return stop.value
                force_setattr(made.data, "amount", "40")
                yield made

        patch.setattr(BudgetsStage, "decide", decide)
        log = billed(program)
        shard_of(log).run_until_quiet()
    found = list(check_budgets(log))
    assert len(found) == 2
    assert all("says 40 of 30; that is" in one.what for one in found)


def test_what_was_not_said_and_what_was_said_too_soon_is_found(monkeypatch, program):
    log = billed(program)
    with monkeypatch.context() as patch:
        right = state.Tenant.reached

        def otherwise(self, period):
            month = self.months[period]
            for threshold, budget, _ in right(self, period):
                if threshold != 20:
                    yield threshold, budget, month
            if 10 not in month.crossed and (budget := self.budget(period)) is not None:
                yield 10, budget, month

        patch.setattr(state.Tenant, "reached", otherwise)
        shard_of(log).run_until_quiet()
    told = [one.what for one in check_budgets(log)]
    assert any("says 10 % of the budget: not reached, or said before" in what for what in told)
    assert "20 % of 30 EUR is reached, and not said" in told


def test_what_the_shard_has_not_taken_is_not_missed(program):
    log = billed(program)
    assert list(check_budgets(log)) == []
    shard = shard_of(log, batch=1)
    for _ in range(4):
        shard.step()
    assert list(check_budgets(log)) == []


@pytest.mark.parametrize("amount", ["10", "0"])
def test_a_withdrawal_of_a_wrong_amount_is_found(monkeypatch, amount):
    """An attempt of 100 s at 0.1 is found to have ended after 60."""
    with monkeypatch.context() as patch:
        if amount != "10":
            patch.setattr("engine.billing.event_factory.plain", lambda _number: amount)
        story = Story()
        story.prices({"prices": PRICES})
        story.start("j", 0, 0)
        story.run("j", 0, 0)
        story.end("j", 0, 100, rank="watcher")
        story.late("j", 0, 200, rank="node", ended=NOON + 60 * SECOND)
    told = [finding.what.partition(" ")[2] for finding in check_billing(story.log)]
    assert told == ([] if amount == "10" else ["takes back 0; expected 10"])
