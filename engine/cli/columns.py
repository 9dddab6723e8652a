"""Lists in a terminal: a row for each object, by a table of columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Literal, NamedTuple, TypeVar

from engine.cli.output import Output
from engine.cli.render import whole_table

T = TypeVar("T")


class Column(NamedTuple, Generic[T]):
    """A column of a list."""

    heading: str
    cell: Callable[[T], str]
    form: Literal["", "name", "number", "cluster"] = ""
    """`name`: of any length, shortened in too wide a table; `number`: right-aligned; `cluster`: a name, shown if they differ."""


def show_list(output: Output, found: Sequence[T], columns: Sequence[Column[T]]) -> None:
    """Show a row for each object."""
    shown = [one for one in columns if one.form != "cluster" or len(set(map(one.cell, found))) > 1]
    rows = [tuple(column.cell(one) for column in shown) for one in found]
    names = {column.heading for column in shown if column.form in {"name", "cluster"}}
    right = {column.heading for column in shown if column.form == "number"}
    output.console.print(whole_table(output, [column.heading for column in shown], rows, names, right), soft_wrap=True)
