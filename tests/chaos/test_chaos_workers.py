"""Workers are killed, frozen, and come and go: (a), (b), (c)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from chaos_schedules import freeze_workers, kill_workers
from chaos_table import Row
from chaos_world import World

pytestmark = pytest.mark.chaos

Make = Callable[..., World]
Note = Callable[[Row], None]


@pytest.mark.parametrize("mode", ["ordinal", "group"])
def test_a_workers_are_killed_fifty_times(world: Make, note: Note, mode: str) -> None:
    here = world(f"(a) kill -9 of workers, by {mode}", seed=20_170_801)
    here.by_ordinal() if mode == "ordinal" else here.by_group()
    kill_workers(here, 50)
    here.finish(note, "50 kills")


@pytest.mark.parametrize("mode", ["ordinal", "group"])
def test_b_a_worker_frozen_in_a_transaction_thaws_after_losing_its_shards(world: Make, note: Note, mode: str) -> None:
    here = world(f"(b) a worker frozen in mid-transaction, by {mode}", seed=20_170_802)
    here.by_ordinal() if mode == "ordinal" else here.by_group()
    half = freeze_workers(here, 3, heirs=mode == "ordinal")
    remarks = f"{half} records of open transactions were left behind; each worker was fenced when it was thawed"
    here.finish(note, "3 freezes", remarks, workers_end=mode == "ordinal")


def test_c_workers_join_and_leave_every_few_seconds(world: Make, note: Note) -> None:
    here = world("(c) rebalances", seed=20_170_803)
    here.by_group(3)
    changes = 24
    for change in range(1, changes + 1):
        here.until_taken(change / (changes + 1))
        worker = here.fleet.workers[here.dice.randrange(3)]
        if not worker.wanted:
            worker.start()
        elif sum(found.wanted for found in here.fleet.workers) > 1:
            # In good order as well as without a word.
            worker.ask_to_end() if here.dice.random() < 0.5 else worker.kill()
    for worker in here.fleet.workers:
        if not worker.wanted:
            worker.start()
    here.finish(note, f"{changes} joins and leaves")
