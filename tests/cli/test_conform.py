"""`lahar conform`: how the results of cases are shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.cli.conform import conform

CASES = Path(__file__).parent.parent / "conformance" / "cases"


def test_failures_are_shown_as_golden_text(capsys):
    """One line a case, `ok NAME` or `FAIL NAME: field: expected X, got Y`, reasons below, the sum at the end."""
    assert conform([CASES / "failing.jsonl"], as_json=False) == 1
    assert capsys.readouterr().out == (CASES / "failing.golden.txt").read_text()


def test_failures_are_shown_as_golden_json(capsys):
    assert conform([CASES / "failing.jsonl"], as_json=True) == 1
    written = capsys.readouterr().out
    assert written == (CASES / "failing.golden.jsonl").read_text()
    assert all(list(json.loads(line)) == ["name", "kind", "line", "ok", "failures"] for line in written.splitlines())


def test_several_files_are_summed_up_once(capsys):
    assert conform([CASES / "passing.jsonl", CASES / "passing.jsonl"], as_json=False) == 0
    count = len((CASES / "passing.jsonl").read_bytes().splitlines())
    assert capsys.readouterr().out.splitlines()[-1] == f"{2 * count} passed, 0 failed"


def test_a_missing_file_is_an_error():
    with pytest.raises(FileNotFoundError):
        conform([CASES / "absent.jsonl"], as_json=False)


def test_a_name_that_no_terminal_takes_is_escaped(capsys, tmp_path):
    path = tmp_path / "odd.jsonl"
    path.write_text('{"kind": "condition_append", "name": "\\ud800", "new": "Pending", "expected": {"len": 1}}')
    assert conform([path], as_json=False) == 0
    assert capsys.readouterr().out == "ok \\ud800\n1 passed, 0 failed\n"
