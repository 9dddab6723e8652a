"""Callbacks that are told of crossed thresholds of budgets: with the guarantees of all others."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from effects_world import START, Clock, Listener, World, listen, opened

from engine.effects.callback_status import stored_statuses
from engine.effects.dispatcher import Dispatcher
from engine.effects.errors import CallbackError, Disable
from engine.effects.executor import InlineExecutor
from engine.effects.lane import GIVE_UP
from engine.effects.notice import BudgetNotice
from engine.effects.registry import Callback, Registry, budget_callback
from engine.events.times import SECOND
from engine.log.port import Partition

BUDGETS = Partition("budgets", 0)


def told(listener: Listener) -> list[tuple[str, int]]:
    return [(notice.tenant, notice.threshold) for notice in listener.told]  # type: ignore[attr-defined]  # of budgets


def listening(listener: Listener, name: str = "listener", tenant: str | list[str] | None = None) -> Callback:
    return budget_callback(name=name, tenant=tenant)(listener)


def test_it_is_told_of_the_tenants_that_it_names_and_of_nothing_else(world: World) -> None:
    world.cross("ml", 50, 80)
    world.commit("job", opened())
    world.cross("web", 50)
    world.cross("ml", 100)
    everybody, one, jobs = Listener(), Listener(), Listener()
    callbacks = listening(everybody), listening(one, "one", ["web", "other"]), listen(jobs, "jobs", level="job")
    world.dispatcher(*callbacks).run_until_quiet(START)
    assert told(everybody) == [("ml", 50), ("ml", 80), ("web", 50), ("ml", 100)]
    assert told(one) == [("web", 50)]
    assert [notice.job for notice in jobs.told] == ["job"]


def test_the_notice_says_what_was_crossed(world: World) -> None:
    (ident,) = world.cross("ml", 80)
    listener = Listener()
    world.dispatcher(listening(listener)).run_until_quiet(START)
    (notice,) = listener.told
    assert isinstance(notice, BudgetNotice)
    assert (notice.id, notice.sequence, notice.tenant, notice.period, notice.threshold) == (ident, 1, "ml", "2026-03", 80)
    assert (notice.amount, notice.budget, notice.currency) == (Decimal(81), Decimal(100), "EUR")
    assert (notice.usage, notice.job, notice.cluster, notice.mode) == ("usage-7", "job-7", "prod-1", "live")
    assert json.loads(notice.cloudevent)["type"] == "lahar.budget.crossed.v1"
    assert str(notice).endswith("tenant ml: 80 % of 2026-03 (81 of 100 EUR) [live]")


def test_what_was_told_is_not_told_again_and_what_failed_is(world: World, clock: Clock) -> None:
    first, *_ = world.cross("ml", 50, 80)
    listener = Listener(ValueError("down"))
    dispatcher = world.dispatcher(listening(listener))
    dispatcher.run_until_quiet(clock())
    assert told(listener) == []
    assert dispatcher.run_until_quiet(clock.advance(2)) == 2
    assert listener.attempts[:2] == [first, first]
    again = Listener()
    world.dispatcher(listening(again)).run_until_quiet(clock())
    assert told(again) == []
    world.cross("ml", 100)
    world.dispatcher(listening(again), started=world.now + 1).run_until_quiet(clock())
    assert [notice.mode for notice in again.told] == ["catchup"]


def test_a_disabled_callback_stays_disabled_and_resumes_at_its_position(world: World, clock: Clock) -> None:
    for name in ("a", "b"):
        world.commit(name, opened())
    world.cross("ml", 50, 80)
    listener = Listener(Disable("gone"))
    callback = listening(listener)
    world.dispatcher(callback).run_until_quiet(clock())
    assert world.outcomes() == [("failed", "callback/listener"), ("disabled", "callback/listener")]
    assert stored_statuses(world.log, [callback])[0].disabled
    world.settle()
    world.commit("a", opened())
    restarted = world.dispatcher(callback)
    restarted.run_until_quiet(clock.advance(10))
    assert told(listener) == []
    restarted.resume("listener", clock())
    restarted.run_until_quiet(clock())
    assert told(listener) == [("ml", 50), ("ml", 80)]
    world.settle()
    assert not stored_statuses(world.log, [callback])[0].disabled


def test_one_that_fails_for_a_day_is_disabled(world: World, clock: Clock) -> None:
    world.cross("ml", 50)
    listener = Listener()
    listener.always = ValueError("down")
    dispatcher = world.dispatcher(listening(listener))
    dispatcher.run_until_quiet(clock())
    dispatcher.run_until_quiet(clock.advance(GIVE_UP / SECOND))
    assert [outcome for outcome, _ in world.outcomes()] == ["failed", "disabled"]


def test_a_replay_tells_nobody(world: World) -> None:
    world.cross("ml", 50, 80)
    listener = Listener()
    dispatcher = world.dispatcher(listening(listener), mode="replay")
    dispatcher.run_until_quiet(START)
    assert (told(listener), dispatcher.withheld) == ([], {"listener": 2})
    assert world.log.cursor("callback/listener") == {}


def test_its_lag_is_that_of_budgets_too(world: World) -> None:
    world.cross("ml", 50, 80)
    callback = listening(Listener())
    assert stored_statuses(world.log, [callback])[0].lag == 2
    dispatcher = Dispatcher(world.log, Registry([callback]), started=START, executor=InlineExecutor())
    dispatcher.run_until_quiet(START)
    assert stored_statuses(world.log, [callback])[0].lag == 0
    assert dispatcher.status()[0].lag == 0
    assert world.log.cursor("callback/listener")[BUDGETS] == 2


@pytest.mark.parametrize("given", [{"tenant": [5]}, {"tenant": 3}, {"tenent": "a"}, {"name": "a b"}, {"time_limit": 0}])
def test_a_callback_that_is_declared_wrongly_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(CallbackError):
        budget_callback(**given)(lambda _notice: None)  # type: ignore[arg-type]  # on purpose
