"""Short forms of (a), (b) and (d): of lifecycle workers, and of billing workers.

In every run of the tests, (a) hits lifecycle workers, (b) billing workers, and (d) scheduling workers (`test_chaos_scheduling.py`);
in `make test-slow` each fault hits all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from chaos_bills import billed_world, finish_bill
from chaos_schedules import freeze_workers, kill_workers, leader
from chaos_table import Row
from chaos_world import World

from engine.log.port import Partition

Make = Callable[..., World]
Note = Callable[[Row], None]

_EVENTS = 3_000
_BILLED = 2_000


def test_workers_that_are_killed_lose_and_double_nothing(world: Make, note: Note) -> None:
    here = world("(a) in short", seed=20_170_901, events=_EVENTS)
    here.by_group()
    kill_workers(here, 4)
    here.finish(note, "4 kills")


@pytest.mark.slow
def test_a_worker_that_was_frozen_in_mid_transaction_is_fenced(world: Make, note: Note) -> None:
    here = world("(b) in short", seed=20_170_902, events=_EVENTS)
    here.by_ordinal()
    half = freeze_workers(here, 1, heirs=True)
    here.finish(note, "a freeze", f"{half} records of open transactions were left behind", workers_end=True)


@pytest.mark.slow
def test_a_leader_that_dies_and_comes_back_costs_nothing(world: Make, note: Note) -> None:
    here = world("(d) in short", seed=20_170_904, events=_EVENTS)
    here.by_ordinal()
    here.until_taken(0.2)
    broker = leader(here, Partition("job-events", 0))
    broker.kill()
    here.until_taken(0.7)
    broker.start()
    here.finish(note, "a leader killed", workers_end=True)


@pytest.mark.slow
def test_a_bill_is_the_same_when_its_workers_are_killed(world: Make, note: Note, tmp_path: Path) -> None:
    here = billed_world(world, "(a) of billing in short", 20_170_911, _BILLED, tmp_path)
    here.by_group()
    kill_workers(here, 3)
    finish_bill(here, note, "3 kills", tmp_path)


def test_a_bill_is_the_same_when_a_worker_was_frozen_in_mid_transaction(world: Make, note: Note, tmp_path: Path) -> None:
    here = billed_world(world, "(b) of billing in short", 20_170_912, _BILLED, tmp_path)
    here.by_ordinal()
    half = freeze_workers(here, 1, heirs=True)
    finish_bill(here, note, "a freeze", tmp_path, f"{half} records of open transactions were left behind")


@pytest.mark.slow
def test_a_bill_is_the_same_when_a_leader_dies_and_comes_back(world: Make, note: Note, tmp_path: Path) -> None:
    here = billed_world(world, "(d) of billing in short", 20_170_914, _BILLED, tmp_path)
    here.by_ordinal()
    here.until_taken(0.2)
    broker = leader(here, Partition("billing", 0))
    broker.kill()
    here.until_taken(0.7)
    broker.start()
    finish_bill(here, note, "a leader killed", tmp_path)
