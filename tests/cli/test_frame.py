"""Every command ends with an answer or one clear line, and with the documented exit code."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field

import pytest
import typer
from pydantic import BaseModel, TypeAdapter, ValidationError
from typer.testing import CliRunner

from engine import __version__
from engine.cli.app import ErrorsToExitCodes, JsonOption, LogOption, output_of, settings_of, shared
from engine.cli.exit_codes import NotThereError, describe, exit_code
from engine.cli.main import app
from engine.events import UnknownTypeError
from engine.log.errors import FencedError, LogUnavailableError

RUN = CliRunner()
LAHAR = [sys.executable, "-c", "from engine.cli.main import main; main()"]


class Limits(BaseModel):
    size: int


def invalid() -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        Limits.model_validate({"size": "large"})
    return caught.value


def interrupted() -> ValueError:
    """Ctrl-C in a serializer of pydantic."""

    @dataclass
    class Slow:
        size: int = 0

        def __eq__(self, other: object) -> bool:
            raise KeyboardInterrupt

        __hash__ = None

    @dataclass
    class Holder:
        held: Slow = field(default_factory=Slow)

    with pytest.raises(ValueError, match="KeyboardInterrupt") as caught:
        TypeAdapter(Holder).dump_json(Holder(Slow(1)), exclude_defaults=True)
    return caught.value


def failing_app(error: BaseException) -> typer.Typer:
    """The frame of `lahar` around one command that fails."""
    made = typer.Typer(cls=ErrorsToExitCodes, pretty_exceptions_enable=False)
    made.callback()(shared)

    @made.command()
    def fail() -> None:
        raise error

    return made


FAILURES = [
    (UnknownTypeError("x.v1"), 2, "unknown event type 'x.v1'"),
    (ValueError("line 3: no number"), 2, "line 3: no number"),
    (FileNotFoundError(2, "No such file or directory", "jobs.yaml"), 2, "jobs.yaml: No such file or directory"),
    (invalid(), 2, "size: should be a valid integer"),
    (NotThereError("job", "ml/x", "`lahar job list` shows them"), 3, "no job 'ml/x': `lahar job list` shows them"),
    (LogUnavailableError("disk full: free some space and start again"), 4, "disk full"),
    (FencedError("lifecycle/0", 1, 2), 4, "was taken over"),
    (KeyboardInterrupt(), 130, ""),
    (interrupted(), 130, ""),
    (BrokenPipeError(32, "Broken pipe"), 0, ""),
    (KeyError("job"), 70, "defect: KeyError: 'job' (LAHAR_DEBUG=1 shows where)"),
]


@pytest.mark.parametrize(("error", "code", "text"), FAILURES, ids=lambda value: type(value).__name__)
def test_a_failure_is_one_line_and_a_documented_code(error, code, text):
    assert exit_code(error) == code
    assert text in describe(error)
    assert "\n" not in describe(error)


@pytest.mark.parametrize(("error", "code", "text"), [row for row in FAILURES if not isinstance(row[0], BrokenPipeError)])
def test_a_command_that_fails_never_shows_a_traceback(error, code, text, monkeypatch):
    monkeypatch.delenv("LAHAR_DEBUG", raising=False)
    result = RUN.invoke(failing_app(error), ["fail"])
    assert result.exit_code == code
    assert result.stdout == ""
    assert text in result.stderr
    assert "Traceback" not in result.stderr


def test_markup_in_an_error_is_shown_as_it_stands(monkeypatch):
    monkeypatch.delenv("LAHAR_DEBUG", raising=False)
    result = RUN.invoke(failing_app(ValueError("spec.tasks[1].replicas: [bold]x[/] is no number")), ["fail"])
    assert result.stderr == "lahar: spec.tasks[1].replicas: [bold]x[/] is no number\n"


def test_tracebacks_are_shown_to_whoever_asks_for_them(monkeypatch):
    monkeypatch.setenv("LAHAR_DEBUG", "1")
    result = RUN.invoke(failing_app(ValueError("broken")), ["fail"])
    assert isinstance(result.exception, ValueError)


@pytest.mark.parametrize("arguments", [["schema", "--json"], ["schema", "lahar.job.opened.v1"], ["schema"]])
def test_a_reader_who_has_had_enough_is_no_failure(arguments):
    """`lahar schema --json | head -1` ends quietly, whether the answer fits into the buffer or not."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        done = subprocess.run([*LAHAR, *arguments], stdout=closed, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["schema", "--json"], ["schema"]], ids=" ".join)
@pytest.mark.parametrize(
    ("output", "told"),
    [(">&-", "it is closed; send it to a file, a pipe or /dev/null"), ("> /dev/full", "No space left on device")],
)
def test_an_output_that_takes_nothing_is_bad_input_and_named(output, told, arguments, unbuffered):
    shell = ["sh", "-c", f'exec "$@" {output}', "sh", *LAHAR, *arguments]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(shell, stderr=subprocess.PIPE, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (2, f"lahar: standard output: {told}\n")


@pytest.mark.parametrize("arguments", [["ingest"], ["apply", "-"], ["inspect", "pod", "-"], ["import"]], ids=" ".join)
def test_an_input_that_is_closed_is_bad_input_and_named(arguments, tmp_path):
    shell = ["sh", "-c", 'exec "$@" <&-', "sh", *LAHAR, "--log", f"sqlite:{tmp_path}/a.db", *arguments]
    done = subprocess.run(shell, capture_output=True, text=True, check=False)
    told = "lahar: standard input: it is closed; name a file, or send something to it\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", told)


NO_TEXTS = [
    ("--tenant", ["billing", "invoice", "--tenant"]),
    ("--tenant", ["billing", "report", "--tenant"]),
    ("--issuer", ["billing", "export", "--format", "focus-1.2", "--issuer"]),
    ("--by", ["billing", "close", "2023-05", "--by"]),
    ("YYYY-MM", ["billing", "close"]),
    ("--namespace", ["job", "list", "-n"]),
    ("--phase", ["job", "list", "--phase", "Running", "--phase"]),
    ("JOB", ["timeline"]),
]


@pytest.mark.parametrize(("what", "arguments"), NO_TEXTS, ids=lambda value: " ".join(value) if isinstance(value, list) else value)
def test_a_text_that_is_no_utf_8_is_named(what, arguments):
    result = RUN.invoke(app, ["--log", "memory:", *arguments, os.fsdecode(b"a\xff")])
    assert (result.exit_code, result.stderr) == (2, f"lahar: {what} 'a\\udcff' is no UTF-8 text\n")


def test_paths_may_be_any_bytes(tmp_path):
    strange = tmp_path / os.fsdecode(b"a\xff.yaml")
    strange.write_text('{"kind": "Pod", "metadata": {"name": "a"}}')
    assert RUN.invoke(app, ["inspect", "pod", str(strange)]).exit_code == 0
    assert RUN.invoke(app, ["summary", "--log", f"sqlite:{tmp_path}/" + os.fsdecode(b"\xff.db")]).exit_code == 4


@pytest.mark.parametrize("arguments", [["billing", "records"], ["job", "list"]])
def test_a_limit_has_bounds(arguments):
    for limit in ("0", "1000000001", "9" * 20):
        result = RUN.invoke(app, ["--log", "memory:", *arguments, "--limit", limit])
        assert result.exit_code == 2
        assert "for '--limit'" in result.stderr
    assert RUN.invoke(app, ["--log", "memory:", *arguments, "--limit", "1000000000"]).exit_code == 0


def test_version():
    result = RUN.invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"lahar {__version__}\n")


def test_help_names_every_command_under_its_heading():
    result = RUN.invoke(app, ["--help"], env={"COLUMNS": "120", "TERM": "dumb"})
    assert result.exit_code == 0
    for text in ("--log", "--json", "--version", "--install-completion", "Tools", "schema", "diagram", "Exit codes"):
        assert text in result.stdout


def commands(group, path=()):
    for name, command in sorted(getattr(group, "commands", {}).items()):
        yield (*path, name), command
        yield from commands(command, (*path, name))


ALL = list(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("path", [path for path, _ in ALL], ids=" ".join)
def test_every_command_explains_itself(path):
    result = RUN.invoke(app, [*path, "--help"], env={"COLUMNS": "120", "TERM": "dumb"})
    assert result.exit_code == 0
    assert "Usage:" in result.stdout


@pytest.mark.parametrize(("path", "command"), ALL, ids=lambda value: " ".join(value) if isinstance(value, tuple) else "")
def test_every_command_takes_json_and_describes_every_option(path, command):
    if hasattr(command, "commands"):
        return
    names = {name for parameter in command.params for name in parameter.opts}
    assert "--json" in names
    assert [parameter.name for parameter in command.params if not getattr(parameter, "help", None)] == []


@pytest.mark.parametrize("arguments", [["--unknown"], ["unknown"], ["schema", "--unknown"], ["schema", "--out"]])
def test_misuse_is_bad_input(arguments):
    result = RUN.invoke(app, arguments)
    assert result.exit_code == 2
    assert result.stdout == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands_and_event_types(shell):
    """What the shell's completion script asks for is answered."""
    asks = {
        "bash": {"COMP_WORDS": "lahar schema lahar.attempt.en", "COMP_CWORD": "2"},
        "zsh": {"_TYPER_COMPLETE_ARGS": "lahar schema lahar.attempt.en"},
        "fish": {"_TYPER_COMPLETE_ARGS": "lahar schema lahar.attempt.en", "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }
    result = RUN.invoke(app, [], prog_name="lahar", env={"_LAHAR_COMPLETE": f"complete_{shell}", **asks[shell]})
    assert "lahar.attempt.ended.v1" in result.stdout


def options_app() -> typer.Typer:
    made = typer.Typer(cls=ErrorsToExitCodes, pretty_exceptions_enable=False)
    made.callback()(shared)

    @made.command()
    def where(context: typer.Context, log: LogOption = None, as_json: JsonOption = False) -> None:
        output = output_of(context, as_json)
        output.record({"log": settings_of(context, log).log, "json": output.as_json})

    return made


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["where"], {"log": "sqlite:./lahar.db", "json": False}),
        (["--log", "memory:", "where"], {"log": "memory:", "json": False}),
        (["where", "--log", "memory:", "--json"], {"log": "memory:", "json": True}),
        (["--log", "sqlite:a", "--json", "where", "--log", "sqlite:b"], {"log": "sqlite:b", "json": True}),
    ],
)
def test_shared_options_may_stand_before_or_after_the_command(arguments, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAHAR_LOG", raising=False)
    assert json.loads(RUN.invoke(options_app(), arguments).stdout) == expected
