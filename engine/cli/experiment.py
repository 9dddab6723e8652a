"""The command `experiment`: published claims beside what the simulated cluster shows."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.table import Table

from engine.cli.app import JsonOption, Panel, app, output_of
from engine.cli.checkout import tool
from engine.cli.exit_codes import FINDING
from engine.cli.output_files import check_files, write_files

NAMES: Final = ("gang", "fair-share", "binpack", "task-topology", "notice", "paddlepaddle", "octopus")
"""All experiments, in the order of `all`."""
_ALL: Final = "all"
_PAGE: Final = "experiments.html"


@app.command(
    "experiment",
    rich_help_panel=Panel.TOOLS,
    examples=["lahar experiment gang", "lahar experiment all --json", "lahar experiment all --out experiments"],
)
def experiment(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="One of " + ", ".join([*NAMES, _ALL]) + ".")],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder for experiments.html, a page with plots; without it none.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Reproduce published experiments on a simulated cluster.

    Each experiment runs with a feature and without it (docs/experiments.md). A row has what the report says (seed), what is
    measured (ours), and whether the claim holds with the feature or fails without it. Exit code 1 if a row is not ok.

    The experiments are not installed with Lahar: this works in a checkout of its sources.
    """
    output = output_of(context, as_json)
    if name != _ALL and name not in NAMES:
        raise ValueError(f"no experiment {name!r}; there are {', '.join([*NAMES, _ALL])}")
    if out is not None:
        check_files(out, [_PAGE])
    experiments = tool("experiments", "experiments", "lahar experiment")
    rows = []
    for one in NAMES if name == _ALL else [name]:
        for row in experiments.EXPERIMENTS[one].rows():
            rows.append(row)
            if output.as_json:
                output.record({key: value for key, value in asdict(row).items() if key != "columns"})
    if out is not None:
        write_files(out, {_PAGE: experiments.page(rows)})
    if not output.as_json:
        table = Table(box=None, pad_edge=False)
        for column in ("EXPERIMENT", "MEASURE", "SEED", "OURS", "OK"):
            table.add_column(column)
        for row in rows:
            table.add_row(row.name, row.measure, row.seed, row.ours, "yes" if row.ok else "NO")
        output.console.print(table)
    if not all(row.ok for row in rows):
        raise typer.Exit(FINDING)
