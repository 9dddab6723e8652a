"""`lahar bench`: the measures of a checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

NAMES = [
    *("edge-full-pod", "observations-memory", "observations-sqlite", "outputs-per-observation", "fold", "restart-120k-jobs"),
    *("longest-pause", "bytes-per-live-replica", "100k-jobs-vs-100", "trickle-20000-vs-100", "trickle-bytes"),
    *("ten-years-snapshot", "ten-years-memory", "ten-years-file", "listing", "summary", "following", "2000-replicas-vs-1"),
    *("billing", "billing-on-100k-open", "billing-on-100k-over", "bytes-per-open-attempt", "bytes-per-lone-attempt", "hour-mark"),
    *("first-hour-mark", "hour-mark-step", "billing-verify", "billing-export", "billing-export-memory"),
]


def test_a_measure_is_a_record_beside_its_budget(lahar):
    record = lahar("bench", "outputs-per-observation", "--json").record
    fixed = {"measure": "outputs-per-observation", "unit": "events", "floor": None, "budget": None, "met": None, "runs": 1}
    assert 0.7 < record["value"] < 0.8, "seven of ten observations change something, and phases of tasks and jobs follow"
    assert record == {**fixed, "value": record["value"], "spread": 0.0}


def test_an_unknown_measure_is_answered_with_those_that_there_are(lahar):
    assert lahar("bench", "speed", code=2).err.strip().endswith(f"no measure 'speed'; there are {', '.join(NAMES)}")


@pytest.mark.parametrize("missing", ["benchmarks", "pyproject.toml"])
def test_an_installation_has_none_and_says_where_they_are(lahar, folder: Path, monkeypatch: pytest.MonkeyPatch, missing: str):
    """A folder of that name among installed packages is somebody else's."""
    (folder / "benchmarks").mkdir()
    for name in {"benchmarks/bench.py", "pyproject.toml"} - {f"{missing}/bench.py", missing}:
        (folder / name).write_text("raise SystemExit('ran what is not ours')")
    monkeypatch.setattr("engine.cli.checkout._ROOT", folder)
    assert "run `make bench` in a checkout" in lahar("bench", code=2).err
