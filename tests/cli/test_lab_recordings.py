"""Histories of recordings of real controllers say what the controllers said, however the recording was read."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from causes_in_order import must_be_in_order
from lab_recordings import Line, differences, read_recording, shown_by

from engine.history.reading import events_of, history_of
from engine.runtime.opening import opened
from engine.runtime.settings import Settings

SHARED = os.environ.get("LAHAR_SHARED")
pytestmark = pytest.mark.skipif(SHARED is None, reason="LAHAR_SHARED does not say where the recordings are")

LAB = Path(SHARED or "") / "lab"
SCENARIOS = sorted(path.name for path in LAB.iterdir() if path.is_dir()) if SHARED else []

Reading = Callable[[list[Line]], list[list[Line]]]
READINGS: dict[str, Reading] = {
    "as it came": lambda lines: [lines],
    "twice": lambda lines: [lines, lines],
    "cut in two": lambda lines: [lines[: len(lines) * 2 // 3], lines[len(lines) * 2 // 3 :]],
    "with gaps": lambda lines: [[line for number, line in enumerate(lines) if number % 5 != 3 or b'"DELETED"' in line.text[:20]]],
    "neighbours swapped": lambda lines: [[line for number in range(0, len(lines), 2) for line in lines[number : number + 2][::-1]]],
}
"""How the lines are given to `ingest`, call by call."""


@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "as it arrived"])
@pytest.mark.parametrize(
    "reading", [name if name == "as it came" else pytest.param(name, marks=pytest.mark.slow) for name in READINGS]
)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_history_says_what_the_controller_said(lahar, folder, monkeypatch, scenario, reading, recorded):
    parts = READINGS[reading](read_recording(LAB / scenario))
    for number, part in enumerate(parts):
        ingest(lahar, folder / f"{number}.jsonl", part, monkeypatch, recorded=recorded)
    shown = shown_by([line for part in parts for line in part])
    with opened(Settings(log="sqlite:./lahar.db")) as log:
        histories = {uid: events_of(log, uid) for uid in shown}
        assert all(must_be_in_order(history_of(log, uid)) for uid in shown)
    assert list(differences(shown, histories)) == []


def ingest(lahar, file: Path, lines: Sequence[Line], monkeypatch, *, recorded: bool) -> None:
    """Read lines, each of which arrives when it arrived at the recorder."""
    file.write_bytes(b"".join(line.text for line in lines))
    arrivals = iter([line.arrived for line in lines])
    monkeypatch.setattr("engine.cli.feed.now", lambda: next(arrivals))
    lahar("ingest", *(["--recorded"] if recorded else []), file)
