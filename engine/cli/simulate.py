"""The command `simulate`: a trace on a cluster that exists in memory."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.table import Table

from engine.application.arguments import wall_clock as now
from engine.application.simulation import Scenario, conduct_of, nodes_of, objects_of, simulate
from engine.cli.app import JsonOption, LogOption, Panel, app, named_log, output_of, settings_of
from engine.cli.exit_codes import FINDING
from engine.cli.output import Output
from engine.cli.output_files import check_files, write_files
from engine.cli.trace_options import ColumnsOption, FormatOption, named_columns
from engine.exact_numbers import dumps
from engine.simulation import cluster_of, sample_trace
from engine.simulation.incidents import read_incidents
from engine.simulation.livelock import STOPS
from engine.simulation.machines import sample_nodes, sample_of
from engine.simulation.results import Results
from engine.simulation.traces import read_trace, with_tenants
from engine.simulation.workload import plan

_FILES: Final = ("results.json", "jobs.csv", "report.html")
_TOLD: Final = 5
"""Waiting jobs that are named on the terminal."""


@app.command(
    "simulate",
    rich_help_panel=Panel.TOOLS,
    examples=[
        "lahar simulate --jobs 500 --gpus 64",
        "lahar simulate --trace philly.csv.gz --format philly --nodes nodes.csv.gz --gpus 500 --speed-up 2",
        "lahar simulate --nodes nodes.yaml --queues queues.yaml --scheduler scheduler.yaml --log sqlite:what-if.db",
    ],
)
def simulate_command(
    context: typer.Context,
    trace: Annotated[
        Path | None,
        typer.Option("--trace", metavar="FILE", help="A trace, plain or .gz; without it the sample that ships with Lahar."),
    ] = None,
    source_format: FormatOption = "philly-status",
    columns: ColumnsOption = None,
    nodes: Annotated[
        Path | None,
        typer.Option(
            "--nodes",
            metavar="FILE",
            help="Node objects, or a table sn,cpu_milli,memory_mib,gpu,model; without it Alibaba's 1,523 nodes of 2023.",
        ),
    ] = None,
    gpus: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Only so many of the nodes, evenly chosen, that they have N GPUs at most."),
    ] = None,
    queues: Annotated[
        Path | None, typer.Option("--queues", metavar="FILE", help="Queue, Tenant and PriorityClass objects; other queues weigh 1.")
    ] = None,
    scheduler: Annotated[
        Path | None,
        typer.Option("--scheduler", metavar="FILE", help="Actions and plugins; without it the settings', else Volcano's."),
    ] = None,
    incidents: Annotated[
        Path | None,
        typer.Option("--incidents", metavar="FILE", help="A table seconds,what,name,replicas: nodes lost, jobs resized, …"),
    ] = None,
    speed_up: Annotated[
        float, typer.Option("--speed-up", metavar="X", help="Submissions follow each other X times faster; run times stay.")
    ] = 1.0,
    jobs: Annotated[int | None, typer.Option(min=1, metavar="N", help="Only the first N jobs.")] = None,
    tenants: Annotated[
        int | None, typer.Option("--tenants", min=1, metavar="N", help="Spread the jobs over N tenants, user modulo N.")
    ] = None,
    privileged: Annotated[
        list[str] | None,
        typer.Option(
            "--privileged", metavar="JOB", help="A job of the trace that is submitted as privileged, again for each; see --queues."
        ),
    ] = None,
    acknowledge: Annotated[
        float | None,
        typer.Option(
            "--acknowledge",
            metavar="SECONDS",
            help="Jobs that are given notice have saved their work after so long, and let their places go; without it they wait.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for results.json, jobs.csv and report.html.")] = Path(
        "simulation"
    ),
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Simulate the jobs of a trace on a cluster in memory, by the same stages.

    The stages are those of production; the clock and the cluster are simulated. The same inputs give the same bytes. Without --log
    the history ends with the command; with it, it stays in that log, which must be new. Exit code 1 if jobs wait at the end.
    """
    output = output_of(context, as_json)
    settings = settings_of(context, log)
    check_files(out, _FILES)
    if scheduler is not None:
        settings = settings.model_copy(update={"scheduler_config": scheduler})
    began = now()
    with output.busy("reading"):
        with nullcontext(trace) if trace is not None else sample_trace(source_format) as file:
            cluster = cluster_of(file)
            rows = read_trace(file, source_format, named_columns(columns))
            rows = rows if tenants is None else with_tenants(rows, tenants)
            chosen = privileged or ()
            workload = plan(rows, source_format, cluster, speed_up=speed_up, most=jobs, privileged=chosen)
        with nullcontext(nodes) if nodes is not None else sample_nodes() as table:
            machines = nodes_of(table, settings.accelerators)
        if gpus is not None:
            machines = sample_of(machines, gpus)
        objects = objects_of(queues) if queues is not None else []
        happenings = read_incidents(incidents) if incidents is not None else []
    with output.progress("jobs") as progress:
        task = progress.add_task("simulating", total=len(workload.jobs))
        results = simulate(
            Scenario(cluster, workload, machines, objects, happenings, conduct_of(acknowledge)),
            settings,
            keep=named_log(context, log) is not None,
            warn=output.warn,
            on_progress=lambda over: progress.update(task, completed=over),
        )
    for key, what in (("left_out", "rows make no simulated job"), ("rejected", "jobs were rejected")):
        fault = results.document[key]
        if fault["rows"]:
            output.warn(f"{fault['rows']:,} {what}; the first: line {fault['line']}: {fault['reason']}")
    if livelock := results.document["livelock"]:
        output.warn(
            f"{len(livelock):,} jobs only stop each other: each pod that runs was stopped {STOPS} times before, and none got "
            "further meanwhile. The simulation ends here; give --scheduler actions and plugins with which evictions come to an end"
        )
    title = f"{cluster} on {len(machines):,} nodes"
    write_files(out, dict(zip(_FILES, (dumps(results.document) + "\n", results.table(), results.page(title)), strict=True)))
    if output.as_json:
        output.line(dumps(results.document))
    else:
        _show(output, results, out, (now() - began) / 1_000_000)
    if results.document["waiting"]:
        raise typer.Exit(FINDING)


def _show(output: Output, results: Results, folder: Path, took: float) -> None:
    document = results.document
    totals, means = document["totals"], document["means"]
    output.console.print(
        f"{totals['jobs']:,} jobs, {totals['nodes']:,} nodes, {totals['gpus']:,} GPUs: "
        f"{float(document['simulated_seconds']) / 86_400:,.1f} days simulated in {took:.1f} s, "
        f"{totals['jobs'] / took:,.0f} a second"
    )
    output.console.print(
        f"utilisation {means['utilisation']:.1%}, imbalance {means['imbalance']:.1%}, fragmentation {means['fragmentation']:.1%}, "
        f"fairness {means['fairness']:.3f}, {totals['preemptions']:,} pods preempted"
    )
    table = Table(box=None, pad_edge=False)
    for column in ("QUEUE", "JOBS", "BEGAN", "MEAN WAIT", "P99 WAIT", "GPU HOURS"):
        table.add_column(column, no_wrap=True, justify="left" if column == "QUEUE" else "right")
    for name, queue in document["queues"].items():
        waits = queue["wait_seconds"]
        cells = ["-" if waits[key] is None else f"{waits[key]:,.0f} s" for key in ("mean", "p99")]
        table.add_row(name, f"{queue['jobs']:,}", f"{waits['n']:,}", *cells, f"{float(queue['gpu_seconds']) / 3600:,.1f}")
    output.console.print(table)
    waiting = document["waiting"]
    for job in waiting[:_TOLD]:
        output.console.print(f"{job['name']} (line {job['line']}) waits: {job['why']}", soft_wrap=True)
    if len(waiting) > _TOLD:
        output.console.print(f"{len(waiting) - _TOLD:,} more jobs wait; results.json has them all")
    output.console.print(f"results.json, jobs.csv and report.html are in {folder}")
