"""`lahar schema`: the vocabulary for programs, as JSON Schema."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.table import Table

from engine.cli.app import JsonOption, Panel, app, output_of
from engine.cli.exit_codes import NotThereError
from engine.events.docstrings import summary
from engine.events.schema import json_schema
from engine.events.topics import TOPICS, level, types_by_topic
from engine.events.vocabulary import TYPES
from statemachines.names import hint


def _complete_type(incomplete: str) -> list[str]:
    return [name for name in TYPES if name.startswith(incomplete)]


@app.command(rich_help_panel=Panel.TOOLS, examples=["lahar schema", "lahar schema lahar.job.opened.v1"])
def schema(
    context: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(metavar="TYPE", help="Print the JSON Schema of this event type.", autocompletion=_complete_type),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the event types, or the JSON Schema of one."""
    output = output_of(context, as_json)
    if name is not None:
        if name not in TYPES:
            raise NotThereError("event type", name, f"`lahar schema` lists them all{hint(name, TYPES)}")
        if output.as_json:
            output.record(json_schema(name))
        else:
            output.line(json.dumps(json_schema(name), indent=2, ensure_ascii=False))
    elif output.as_json:
        for topic, classes in types_by_topic().items():
            for cls in classes:
                output.record({"type": cls.TYPE, "level": level(cls), "topic": topic, "stability": cls.STABILITY})
    else:
        for topic, classes in types_by_topic().items():
            table = Table(title=TOPICS[topic].title, title_justify="left", box=None, show_header=False, pad_edge=False)
            table.add_column(no_wrap=True, min_width=30, style="cyan")
            table.add_column()
            for cls in classes:
                table.add_row(cls.TYPE, " ".join(summary(cls).partition("\n\n")[0].split()))
            output.console.print(table, "")
