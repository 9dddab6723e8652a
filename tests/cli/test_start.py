"""A command starts with what it needs: nobody waits for what other commands need."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import lahar
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
PROCESSING = {
    "aiokafka",
    "engine.application.feed",
    "engine.billing.stage",
    "engine.kubernetes.edge",
    "engine.kubernetes.manifests.manifest",
    "engine.lifecycle.stage",
    "engine.processor.processor",
    "engine.runtime.engine",
    "engine.scheduling",
    "engine.simulation",
    "http.server",
    "jsonschema",
    "numpy",
    "prometheus_client",
    "re2",
    "transitions",
    "yaml",
}
POD = {"spec": {"containers": [{"name": "main", "image": "x"}], "restartPolicy": "Never"}}
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


@pytest.mark.parametrize(("arguments", "most"), [(("--version",), 14), (("job", "list"), 133), (("why", "default/train"), 170)])
def test_a_command_that_reads_imports_nothing_that_processes(tmp_path: Path, arguments: tuple[str, ...], most: int) -> None:
    """`most` bounds the modules of the engine: a new import at the top of one that all share shows here."""
    log = f"sqlite:{tmp_path / 'one.db'}"
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}, "spec": {"template": POD}}
    with lahar.open(log) as opened:
        opened.submit(job)
    modules = started("--log", log, *arguments)[1]
    assert modules & PROCESSING == set()
    assert sum(name.partition(".")[0] in {"engine", "statemachines", "streams"} for name in modules) <= most


def test_the_table_is_what_the_commands_say_of_themselves() -> None:
    root = typer.main.get_command(app)
    assert isinstance(root, Lahar)
    commands = root.commands
    assert set(commands) == set(COMMANDS)
    for name, place in COMMANDS.items():
        assert commands[name].rich_help_panel == place.panel, name
        assert (commands[name].help or "").partition("\n\n")[0].replace("\n", " ") == place.about, name
    panels = [place.panel for place in COMMANDS.values()]
    assert panels == sorted(panels, key=list(type(panels[0])).index)


def test_an_unknown_command_is_none() -> None:
    command = [sys.executable, "-c", "from engine.cli.main import main; main()", "sumary"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "No such command 'sumary'" in done.stderr


def test_the_library_imports_what_is_used() -> None:
    code = "import lahar, sys; lahar.Filter; print('engine.history.listing' in sys.modules, *sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    known, *modules = done.stdout.split()
    assert known == "True"
    assert PROCESSING & set(modules) == set()
    places = [getattr(lahar, name) for name in lahar.__all__]
    assert lahar.open in places
    assert set(dir(lahar)) == set(lahar.__all__)
