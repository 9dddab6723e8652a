"""The command `whatif`: a recorded history with other rules."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.table import Table
from rich.text import Text

from engine.cli.app import JsonOption, LogOption, Panel, app, output_of, settings_of
from engine.cli.arguments import ClusterOption, date_time
from engine.cli.output import Output
from engine.exact_numbers import dumps
from engine.formatting import exact
from engine.simulation.comparison import Compared, Number
from engine.simulation.measures import FIGURES
from lahar import Comparison, Figure, Lahar

MOST_NODES: Final = 100_000
"""Largest `--add-nodes`."""
_OF_JOBS: Final = {"wait_seconds": "wait", "turnaround_seconds": "time to the end"}
_COUNTS: Final = frozenset({"jobs", "began", "finished", "preemptions"})


@app.command(
    "whatif",
    rich_help_panel=Panel.ASK,
    examples=[
        "lahar whatif --scheduler binpack.yaml",
        "lahar whatif --from 2026-03-01 --to 2026-03-08 --queues queues.yaml --job research/train",
        "lahar whatif --nodes nodes.csv --json",
        "lahar whatif --add-nodes 2 --like gpu-01",
    ],
)
def whatif(
    context: typer.Context,
    begin: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Begin; without it when the first job was submitted.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="End; without it until the jobs are over, in each history.")
    ] = None,
    scheduler: Annotated[Path | None, typer.Option("--scheduler", metavar="FILE", help="Other actions and plugins.")] = None,
    queues: Annotated[
        Path | None,
        typer.Option("--queues", metavar="FILE", help="Queue, Tenant and PriorityClass objects, in place of those of their names."),
    ] = None,
    nodes: Annotated[
        Path | None,
        typer.Option(
            "--nodes", metavar="FILE", help="Node objects, or a table sn,cpu_milli,memory_mib,gpu,model, in place of all."
        ),
    ] = None,
    more: Annotated[
        int, typer.Option("--add-nodes", metavar="N", min=0, max=MOST_NODES, help="So many nodes more; see --like.")
    ] = 0,
    like: Annotated[str, typer.Option("--like", metavar="NODE", help="The node that they are like.")] = "",
    jobs: Annotated[
        list[str] | None, typer.Option("--job", metavar="JOB", help="A job with figures of its own; may be repeated.")
    ] = None,
    recorded: Annotated[
        Path | None,
        typer.Option(
            "--recorded", metavar="FILE", help="Actions and plugins that the history had; without it those that it records."
        ),
    ] = None,
    cluster: ClusterOption = None,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Simulate a recorded history with another scheduler, other queues or nodes.

    Submissions, commands, facts about nodes, and how long each pod ran and how it ended stay as they were recorded; what was
    decided is decided anew. The history is also simulated with its own rules: what that differs from the record is the model's
    error. The log is only read.
    """
    if bool(more) != bool(like):
        raise typer.BadParameter("--add-nodes N, 1 or more, and --like NODE go together")
    output, settings = output_of(context, as_json), settings_of(context, log)
    first, last = (None if text is None else date_time(text) for text in (begin, until))
    with Lahar.opened(settings) as opened, output.progress("jobs") as progress:
        task = progress.add_task("simulating twice", total=None)
        answer = opened.what_if(
            scheduler=scheduler,
            queues=queues,
            nodes=nodes,
            add_nodes=more,
            like=like,
            begin=first,
            end=last,
            jobs=jobs or (),
            cluster=cluster,
            recorded=recorded,
            on_start=lambda count: progress.update(task, total=2 * count),
            on_progress=lambda over: progress.update(task, completed=over),
        )
    _warn(output, answer)
    if output.as_json:
        output.line(dumps(answer.document()))
    else:
        _show(output, answer)


def _warn(output: Output, answer: Comparison) -> None:
    for faults, what in ((answer.left_out, "could not be simulated"), (answer.rejected, "were rejected by a simulation")):
        if faults:
            job, why = next(iter(faults.items()))
            output.warn(f"{len(faults):,} jobs {what}; the first: {job}: {why}")
    if answer.open_ended:
        output.warn(
            f"of {len(answer.open_ended):,} jobs it is not known how long they run; they run on; the first: {answer.open_ended[0]}"
        )
    if answer.scheduler == "assumed":
        waits = answer.total["mean_wait_seconds"]
        output.warn(
            "the history does not record its scheduler: that of the settings was taken. Jobs wait "
            f"{_text('mean_wait_seconds', waits.as_it_was)} in the mean with it, {_text('mean_wait_seconds', waits.recorded)} as"
            " recorded; --recorded FILE gives the scheduler that there was"
        )
    elif answer.scheduler == "recorded" and answer.configurations > 1:
        output.warn(f"the scheduler had {answer.configurations} configurations in this time; the first was taken for all of it")
    if answer.livelock:
        first = answer.livelock[0]
        output.warn(f"{len(answer.livelock):,} jobs only stopped each other in a simulation, which ended there; the first: {first}")


def _show(output: Output, answer: Comparison) -> None:
    end = "the end of the jobs" if answer.until is None else exact(answer.until)
    output.console.print(f"cluster {answer.cluster}, from {exact(answer.begin)} to {end}")
    table = Table(box=None, pad_edge=False)
    for number, column in enumerate(("", "RECORDED", "AS IT WAS", "MODEL ERROR", "WHAT IF", "DIFFERENCE")):
        table.add_column(column, no_wrap=True, justify="right" if number else "left")
    _rows(table, "all jobs", answer.total, answer.currency)
    for kind, groups in (("queue", answer.queues), ("job", answer.jobs)):
        for name, figures in groups.items():
            _rows(table, f"{kind} {name}", figures, answer.currency)
    output.console.print(table)


def _rows(table: Table, title: str, figures: Compared, currency: str | None) -> None:
    table.add_row(Text(title, style="bold"))
    for name, figure in figures.items():
        if name == "cost" and currency is None:
            continue
        label = FIGURES[name] if name in FIGURES else _OF_JOBS[name]
        table.add_row(f"  {label}{f', {currency}' if name == 'cost' else ''}", *_cells(name, figure))


def _cells(name: str, figure: Figure) -> list[str]:
    changes = [_text(name, value, signed=True) for value in (figure.model_error, figure.difference)]
    recorded, as_it_was, what_if_ = (_text(name, value) for value in (figure.recorded, figure.as_it_was, figure.what_if))
    return [recorded, as_it_was, changes[0], what_if_, changes[1]]


def _text(name: str, value: Number, *, signed: bool = False) -> str:
    """Return a figure as people read it; a change has its sign, and nothing is 0."""
    if value is None:
        return "-"
    if signed and not value:
        return "0"
    sign = "+" if signed else ""
    if name in _COUNTS:
        return f"{value:{sign},}"
    if name == "utilisation":
        return f"{value:{sign}.1%}"
    if name == "cost":
        return f"{value:{sign},.2f}"
    if name.startswith("gpu_seconds"):
        return f"{Decimal(value) / 3600:{sign},.1f}"
    return f"{value:{sign},.0f} s"
