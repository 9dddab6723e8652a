"""`lahar diagram`: the state machines as Mermaid, and the page of the documentation that shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from engine.cli.app import JsonOption, Panel, app, output_of
from statemachines import machine
from statemachines.job import JOB
from statemachines.machine import MachineTable
from statemachines.notice import NOTICE
from statemachines.replica import REPLICA
from statemachines.task import TASK

MACHINES: Final[dict[str, MachineTable[Any]]] = {"job": JOB, "task": TASK, "replica": REPLICA, "notice": NOTICE}

_HEAD: Final = """\
# State machines

*Written from the tables in `statemachines/` by `make docs`; edit those, not this page.*

A job has tasks, a task has replicas, a replica has attempts (pods) one after another. Each level is one table of
transitions; what stands in brackets is the condition under which a row is taken. A notice of preemption is about several jobs, and
has a table of its own.
"""


def page() -> str:
    """Return the page with all diagrams and what is true in each phase, as Markdown."""
    return "\n".join([_HEAD, *(_section(table) for table in MACHINES.values())])


def _section(table: MachineTable[Any]) -> str:
    phases = "\n".join(f"| {name} | {meaning} |" for name, meaning in table.states.items())
    return f"## {table.name}\n\n```mermaid\n{machine.diagram(table)}```\n\n| phase | what is true in it |\n|---|---|\n{phases}\n"


@app.command(rich_help_panel=Panel.TOOLS, examples=["lahar diagram job", "lahar diagram --out docs/machines.md"])
def diagram(
    context: typer.Context,
    name: Annotated[
        Literal["job", "task", "replica", "notice"] | None,
        typer.Argument(metavar="MACHINE", help="Only this machine: job, task, replica or notice."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write a Markdown page with all of them to this file.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Draw the state machines of job, task, replica and notice as Mermaid."""
    output = output_of(context, as_json)
    if out is not None:
        out.write_text(page(), encoding="utf-8")
    for machine_name, table in MACHINES.items():
        if name not in (None, machine_name):
            continue
        if output.as_json:
            output.record({"machine": machine_name, "phases": list(table.states), "mermaid": machine.diagram(table)})
        elif out is None:
            output.line(machine.diagram(table))
