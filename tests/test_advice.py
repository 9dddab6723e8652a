"""What messages, docstrings and pages tell people to type exists: every `lahar …` in them is a command with these options."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from engine.cli.app import app

ROOT = Path(__file__).parents[1]
SOURCES = [path for package in ("engine", "streams", "statemachines") for path in sorted((ROOT / package).rglob("*.py"))]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
QUOTED = re.compile(r"`(lahar [^`\n]*)`")
EXTRAS = re.compile(r"lahar\[([a-z,]+)\]")
CLICK: Any = typer.main.get_command(app)


def advice() -> Iterator[tuple[str, str]]:
    """Yield what is told to be typed, with the file."""
    for path in (*SOURCES, *PAGES):
        # A text may be written in pieces.
        text = re.sub(r'"\s*\n\s*f?"', "", path.read_text(encoding="utf-8"))
        for found in QUOTED.finditer(text):
            yield found[1], str(path.relative_to(ROOT))


ADVICE = sorted(set(advice()))


def problem(line: str) -> str:
    """Return what is wrong with a line; empty: there is such a command, and it has the options."""
    words = shlex.split(line.partition(" | ")[0].partition(" > ")[0].replace("…", " "), comments=True)[1:]
    command = CLICK
    options = {name for parameter in command.params for name in parameter.opts} | {"--help", "-h"}
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word.startswith("-") and word != "-":
            name = word.partition("=")[0]
            found = next((one for one in command.params if name in one.opts), None)
            if name not in options:
                return f"{command.name} has no option {name}"
            skip = found is not None and not found.is_flag and "=" not in word
        elif hasattr(command, "commands"):
            alternatives = [command.get_command(None, name) for name in word.split("|")]
            if None in alternatives:
                return f"{command.name} has no command {word}" if re.fullmatch("[a-z-]+", word) else ""
            command = alternatives[0]
            options |= {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    return ""


def test_there_is_advice() -> None:
    assert len(ADVICE) > 40


@pytest.mark.parametrize(("line", "path"), ADVICE)
def test_what_people_are_told_to_type_exists(line: str, path: str) -> None:
    assert problem(line) == "", path


@pytest.mark.parametrize("line", ["lahar dead-letter list", "lahar run --twice", "lahar job submitt x", "lahar export --jobs x"])
def test_what_does_not_exist_is_found(line: str) -> None:
    assert problem(line)


def test_extras_that_are_told_to_be_installed_exist() -> None:
    declared = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("[project.optional-dependencies]")[2]
    extras = set(re.findall(r"^([a-z]+) = \[", declared.partition("\n[")[0], re.MULTILINE))
    named = {
        extra
        for path in (*SOURCES, *PAGES)
        for found in EXTRAS.finditer(path.read_text(encoding="utf-8"))
        for extra in found[1].split(",")
    }
    assert named
    assert named - extras == set()
