"""What a run printed becomes the table of docs/reliability.md."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from chaos_table import Row, line, markdown, table


@pytest.mark.parametrize(("events", "command"), [(100_000, "`make chaos`"), (2_000, "`LAHAR_CHAOS_EVENTS=2000 make chaos`")])
def test_rows_stand_in_the_document_as_the_run_printed_them(monkeypatch: pytest.MonkeyPatch, events: int, command: str) -> None:
    monkeypatch.setattr("chaos_table.EVENTS", events)
    found = [
        Row("(a) kills", 103_164, "50 kills", 1.5, 2_345, 0, 1, 2, 3, 7),
        Row("(b)", 5, "1", 2, 6, 0, 0, 0, 0, 8, "slow"),
    ]
    rows = list(map(asdict, found))
    printed = "\n".join(["collected 2 items", *(f"tests/x.py{line(row)}\n." for row in rows), table(rows), "2 passed"])
    first, *rest = markdown(printed.splitlines()).splitlines()
    assert first.startswith(f"{command} on 20")
    assert rest == [
        "",
        "| schedule | events | faults | seconds | outputs | lost | doubled | differing | ended |",
        "|---|---|---|---|---|---|---|---|---|",
        "| (a) kills | 103,164 | 50 kills | 1.5 | 2,345 | 0 | 1 | 2 | 3 |",
        "| (b) | 5 | 1 | 2 | 6 | 0 | 0 | 0 | 0 |",
        "",
        "- (b): slow",
    ]
