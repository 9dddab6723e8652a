"""Tools for files: inspect what Lahar reads in Kubernetes objects, run conformance cases."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from engine.cli.app import JsonOption, Panel, app, group, output_of, settings_of
from engine.cli.conform import conform as run_cases
from engine.cli.exit_codes import FINDING
from engine.cli.output import Output
from engine.exact_numbers import dumps
from engine.kubernetes.ingest_report import IngestReport
from engine.kubernetes.observation.inspection import inspect_job, inspect_pod
from engine.kubernetes.reading.documents import Document, Unreadable, read_stream
from engine.kubernetes.reading.object_files import DamagedFileError, open_objects

inspect = group("inspect", Panel.TOOLS, "Show what Lahar reads in Kubernetes objects.")

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="YAML or JSON; - for stdin. Lists and arrays are flattened.")]


@inspect.command("pod", examples=["lahar inspect pod pod.yaml", "kubectl get pods -A -o json | lahar inspect pod -"])
def pod(context: typer.Context, file: FileArgument, as_json: JsonOption = False) -> None:
    """Judge pods by the pod table: state, reason, exit code, node, restarts, effective request.

    Unreadable objects are named on standard error; exit code 1 then, after the others.
    """
    table = settings_of(context, None).accelerators
    columns = ("kind", "namespace", "name", "phase", "state", "reason", "exit_code")
    _inspect(output_of(context, as_json), file, lambda one: inspect_pod(one, table), columns)


@inspect.command("job", examples=["lahar inspect job job.yaml --json"])
def job(context: typer.Context, file: FileArgument, as_json: JsonOption = False) -> None:
    """Read jobs of all known kinds: phase, queue, tasks, requests.

    Unreadable objects are named on standard error; exit code 1 then, after the others.
    """
    table = settings_of(context, None).accelerators
    columns = ("kind", "namespace", "name", "phase", "reason", "queue", "min_available")
    _inspect(output_of(context, as_json), file, lambda one: inspect_job(one, table), columns)


def _inspect(output: Output, file: Path, judge: Callable[[Document], dict[str, Any]], columns: tuple[str, ...]) -> None:
    """Show the objects of a file.

    Raises:
        typer.Exit: an object cannot be read (exit code 1).
        OSError: the file cannot be read.
    """
    tally = IngestReport()
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column.upper(), no_wrap=True)
    try:
        with open_objects(file) as source:
            for item in read_stream(source):
                if fault := tally.add(f"{file}: ", item):
                    output.fail(fault)
                if isinstance(item, Unreadable):
                    continue
                row = judge(item)
                if output.as_json:
                    output.line(dumps(row))
                else:
                    table.add_row(*("-" if row.get(column) is None else str(row[column]) for column in columns))
    except DamagedFileError as error:
        output.fail(tally.miss(str(error)))
    if table.row_count:
        output.console.print(table, soft_wrap=True)
    if not tally.complete:
        output.fail(tally.shortfall())
        raise typer.Exit(FINDING)


@app.command(rich_help_panel=Panel.TOOLS)
def conform(
    context: typer.Context,
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Case files, JSON Lines.")],
    as_json: JsonOption = False,
) -> None:
    """Run conformance cases by the engine's own rules.

    Exit code 1 if one fails.
    """
    raise typer.Exit(run_cases(files, output_of(context, as_json).as_json))
