"""The search for mutants kills a planted one, and finds a planted survivor."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from mutants import PAGE, ROOT, explanations, table
from mutations import mutants_of, sampled

CAP = """\
CAP = 3_600_000_000


def powers() -> list[int]:
    return [2**power for power in range(3)]


UNITS = powers()


def capped(recorded: int, appended: int) -> int:
    return min(recorded, appended + CAP)


def due(at: int, now: int) -> bool:
    return at <= now


def rounded(at: int, unit: int) -> int:
    while at % unit:
        at += 1
    return at


def unused(at: int) -> int:
    return at + 1
"""
TESTS = """\
from clocks.cap import UNITS, capped, due, rounded


def test_a_time_is_capped():
    assert capped(10**16, 5) == 3_600_000_005


def test_what_lies_ahead_is_not_due():
    assert due(1, 2)
    assert not due(3, 2)


def test_times_are_rounded_up():
    assert rounded(3, UNITS[-1]) == 4
"""
OUTCOMES = {
    "CAP | 3_600_000_000 → 3600000000000": "killed",
    "powers | 3 → 4": "killed",
    "due | at <= now → (at < now)": "survived",
    "rounded | at += 1 → pass": "timed out",
    "unused | return at + 1 → return None": "not run",
}
SEARCH = """\
import json, sys
from pathlib import Path
from mutants import Area, mutants_in, run
root, area, wanted = Path(sys.argv[1]), Area(("clocks/*.py",), ("tests",)), sys.argv[2:]
mutants = [mutant for mutant in mutants_in(root, area) if mutant.key.partition(" | ")[2] in wanted]
print(json.dumps({mutant.key.partition(" | ")[2]: outcome for mutant, outcome in run(root, area, mutants, patience=1)}))
"""


def test_mutants_are_killed_survive_or_are_not_run(tmp_path: Path) -> None:
    for name, text in {"clocks/cap.py": CAP, "clocks/__init__.py": "", "tests/test_cap.py": TESTS}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    command = [sys.executable, "-c", SEARCH, str(tmp_path), *OUTCOMES]
    done = subprocess.run(command, check=False, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == OUTCOMES
    assert (tmp_path / "clocks/cap.py").read_text() == CAP


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        ("a = 1 < 2", ["1 < 2 → (1 <= 2)", "1 < 2 → (1 >= 2)", "1 → 2", "2 → 3"]),
        ("a = x and y", ["x and y: without x", "x and y: without y"]),
        ("a = {'x': y, **z}", ["{'x': y, **z}: without 'x'", "{'x': y, **z}: without **"]),
        ("f(x, y=z)", ["f(x, y=z) → pass", "f(x, y=z): without y"]),
        ("a = [b for b in c if b]", ["[b for b in c if b]: without if b"]),
        ("q = 'PRAGMA synchronous=FULL'", ["'PRAGMA synchronous=FULL' → 'PRAGMA synchronous=OFF'"]),
        ("def f(x=True):\n    return x", ["True → False", "return x → return None"]),
        ("try:\n    f()\nexcept E:\n    g()", ["try: f() except E: g(): without except E", "f() → pass", "g() → pass"]),
        ("try:\n    f()\nexcept E:\n    raise", ["f() → pass", "raise → pass"]),
        ("def f() -> 'text':\n    'Text.'\n    raise E(f'{1}')", ["raise E(f'{1}') → pass"]),
    ],
)
def test_changes(code: str, changes: list[str]) -> None:
    assert [mutant.change for mutant in mutants_of("m.py", code)] == changes


def test_a_sample_is_the_same_in_every_run_and_whatever_else_changes() -> None:
    mutants = mutants_of("m.py", CAP)
    half = sampled(mutants, 0.5, "seed")
    assert 0 < len(half) < len(mutants)
    assert [mutant.key for mutant in sampled(mutants_of("m.py", f"# new\n{CAP}"), 0.5, "seed")] == [mutant.key for mutant in half]


def test_a_survivor_that_the_page_explains_is_not_open() -> None:
    mutant = next(mutant for mutant in mutants_of("m.py", "a = x | y"))
    page = "| module | where | change | why |\n|---|---|---|---|\n| `m.py` | `a` | `` x \\| y → (x & y) `` | they are equal |\n"
    explained = explanations(page)
    assert explained == {mutant.key: "they are equal"}
    assert table([(mutant, "survived")], explained).endswith("| all | 1 | 0 | 1 | 0 |")
    assert table([(mutant, "survived")], {}).endswith("| all | 1 | 0 | 0 | 1 |")


@pytest.mark.slow
def test_each_survivor_that_the_page_explains_exists() -> None:
    """Else its code has changed and the explanation speaks of nothing."""
    explained = explanations(PAGE.read_text(encoding="utf-8"))
    modules = {key.partition(" | ")[0] for key in explained}
    known = {mutant.key for module in modules for mutant in mutants_of(module, (ROOT / module).read_text(encoding="utf-8"))}
    assert set(explained) <= known
