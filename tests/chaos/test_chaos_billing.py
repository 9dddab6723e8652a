"""The bill is the same, byte for byte, whatever happens to billing workers, brokers and snapshots: (a), (b), (d), (h)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from chaos_bills import billed_world, finish_bill
from chaos_schedules import freeze_workers, kill_workers, lose_brokers
from chaos_snapshots import SNAPSHOTS, damage_snapshots
from chaos_table import EVENTS, Row
from chaos_world import World

pytestmark = pytest.mark.chaos

Make = Callable[..., World]
Note = Callable[[Row], None]

_EVENTS = EVENTS // 3
"""Jobs that never end are recorded hour by hour: the bill of a hundred thousand job events has half a million records."""


@pytest.mark.parametrize("mode", ["ordinal", "group"])
def test_a_workers_of_billing_are_killed_fifty_times(world: Make, note: Note, tmp_path: Path, mode: str) -> None:
    here = billed_world(world, f"(a) kill -9 of billing workers, by {mode}", 20_170_821, _EVENTS, tmp_path)
    here.by_ordinal() if mode == "ordinal" else here.by_group()
    kill_workers(here, 50)
    finish_bill(here, note, "50 kills", tmp_path)


@pytest.mark.parametrize("mode", ["ordinal", "group"])
def test_b_a_worker_of_billing_is_frozen_in_mid_transaction(world: Make, note: Note, tmp_path: Path, mode: str) -> None:
    here = billed_world(world, f"(b) a billing worker frozen in mid-transaction, by {mode}", 20_170_822, _EVENTS, tmp_path)
    here.by_ordinal() if mode == "ordinal" else here.by_group()
    half = freeze_workers(here, 3, heirs=mode == "ordinal")
    finish_bill(here, note, "3 freezes", tmp_path, f"{half} records of open transactions were left behind")


def test_d_brokers_of_billing_are_killed_and_restarted(world: Make, note: Note, tmp_path: Path) -> None:
    here = billed_world(world, "(d) brokers of billing killed and restarted", 20_170_824, _EVENTS, tmp_path)
    here.by_ordinal()
    lose_brokers(here, len(here.given) // 14, roll=True)
    finish_bill(here, note, "2 leaders and a controller killed, 3 restarted in turn", tmp_path)


def test_h_snapshots_of_billing_are_lost_torn_or_of_another_version(world: Make, note: Note, tmp_path: Path) -> None:
    here = billed_world(world, "(h) snapshot of billing missing, torn, of another version", 20_170_828, _EVENTS, tmp_path)
    here.by_ordinal()
    finish_bill(here, note, damage_snapshots(here), tmp_path, SNAPSHOTS)
