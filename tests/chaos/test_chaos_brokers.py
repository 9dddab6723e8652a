"""Brokers die, restart and stall under running workers: (d), (e)."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from chaos_schedules import leader, lose_brokers, until_in_sync
from chaos_table import Row
from chaos_world import World

from engine.log.port import Partition

pytestmark = pytest.mark.chaos

Make = Callable[..., World]
Note = Callable[[Row], None]


def test_d_leader_and_controller_die_and_all_brokers_restart_in_turn(world: Make, note: Note) -> None:
    here = world("(d) brokers killed and restarted", seed=20_170_804)
    here.by_ordinal()
    lose_brokers(here, len(here.given) // 14, roll=True)
    here.finish(note, "2 leaders and a controller killed, 3 restarted in turn", workers_end=True)


def test_e_brokers_stall_and_come_back(world: Make, note: Note) -> None:
    here = world("(e) a broker frozen, then healed", seed=20_170_805)
    here.by_group()
    share = len(here.given) // 10
    longest = 0.0
    here.until_more(share)
    for number in range(4):
        broker = here.cluster.controller() if number == 3 else leader(here, Partition("job-events", number))
        broker.freeze()
        began = time.monotonic()
        # The others notice after 3 s, and lead from then on.
        here.until_more(share)
        longest = max(longest, time.monotonic() - began)
        broker.thaw()
        until_in_sync(here)
    here.finish(note, "3 leaders and a controller frozen", f"frozen for {longest:.0f} s at the longest", workers_end=True)
