"""The documentation's page about the command."""

from __future__ import annotations

import pytest
import typer
from command_page import page

from engine.cli.help import examples_of
from engine.cli.main import app


def commands(group, path=()):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


ALL = list(commands(typer.main.get_command(app)))


def test_it_describes_every_command_and_exit_code():
    text = page()
    assert [path for path, _ in ALL if f"\n## lahar {' '.join(path)}\n" not in text] == []
    assert [code for code in (0, 1, 2, 3, 4, 70, 130) if f"\n| {code} | " not in text] == []


@pytest.mark.parametrize(("path", "command"), ALL, ids=lambda value: " ".join(value) if isinstance(value, tuple) else "")
def test_first_lines_are_short_and_examples_use_their_command(path, command):
    first = command.help.partition("\n\n")[0]
    assert len(first) <= 100
    assert first.endswith(".")
    for example in examples_of(command.epilog):
        assert "lahar" in example
        assert " ".join(path) in example
