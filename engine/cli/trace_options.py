"""Options by which commands read a trace."""

from __future__ import annotations

from typing import Annotated

import typer

from engine.simulation.traces import FORMATS

FormatOption = Annotated[
    str, typer.Option("--format", metavar="F", help="One of " + ", ".join(FORMATS) + " (docs/traces.md has their columns).")
]
ColumnsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--columns", metavar="A=B", help="The file calls column A of the format B; a=b,c=d or repeated. For formats with a header."
    ),
]


def named_columns(given: list[str] | None) -> dict[str, str]:
    """Return column of the format → its name in the file, as `--columns` gives them.

    Raises:
        ValueError: a pair has another form, or a column is given twice.
    """
    found: dict[str, str] = {}
    for pair in (pair for text in given or () for pair in text.split(",") if pair):
        column, sign, name = (part.strip() for part in pair.partition("="))
        if not (column and sign and name):
            raise ValueError(f"--columns {pair!r} is no pair; write COLUMN=NAME: num_gpu=gpus")
        if column in found:
            raise ValueError(f"--columns gives {column} two names, {found[column]} and {name}")
        found[column] = name
    return found
