"""The counters of a shard are a fold over what it wrote, and come back from a snapshot."""

from __future__ import annotations

from typing import Any

from engine.events import Event, encode
from engine.events.outcomes import Accounted, DeadLettered, InputReleased
from engine.lifecycle.stage import LifecycleStage
from engine.log.memory import MemoryLog
from engine.processor.accounts import Accounts
from engine.processor.processor import Processor

LETTER = DeadLettered("no event", "pods", 0, 7, "job", "")


def folded(accounts: Accounts, sequence: int, basis: int, data: Any) -> Accounts:
    event = Event(f"e{sequence}", "s", data.TYPE, "job", 1, 1, sequence, "job", "", "", data)
    accounts.fold(event, (basis,), sequence, lambda _: "parked")
    return accounts


def some() -> Accounts:
    accounts = Accounts()
    folded(accounts, 1, 1, LETTER)
    folded(accounts, 2, 2, InputReleased("x", "parked", "applied"))
    folded(accounts, 3, 5, Accounted(1, duplicate=2, unchanged=1, late=4))
    return folded(accounts, 4, 9, Accounted(1, unchanged=1))


def test_each_output_counts_once() -> None:
    accounts = some()
    again = folded(accounts, 4, 9, Accounted(1, unchanged=1))
    assert {name: number for name, number in again.outcomes.items() if number} == {
        "dead": 1,
        "duplicate": 2,
        "unchanged": 2,
        "late": 4,
        "applied": 1,
    }
    assert (again.accounted, again.through) == (2, 4)


def test_of_one_input_only_the_first_output_says_what_became_of_it() -> None:
    accounts = folded(some(), 5, 10, LETTER)
    folded(accounts, 6, 10, LETTER)
    assert accounts.outcomes["dead"] == 2


def test_accounts_come_back_from_a_snapshot() -> None:
    accounts = some()
    accounts.received = 10
    found = Accounts.load(accounts.dump())
    assert (found.received, found.outcomes, found.accounted, found.through) == (10, accounts.outcomes, 2, 4)
    assert found.balanced
    folded(found, 5, 2, LETTER)
    assert found.outcomes["dead"] == 1, "it belongs to an input that the snapshot has counted"


def test_an_account_that_a_producer_writes_is_a_dead_letter():
    """A stage that reads another one's topic takes its accounts; on inputs of producers there are none."""
    log = MemoryLog()
    event = Event("a1", "test", Accounted.TYPE, "lifecycle/0", 1, 1, 1, "", "", "", Accounted(1, unchanged=1))
    log.append("pods", [encode(event, "lifecycle/0")])
    processor = Processor(log, LifecycleStage())
    processor.open()
    processor.run_until_quiet()
    assert processor.accounts.outcomes["dead"] == 1
