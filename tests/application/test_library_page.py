"""The Python of docs/library.md and README.md does what they show, and mypy takes it."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

import lahar

ROOT = Path(__file__).parents[2]
PAGES = ("docs/library.md", "README.md")
BLOCKS = re.compile(r"```python\n(.*?)```\n+```text\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_the_example_prints_what_the_page_shows(page: str, tmp_path: Path) -> None:
    blocks = BLOCKS.findall((ROOT / page).read_text(encoding="utf-8"))
    assert blocks
    for number, (code, shown) in enumerate(blocks):
        script = tmp_path / f"example{number}.py"
        script.write_text(code, encoding="utf-8")
        done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, shown, "")
        typed = [sys.executable, "-m", "mypy", "--strict", script]
        checked = subprocess.run(typed, cwd=ROOT, capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stdout


def test_the_page_has_every_field_of_a_filter_and_every_error() -> None:
    page = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")
    filters, errors = page.split("A `Filter` has")[1].split("## Errors")
    named = {name for row in filters.splitlines() if row.startswith("| `") for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert named == {field.name for field in fields(lahar.Filter)}
    raised = {name for name in lahar.__all__ if isinstance(one := getattr(lahar, name), type) and issubclass(one, lahar.LaharError)}
    assert set(re.findall(r"`(\w+Error)`", errors.split("## ")[0])) == raised - {"LaharError"}
