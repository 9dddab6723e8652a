"""Faults to the workers of both stages while jobs are given notice of preemption: (a), (b), (d)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from broker import Cluster
from chaos_noticed import NoticedWorld
from chaos_table import Row

from engine.log.port import Partition

pytestmark = pytest.mark.chaos

Note = Callable[[Row], None]
ROUNDS = 4
NOTICES = 6
LED = Partition("scheduling", 0), Partition("job-events", 1), Partition("decisions", 2), Partition("preemptions", 3)


def test_notices_are_executed_while_workers_die_freeze_and_lose_leaders(cluster: Cluster, note: Note, tmp_path: Path) -> None:
    with closing(NoticedWorld(cluster, "(a) (b) (d) of notices", 20_171_127, tmp_path)) as here:
        for number in range(ROUNDS):
            for _ in range(3):
                here.kill("scheduling")
                here.until_opened(NOTICES)
                here.kill("lifecycle")
                here.until_opened(NOTICES)
            here.freeze("lifecycle" if number % 2 else "scheduling", NOTICES)
            here.lose_leader(LED[number], NOTICES)
        here.finish(note, f"{6 * ROUNDS} kills, {ROUNDS} freezes, {ROUNDS} leaders killed")
