"""The list of bounds in docs/reliability.md names what there is."""

from __future__ import annotations

import re
from pathlib import Path

from engine.billing import usage_segments
from engine.budgets import state as budgets
from engine.events import bounds
from engine.kubernetes.observation import cluster_facts
from engine.lifecycle import held_inputs, indexes, stage, steps
from engine.log import port, producer_time
from engine.processor import shard_run as run
from engine.scheduling.plugins import task_topology
from engine.scheduling.state import model_sync
from statemachines import raising

ROOT = Path(__file__).parents[2]
SECTION = (
    (ROOT / "docs/reliability.md").read_text(encoding="utf-8").partition("## What one input may cost")[2].partition("\n## ")[0]
)
HOMES = [
    bounds,
    budgets,
    cluster_facts,
    held_inputs,
    indexes,
    stage,
    steps,
    port,
    producer_time,
    run,
    raising,
    usage_segments,
    task_topology,
    model_sync,
]


def test_every_bound_is_listed_and_every_listed_one_is_there() -> None:
    listed = set(re.findall(r"`([A-Z][A-Z_0-9]+)`", SECTION))
    assert set(bounds.__all__) <= listed
    assert [name for name in listed if not any(hasattr(home, name) for home in HOMES)] == []


def test_numbers_are_those_of_the_bounds() -> None:
    for name, shown in re.findall(r"`([A-Z][A-Z_0-9]+)` \(([0-9,]+(?: [KM]iB)?)(?=[,;)])", SECTION):
        home = next(home for home in HOMES if hasattr(home, name))
        number, _, unit = shown.replace(",", "").partition(" ")
        real = getattr(home, name) // {"": 1, "KiB": 1 << 10, "MiB": 1 << 20}[unit]
        assert real == int(number), name


def test_tests_that_are_named_are_there() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", SECTION)
    assert len(named) > 30
    for path, name in named:
        assert f"def {name}" in (ROOT / path).read_text(encoding="utf-8"), f"{path}::{name}"
