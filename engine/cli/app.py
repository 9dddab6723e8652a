"""The command's frame: the app on which command modules register, and the options that they share.

A command takes `LogOption` and `JsonOption`, so that both may follow its name as well as precede it:

    @app.command(rich_help_panel=Panel.ASK)
    def summary(context: typer.Context, log: LogOption = None, as_json: JsonOption = False) -> None:
        settings, output = settings_of(context, log), output_of(context, as_json)

Its docstring is its help text, followed by `examples=[…]`; errors need not be caught (`ErrorsToExitCodes`).
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from engine import __version__
from engine.cli.commands import COMMANDS
from engine.cli.help import ZONE_HELP, Command, Commands, Group, Panel, use_zone
from engine.cli.output import Output
from engine.gc_pause import collector_paused

if TYPE_CHECKING:
    from engine.runtime.settings import Settings

__all__ = ["ErrorsToExitCodes", "JsonOption", "LogOption", "Panel", "app", "group", "named_log", "output_of", "settings_of"]


LogOption = Annotated[
    str | None,
    typer.Option(
        "--log",
        metavar="URL",
        help="The log: sqlite:PATH, memory:, kafka://HOST:PORT. "
        "Without it LAHAR_LOG, then `log` in lahar.toml, then sqlite:./lahar.db.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Answer in JSON, one object per line.")]


@dataclass(slots=True)
class _Shared:
    """Options before the command's name."""

    log: str | None
    as_json: bool
    config: Path | None = None


class ErrorsToExitCodes(Group):
    """A group that ends every failure with one line on standard error and a documented exit code (`engine.cli.exit_codes`)."""

    def make_context(self, *given: Any, **named: Any) -> Any:  # noqa: ANN401 - whatever typer gives
        """Parse the arguments; `--help` and `--version` answer here."""
        with _exit_codes():
            return super().make_context(*given, **named)

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]  # typer hands its own Context in
        """Run the command.

        Raises:
            typer.Exit: the command failed, with the exit code of its error.
        """
        with _exit_codes():
            return super().invoke(ctx)


@contextmanager
def _exit_codes() -> Iterator[None]:
    try:
        _must_have_output()
        try:
            yield
        except typer.Exit as end:
            if not end.exit_code:
                sys.stdout.flush()
            raise
        sys.stdout.flush()  # here, so that a closed pipe and a full disk are handled below
    except (typer.Exit, typer.Abort, typer.TyperException):
        raise
    except (Exception, KeyboardInterrupt) as error:
        from engine.cli.exit_codes import describe, exit_code, wants_traceback  # noqa: PLC0415 - knows the errors of all packages

        if wants_traceback():
            raise
        if text := describe(error):
            Output().fail(text)
        if isinstance(error, OSError) and sys.stdout is not None:
            _abandon_output()
        raise typer.Exit(exit_code(error)) from None


def _must_have_output() -> None:
    if sys.stdout is None:  # and the next file that is opened would get its number
        raise OSError(errno.EBADF, "it is closed; send it to a file, a pipe or /dev/null", "standard output")


def _abandon_output() -> None:
    """Drop what standard output does not take: the interpreter would fail again when it flushes at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


class Lahar(ErrorsToExitCodes):
    """All commands; each is imported when it is called."""

    def __init__(self, *given: Any, **named: Any) -> None:  # noqa: ANN401 - whatever typer gives
        self._names_only = False
        super().__init__(*given, **named)

    @property  # type: ignore[override]  # of typer's own click, which is private
    def commands(self) -> dict[str, Any]:
        """All commands, imported."""
        for module in _modules():
            _import(module)
        return _imported()

    @commands.setter
    def commands(self, known: dict[str, Any]) -> None:
        self.known = known

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]  # noqa: ARG002 - as above
        """Return the names of the commands, grouped by heading, in the headings' order."""
        return list(COMMANDS)

    def get_command(self, ctx: typer.Context, cmd_name: str) -> Any:  # type: ignore[override]  # noqa: ANN401, ARG002 - as above
        """Return a command; while help is written, only its help text."""
        place = COMMANDS.get(cmd_name)
        if place is None:
            return None
        if self._names_only:
            return Command(cmd_name, help=place.about, rich_help_panel=place.panel)
        _import(place.module)
        return _imported()[cmd_name]

    def format_help(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]  # noqa: ANN401 - as above
        """Write the help text."""
        self._names_only = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._names_only = False


app = Commands(
    name="lahar",
    cls=Lahar,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with [bold]lahar import-trace[/], then [bold]lahar summary[/], [bold]lahar job list[/] and "
    "[bold]lahar why JOB[/].  Exit codes: 0 ok, 1 a finding, 2 bad input, 3 not found, 4 log unavailable, "
    "70 a defect of Lahar, 130 interrupted.",
)


@cache
def _made_of(imported: frozenset[str]) -> dict[str, Any]:  # noqa: ARG001 - what the app knows depends on it
    """Return the commands of the imported modules; typer takes 80 ms for all of them."""
    return cast("Lahar", typer.main.get_group(app)).known


def _import(module: str) -> None:
    """Import a module of commands; without garbage collection, a tenth of the time: what modules make stays."""
    with collector_paused():
        import_module(f"engine.cli.{module}")


def _imported() -> dict[str, Any]:
    """Return the commands whose modules are imported."""
    return _made_of(frozenset(module for module in _modules() if f"engine.cli.{module}" in sys.modules))


def _modules() -> Iterator[str]:
    """Return the modules of all commands."""
    return chain.from_iterable(place.modules for place in COMMANDS.values())


class PartialGroup(Group):
    """A group of commands in two modules (`Place.more`)."""

    def get_command(self, ctx: typer.Context, cmd_name: str) -> Any:  # type: ignore[override]  # noqa: ANN401 - as above
        """Return a command."""
        if cmd_name not in self.commands:
            self._complete()
        return super().get_command(ctx, cmd_name)

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]  # as above
        """Return the names of the commands."""
        self._complete()
        return super().list_commands(ctx)

    def _complete(self) -> None:
        name = self.name or ""
        _import(COMMANDS[name].more)
        self.commands.update(_imported()[name].commands)


def group(name: str, panel: Panel, about: str) -> Commands:
    """Return a new group of commands, `lahar NAME …`, already registered on the app."""
    made = Commands(
        name=name, cls=PartialGroup if COMMANDS[name].more else Group, help=about, no_args_is_help=True, rich_markup_mode="rich"
    )
    app.add_typer(made, rich_help_panel=panel)
    return made


def _show_version(wanted: bool) -> None:
    if wanted:
        Output().line(f"lahar {__version__}")
        raise typer.Exit


@app.callback()
def shared(
    context: typer.Context,
    log: LogOption = None,
    as_json: JsonOption = False,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="The configuration, and no other. Without it LAHAR_CONFIG, then lahar.toml in /etc/lahar, ~/.config/lahar and the "
            "working directory; from the last no callbacks are loaded.",
        ),
    ] = None,
    zone: Annotated[str | None, typer.Option("--tz", metavar="ZONE", envvar="LAHAR_TZ", help=ZONE_HELP)] = None,
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Lahar keeps the truth about every [bold]Job → Task → Replica[/] of a Kubernetes batch platform.

    It reads events of pods, jobs and nodes, writes an ordered, replayable history and answers what happened, when and why.
    """
    context.obj = _Shared(log, as_json, config)
    use_zone(context, zone)


def settings_of(context: typer.Context, log: str | None) -> Settings:
    """Return the settings of this run; `log` is the option after the command's name and takes precedence.

    Raises:
        ValueError: see `load_settings`.
    """
    from engine.runtime.settings import load_settings  # noqa: PLC0415 - its models need what not every command does

    before: _Shared = context.find_object(_Shared) or _Shared(None, as_json=False)
    return load_settings(named_log(context, log), os.environ, Path.cwd(), before.config)


def named_log(context: typer.Context, log: str | None) -> str | None:
    """Return the log that the command line names; `log` is the option after the command's name and takes precedence."""
    before: _Shared = context.find_object(_Shared) or _Shared(None, as_json=False)
    return log or before.log


def output_of(context: typer.Context, as_json: bool) -> Output:
    """Return the output of this command; `--json` may precede or follow its name."""
    before: _Shared = context.find_object(_Shared) or _Shared(None, as_json=False)
    return Output(as_json=as_json or before.as_json)
