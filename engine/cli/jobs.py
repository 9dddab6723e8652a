"""`lahar job …`: list, show; `job_commands` has the rest."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from engine.cli.app import JsonOption, LogOption, Panel, group, output_of, settings_of
from engine.cli.arguments import MOST_SHOWN, ClusterOption, JobArgument, NamespaceOption, moment, several
from engine.cli.columns import Column, show_list
from engine.cli.output import Output
from engine.cli.render import render_job
from engine.exact_numbers import dumps
from engine.formatting import length, stamp
from lahar import Filter, JobLine, Lahar
from statemachines.vocabulary import JOB_PHASES

jobs = group("job", Panel.ASK, "List and show jobs; submit, command and release them.")


@jobs.command("list", examples=["lahar job list --limit 20", "lahar job list --phase Failed,Aborted --since 2h --json"])
def list_jobs(
    context: typer.Context,
    queue: Annotated[str | None, typer.Option(metavar="NAME", help="Only jobs of this queue.")] = None,
    phase: Annotated[
        list[str] | None,
        typer.Option(metavar="PHASE", help="Only jobs in these phases, a,b or repeated: " + ", ".join(JOB_PHASES) + "."),
    ] = None,
    reason: Annotated[
        list[str] | None,
        typer.Option(metavar="REASON", help="Only jobs with these reasons, their own or of attempts; a,b or repeated."),
    ] = None,
    namespace: NamespaceOption = None,
    node: Annotated[str | None, typer.Option(metavar="NAME", help="Only jobs that have had an attempt on this node.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only jobs whose phase has changed since then: 2h, -1h, 2026-03-01.")
    ] = None,
    user: Annotated[str | None, typer.Option(metavar="NAME", help="Only jobs of this user.")] = None,
    tenant: Annotated[str | None, typer.Option(metavar="NAME", help="Only jobs of this tenant.")] = None,
    cluster: ClusterOption = None,
    other: Annotated[bool, typer.Option("--all", help="List jobs of kind Other (services) too.")] = False,
    limit: Annotated[int | None, typer.Option(min=1, max=MOST_SHOWN, metavar="N", help="Only the last N.")] = None,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """List jobs in the order of their submission."""
    output = output_of(context, as_json)
    wanted = Filter(
        queue,
        user,
        tenant,
        cluster,
        namespace,
        node,
        several(phase),
        several(reason),
        None if since is None else moment(since),
        other,
    )
    settings = settings_of(context, log)
    with Lahar.opened(settings) as opened, opened.partial(output.warn):
        lines = opened.jobs(wanted)
        _show_lines(output, lines if limit is None else lines[-limit:])


def _show_lines(output: Output, lines: list[JobLine]) -> None:
    if output.as_json:
        for line in lines:
            output.line(dumps(line.document()))
        return
    show_list(output, lines, _JOBS)
    output.notes.print(f"{len(lines)} job(s)", style="dim")


def _ran(line: JobLine) -> str:
    if line.ran_so_far is not None:
        return f"{length(line.ran_so_far)} so far"
    return "-" if line.ran is None else length(line.ran)


_JOBS: Final[tuple[Column[JobLine], ...]] = (
    Column("CLUSTER", lambda line: line.cluster, "cluster"),
    Column("JOB", lambda line: f"{line.namespace}/{line.name}", "name"),
    Column("ID", lambda line: line.id[:8]),
    Column("PHASE", lambda line: line.phase + (" (parked)" if line.parked else "")),
    Column("QUEUE", lambda line: line.queue, "name"),
    Column("USER", lambda line: line.user or "-", "name"),
    Column("ATTEMPTS", lambda line: str(line.attempts), "number"),
    Column("SUBMITTED", lambda line: stamp(line.submitted)),
    Column("WAITED", lambda line: "-" if line.started is None else length(line.started - line.submitted), "number"),
    Column("RAN", _ran, "number"),
)


@jobs.command("show")
def show(context: typer.Context, job: JobArgument, log: LogOption = None, as_json: JsonOption = False) -> None:
    """Show a job's present state: phase, tasks, attempts, timers."""
    output, settings = output_of(context, as_json), settings_of(context, log)
    with Lahar.opened(settings) as opened:
        view = opened.job(job)
    if output.as_json:
        output.line(dumps(view.document()))
        return
    render_job(output, view)
