"""A command starts with what it needs: nobody waits for what other commands need."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import typer

from engine.cli.app import Lahar, app
from engine.cli.commands import COMMANDS

HEAVY = {
    "aiokafka",
    "asyncio",
    "engine.events",
    "engine.lifecycle",
    "faust",
    "jsonschema",
    "msgspec",
    "opentelemetry",
    "prometheus_client",
    "pydantic",
    "re2",
    "sqlite3",
    "statemachines",
    "streams",
    "transitions",
    "yaml",
}
RUN = """
import json, sys
from engine.cli.main import app
try:
    app(sys.argv[1:], prog_name="lahar")
except SystemExit as stop:
    assert not stop.code, stop.code
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


def started(*arguments: str) -> tuple[str, set[str]]:
    """Run a command in a process of its own; returns its answer and the modules that it has imported."""
    done = subprocess.run([sys.executable, "-c", RUN, *arguments], capture_output=True, text=True, check=True)
    return done.stdout, set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_help_and_version_import_nothing_heavy(option: str) -> None:
    answer, modules = started(option)
    assert HEAVY & modules == set()
    assert answer.startswith("lahar ") if option == "--version" else all(name in answer for name in COMMANDS)


@pytest.mark.parametrize(
    ("command", "needless"), [("inspect", {"aiokafka", "prometheus_client", "sqlite3"}), ("why", {"aiokafka", "transitions"})]
)
def test_a_command_imports_nothing_that_only_others_need(command: str, needless: set[str]) -> None:
    assert needless & started(command, "--help")[1] == set()


def test_the_table_is_what_the_commands_say_of_themselves() -> None:
    root = typer.main.get_command(app)
    assert isinstance(root, Lahar)
    commands = root.commands
    assert set(commands) == set(COMMANDS)
    for name, (_, panel, about) in COMMANDS.items():
        assert commands[name].rich_help_panel == panel, name
        assert (commands[name].help or "").partition("\n\n")[0].replace("\n", " ") == about, name
    panels = [place.panel for place in COMMANDS.values()]
    assert panels == sorted(panels, key=list(type(panels[0])).index)


def test_an_unknown_command_is_none() -> None:
    command = [sys.executable, "-c", "from engine.cli.main import main; main()", "sumary"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "No such command 'sumary'" in done.stderr
