"""Faults to the scheduling worker: (a), (b), (d)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from broker import Cluster
from chaos_schedules import until_in_sync
from chaos_scheduling import ScheduledWorld
from chaos_table import Row

from engine.log.port import Partition

Note = Callable[[Row], None]
JOBS = 10
ROUNDS = 3


def test_the_leader_of_its_output_dies_and_comes_back(cluster: Cluster, note: Note, tmp_path: Path) -> None:
    with closing(ScheduledWorld(cluster, "(d) of scheduling in short", tmp_path, 2 * JOBS)) as here:
        here.lose_leader(Partition("scheduling", 0), JOBS)
        here.finish(note, "a leader killed")


@pytest.mark.chaos
def test_it_is_killed_and_frozen_and_loses_its_leaders(cluster: Cluster, note: Note, tmp_path: Path) -> None:
    with closing(ScheduledWorld(cluster, "(a) (b) (d) of scheduling", tmp_path, ROUNDS * 6 * JOBS)) as here:
        for number in range(ROUNDS):
            here.kill(JOBS)
            here.freeze(JOBS)
            place = Partition("decisions", number % 4) if number % 2 else Partition("scheduling", 0)
            here.lose_leader(place, JOBS)
            until_in_sync(here)
        here.finish(note, f"{ROUNDS} kills, {ROUNDS} freezes, {ROUNDS} leaders killed")
