"""`lahar diagram`: the three state machines as Mermaid, and the page of the documentation that shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from engine.cli.app import JsonOption, Panel, app, output_of
from statemachines import machine
from statemachines.job import JOB
from statemachines.machine import MachineTable
from statemachines.replica import REPLICA
from statemachines.task import TASK

__all__ = ["MACHINES", "diagram", "page"]

MACHINES: Final[dict[str, MachineTable[Any]]] = {"job": JOB, "task": TASK, "replica": REPLICA}

_HEAD: Final = """\
# State machines

*Written from the tables in `statemachines/` by `make docs`; edit those, not this page.*

A job has tasks, a task has replicas, a replica has attempts (pods) one after another. Each level is one table of
transitions; what stands in brackets is the condition under which a row is taken.
"""


def page() -> str:
    """Return the page with all three diagrams and what is true in each phase, as Markdown."""
    return "\n".join([_HEAD, *(_section(table) for table in MACHINES.values())])


def _section(table: MachineTable[Any]) -> str:
    phases = "\n".join(f"| {name} | {meaning} |" for name, meaning in table.states.items())
    return f"## {table.name}\n\n```mermaid\n{machine.diagram(table)}```\n\n| phase | what is true in it |\n|---|---|\n{phases}\n"


@app.command(rich_help_panel=Panel.TOOLS, examples=["lahar diagram job", "lahar diagram --out docs/machines.md"])
def diagram(
    context: typer.Context,
    level: Annotated[
        Literal["job", "task", "replica"] | None, typer.Argument(metavar="LEVEL", help="Only this machine: job, task or replica.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write a Markdown page with all three to this file.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Draw the state machines of job, task and replica as Mermaid."""
    output = output_of(context, as_json)
    if out is not None:
        out.write_text(page(), encoding="utf-8")
    for name, table in MACHINES.items():
        if level not in (None, name):
            continue
        if output.as_json:
            output.record({"machine": name, "phases": list(table.states), "mermaid": machine.diagram(table)})
        elif out is None:
            output.line(machine.diagram(table))
