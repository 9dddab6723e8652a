"""Short forms of (a), (b) and (d), for every run of the tests."""

from __future__ import annotations

from collections.abc import Callable

from chaos_schedules import freeze_workers, kill_workers, leader
from chaos_table import Row
from chaos_world import World

from engine.log.port import Partition

Make = Callable[..., World]
Note = Callable[[Row], None]

_EVENTS = 3_000


def test_workers_that_are_killed_lose_and_double_nothing(world: Make, note: Note) -> None:
    here = world("(a) in short", seed=20_170_901, events=_EVENTS)
    here.by_group()
    kill_workers(here, 4)
    here.finish(note, "4 kills")


def test_a_worker_that_was_frozen_in_mid_transaction_is_fenced(world: Make, note: Note) -> None:
    here = world("(b) in short", seed=20_170_902, events=_EVENTS)
    here.by_ordinal()
    half = freeze_workers(here, 1, heirs=True)
    here.finish(note, "a freeze", f"{half} records of open transactions were left behind", workers_end=True)


def test_a_leader_that_dies_and_comes_back_costs_nothing(world: Make, note: Note) -> None:
    here = world("(d) in short", seed=20_170_904, events=_EVENTS)
    here.by_ordinal()
    here.until_taken(0.2)
    broker = leader(here, Partition("job-events", 0))
    broker.kill()
    here.until_taken(0.7)
    broker.start()
    here.finish(note, "a leader killed", workers_end=True)
