"""`lahar bench`: measure the budgets of this release on this machine (`benchmarks/bench.py`)."""

from __future__ import annotations

from types import ModuleType
from typing import Annotated

import typer

from engine.cli.app import JsonOption, Panel, app, output_of
from engine.cli.checkout import tool
from engine.cli.exit_codes import FINDING


def _benchmarks() -> ModuleType:
    return tool("bench", "benchmarks", "make bench")


def _complete(incomplete: str) -> list[str]:
    return [name for name in _benchmarks().BUDGETS if name.startswith(incomplete)]


@app.command(rich_help_panel=Panel.TOOLS)
def bench(
    context: typer.Context,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME…]", help="Only these measures.", autocompletion=_complete)
    ] = None,
    runs: Annotated[int | None, typer.Option(min=1, metavar="N", help="Runs of each measure; the median counts.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure speed, memory and pauses beside their budgets; exit code 1 if one is not met.

    The measures are not installed with Lahar: this works in a checkout of its sources.
    """
    if not _benchmarks().bench(output_of(context, as_json), names or [], runs):
        raise typer.Exit(FINDING)
