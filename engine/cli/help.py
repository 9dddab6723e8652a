"""Layout of `--help`: headings in one order, arguments by the names used in the text, examples below."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.markup import escape
from rich.text import Text
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.models import CommandFunctionType

from engine.controls import must_be_text, must_not_be_empty
from engine.moments import before_now, zone_of

if TYPE_CHECKING:
    from typer._click import Context, HelpFormatter  # private: for annotations alone

ZONE_HELP: Final = "Time zone (IANA name) of times without an offset, and in which times are shown; UTC unless given."


class Panel(StrEnum):
    """Headings of `lahar --help`, in order."""

    RUN = "Run"
    PUT = "Put in"
    ASK = "Ask"
    OPERATE = "Operate"
    TOOLS = "Tools"


_EXAMPLES: Final = "[bold]Examples[/]"


def use_zone(context: typer.Context, zone: str | None) -> None:
    """Read and show times in a zone until the command ends."""
    if zone is not None:
        from engine.formatting import SHOWN_ZONE  # noqa: PLC0415 - `--help` does not need it

        token = SHOWN_ZONE.set(zone_of(zone))
        context.call_on_close(lambda: SHOWN_ZONE.reset(token))


@cache
def _zone_option() -> Any:  # noqa: ANN401 - of typer's own click
    """Return the option `--tz` as typer makes it."""

    def command(
        _zone: Annotated[
            str | None, typer.Option("--tz", metavar="ZONE", help=ZONE_HELP, expose_value=False, callback=use_zone)
        ] = None,
    ) -> None:
        """Do nothing."""

    app = typer.Typer(add_completion=False)
    app.command()(command)
    return typer.main.get_command(app).params[0]


class Command(TyperCommand):
    """A command of `lahar`."""

    def get_params(self, ctx: Context) -> list[Any]:
        """Return its parameters with that of all commands."""
        *own, help_option = super().get_params(ctx)
        return [*own, _zone_option(), help_option]

    def format_help(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write the help text."""
        _leave_out_types(self.get_params(ctx))
        super().format_help(ctx, formatter)

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Parse the arguments; if one of them is a time, `-1h` is not an option.

        Raises:
            ValueError: a text is no UTF-8, or that of an option without a default is empty. Paths, and the URL of the log, may be
                any bytes.
        """
        if any(isinstance(one, TyperArgument) and (one.metavar or "").startswith("TIME") for one in self.params):
            args = [text.removeprefix("-") if before_now(text) is not None else text for text in args]
        rest = super().parse_args(ctx, args)
        for one in self.params:
            value = None if one.name == "log" else ctx.params.get(one.name or "")
            for text in value if isinstance(value, list | tuple) else (value,):
                if isinstance(text, str):
                    named = one.metavar or "" if isinstance(one, TyperArgument) else one.opts[0]
                    must_be_text(named, text)
                    if isinstance(one, TyperOption) and one.default is None:
                        must_not_be_empty(named, text)
        return rest


class Group(TyperGroup):
    """A group of commands."""

    def format_help(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write the help text."""
        _leave_out_types(self.get_params(ctx))
        super().format_help(ctx, formatter)

    def list_commands(self, ctx: Context) -> list[str]:
        """Return the names of the commands, grouped by heading, in the headings' order."""
        return sorted(super().list_commands(ctx), key=self._place)

    def _place(self, name: str) -> int:
        panel = getattr(self.commands[name], "rich_help_panel", None)
        return list(Panel).index(Panel(panel)) if panel in list(Panel) else -1


def _leave_out_types(parameters: Iterable[object]) -> None:
    """Remove the Python types of arguments and flags: `<bool>` has no meaning for users."""
    for parameter in parameters:
        if isinstance(parameter, TyperOption) and parameter.is_flag and parameter.metavar is None:
            parameter.metavar = ""
        elif isinstance(parameter, TyperArgument) and parameter.metavar is not None:
            parameter.display_type_rich = _nothing  # type: ignore[method-assign]  # typer has no other way to say so


def _nothing(ctx: Context) -> None:  # noqa: ARG001 - typer hands its context in
    return None


class Commands(typer.Typer):
    """A typer app whose commands may have examples."""

    def command(
        self,
        name: str | None = None,
        *,
        examples: Sequence[str] = (),
        **given: Any,  # noqa: ANN401 - whatever typer takes
    ) -> Callable[[CommandFunctionType], CommandFunctionType]:
        """Register a command, as typer does.

        Args:
            name: its name; default the function's.
            examples: commands, `lahar …`; shown below its options.
            given: see typer.
        """
        epilog = "\n".join((_EXAMPLES, *(f"  {escape(line)}" for line in examples))) if examples else None
        return super().command(name, cls=Command, epilog=epilog, **given)


def examples_of(epilog: str | None) -> list[str]:
    """Return the examples in a command's epilog."""
    head, *lines = Text.from_markup(epilog or "").plain.split("\n")
    return [line.strip() for line in lines] if head == Text.from_markup(_EXAMPLES).plain else []
