"""Callbacks told by the commands: modules beside lahar.toml, what is news and what is not, failures that are said."""

from __future__ import annotations

import json
import sys

import pytest
from typer.testing import CliRunner

from engine.cli.main import app
from engine.log.lock import RunLock

JOB = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: %s, namespace: ml}
spec:
  minAvailable: 1
  tasks:
    - name: main
      replicas: 1
      template: {spec: {containers: [{name: c, image: "busybox:1"}]}}
"""

CALLBACKS = """\
from engine.effects import Notice, callback

@callback(level="job")
def announce(notice: Notice) -> None:
    print("told:", notice.mode, notice.name, notice.phase)
"""

FAILING = """\
from engine.effects import Disable, Notice, RetryLater, callback

@callback(level="job")
def announce(notice: Notice) -> None:
    raise %s
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with a log of its own; its modules are forgotten after each command."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delenv("LAHAR_LOG", raising=False)
    (tmp_path / "lahar.toml").write_text('callbacks = ["own_callbacks"]\n')
    monkeypatch.setenv("LAHAR_CONFIG", "lahar.toml")
    for name in ("first", "second"):
        (tmp_path / f"{name}.yaml").write_text(JOB % name)
    yield tmp_path
    sys.modules.pop("own_callbacks", None)


def lahar(*arguments):
    sys.modules.pop("own_callbacks", None)
    return CliRunner().invoke(app, list(arguments))


def told(result):
    return [line for line in result.output.splitlines() if line.startswith("told")]


def test_a_module_beside_the_settings_is_found_and_told(folder):
    (folder / "own_callbacks.py").write_text(CALLBACKS)
    result = lahar("apply", "first.yaml")
    assert result.exit_code == 0
    assert result.output.splitlines()[-1] == "told: live first Pending"


def test_what_is_told_once_is_not_told_by_the_next_command(folder):
    (folder / "own_callbacks.py").write_text(CALLBACKS)
    lahar("apply", "first.yaml")
    assert told(lahar("apply", "second.yaml")) == ["told: live second Pending"]


@pytest.mark.parametrize("times", [(), ("2026-03-02T09:00:00", "2026-03-02T10:00:00")])
def test_what_older_commands_recorded_is_no_news(folder, times):
    """Also where both are played at a time of their own."""
    (folder / "lahar.toml").write_text("")
    lahar("apply", "first.yaml", *(("--at", times[0]) if times else ()))
    (folder / "lahar.toml").write_text('callbacks = ["own_callbacks"]\n')
    (folder / "own_callbacks.py").write_text(CALLBACKS)
    assert told(lahar("apply", "second.yaml", *(("--at", times[1]) if times else ()))) == [
        "told: catchup first Pending",
        "told: live second Pending",
    ]


def test_an_answer_in_json_holds_nothing_that_callbacks_print(folder):
    (folder / "own_callbacks.py").write_text(CALLBACKS)
    result = lahar("apply", "first.yaml", "--json")
    assert [json.loads(line)["outcome"] for line in result.stdout.splitlines()] == ["applied"]
    assert "told: live first Pending" in result.stderr


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ('ValueError("no chat")', "warning: callback announce failed (ValueError: no chat); the next command calls it again"),
        ('Disable("no pager")', "warning: callback announce is disabled ("),
    ],
)
def test_a_callback_that_fails_is_named_and_the_command_succeeds(folder, error, said):
    (folder / "own_callbacks.py").write_text(FAILING % error)
    result = lahar("apply", "first.yaml")
    assert result.exit_code == 0
    assert said in result.stderr


def test_what_a_callback_could_not_take_is_told_by_the_next_command(folder):
    (folder / "own_callbacks.py").write_text(FAILING % 'ValueError("no chat")')
    lahar("apply", "first.yaml")
    (folder / "own_callbacks.py").write_text(CALLBACKS)
    assert told(lahar("run", "--once")) == ["told: catchup first Pending"]


def test_a_module_that_cannot_be_imported_fails_before_any_append(folder):
    (folder / "own_callbacks.py").write_text("import nowhere_to_be_found\n")
    result = lahar("apply", "first.yaml")
    assert result.exit_code == 2
    assert "own_callbacks cannot be imported" in result.stderr
    (folder / "lahar.toml").write_text("")
    assert lahar("job", "list", "--json").stdout == ""


def test_the_callbacks_are_listed_as_they_stand(folder):
    """What failed and disabled a callback counts from the moment when it was reported."""
    (folder / "own_callbacks.py").write_text(CALLBACKS)
    lahar("apply", "first.yaml")
    (standing,) = map(json.loads, lahar("callbacks", "list", "--json").stdout.splitlines())
    assert standing == {
        "name": "announce",
        "origin": "own_callbacks:announce",
        "selector": {"level": ["job"]},
        "lag": 0,
        "state": "live",
        "last_failure": None,
    }
    (folder / "own_callbacks.py").write_text(FAILING % 'Disable("no pager")')
    lahar("apply", "second.yaml")
    standing = json.loads(lahar("callbacks", "list", "--json").stdout)
    assert (standing["state"], standing["last_failure"]["message"]) == ("disabled", "no pager")
    assert standing["lag"] > 0
    page = lahar("callbacks", "list").stdout
    for text in ("announce", "level job", "disabled", "no pager"):
        assert text in page


def test_a_disabled_callback_is_resumed_and_told_what_it_missed(folder):
    (folder / "own_callbacks.py").write_text(FAILING % 'Disable("no pager")')
    lahar("apply", "first.yaml")
    (folder / "own_callbacks.py").write_text(CALLBACKS)
    assert told(lahar("apply", "second.yaml")) == []
    result = lahar("callbacks", "resume", "announce")
    assert (result.exit_code, result.output.splitlines()[0], result.stderr) == (0, "announce: resumed", "")
    assert told(result) == ["told: catchup first Pending", "told: catchup second Pending"]
    standing = json.loads(lahar("callbacks", "list", "--json").stdout)
    assert (standing["state"], standing["last_failure"]["message"]) == ("live", "no pager")


def test_it_is_resumed_beside_a_process_that_runs_the_log(folder):
    """The command then only appends; whoever holds the lock goes on telling."""
    (folder / "own_callbacks.py").write_text(FAILING % 'Disable("no pager")')
    lahar("apply", "first.yaml")
    lahar("run", "--once")
    (folder / "own_callbacks.py").write_text(CALLBACKS)
    with RunLock(folder / "lahar.db").hold():
        result = lahar("callbacks", "resume", "announce")
        assert (result.exit_code, told(result)) == (0, [])
        assert "the engine that runs this log processes it" in result.stderr
        assert json.loads(lahar("callbacks", "list", "--json").stdout)["state"] == "live"
    assert told(lahar("run", "--once")) == ["told: catchup first Pending"]


def test_only_what_is_disabled_can_be_resumed(folder):
    (folder / "own_callbacks.py").write_text(CALLBACKS)
    lahar("apply", "first.yaml")
    unknown = lahar("callbacks", "resume", "anounce")
    assert (unknown.exit_code, unknown.stderr) == (3, "lahar: no callback 'anounce'; registered: announce\n")
    live = lahar("callbacks", "resume", "announce")
    assert live.exit_code == 2
    assert "is not disabled" in live.stderr


@pytest.mark.parametrize("command", [["apply", "first.yaml"], ["run", "--once"], ["callbacks", "list"]])
def test_a_file_of_the_working_directory_that_nobody_named_runs_no_code(folder, monkeypatch, command):
    """A foreign folder: its module is not imported, and not among those that Python looks in; a warning says what to do."""
    (folder / "own_callbacks.py").write_text("from pathlib import Path\nPath('ran').touch()\n" + CALLBACKS)
    lahar("apply", "--no-process", "second.yaml")
    monkeypatch.delenv("LAHAR_CONFIG")
    result = lahar(*command)
    assert result.exit_code == 0
    assert "told" not in result.output.replace("callbacks of", "")
    assert "callbacks of ./lahar.toml are not loaded" in result.stderr
    assert "--config lahar.toml" in result.stderr
    assert not (folder / "ran").exists()
    assert str(folder) not in sys.path
    named = lahar("--config", "lahar.toml", *command)
    assert (named.exit_code, (folder / "ran").exists()) == (0, True)


def test_a_command_that_only_appends_imports_nothing(folder):
    (folder / "own_callbacks.py").write_text("from pathlib import Path\nPath('ran').touch()\n" + CALLBACKS)
    assert lahar("apply", "--no-process", "first.yaml").exit_code == 0
    assert not (folder / "ran").exists()
