"""Questions about the past: why, timeline, history, as-of, diff, summary."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from engine.cli.app import JsonOption, LogOption, Panel, app, output_of, settings_of
from engine.cli.arguments import (
    ClusterOption,
    JobArgument,
    NodeOption,
    OptionalJob,
    PhasesOption,
    ReasonsOption,
    date_time,
    in_order,
    several,
)
from engine.cli.as_of_tables import show_cluster, show_queues
from engine.cli.exit_codes import NotThereError
from engine.cli.output import Output
from engine.cli.render import render_job, render_summary
from engine.events import Data
from engine.events.envelope import encode, to_cloudevent
from engine.events.times import EARLIEST, LATEST, to_micros
from engine.exact_numbers import dumps
from engine.formatting import amount, stamp
from engine.formatting import moment as shown_moment
from engine.history.moment_argument import By
from engine.history.sentences import describe
from engine.history.timeline import draw
from lahar import Change, Event, Lahar, Selection

KnownOption = Annotated[bool, typer.Option("--known", help="By recordedtime: what Lahar knew then, not what it knows today.")]


@app.command(rich_help_panel=Panel.ASK, examples=["lahar summary", "lahar summary --json | jq .gpu_seconds"])
def summary(
    context: typer.Context,
    cluster: ClusterOption = None,
    other: Annotated[bool, typer.Option("--all", help="Count jobs of kind Other (services) too.")] = False,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Sum up the log: jobs, attempts, phases, reasons, GPU time, waits and runs."""
    output, settings = output_of(context, as_json), settings_of(context, log)
    with Lahar.opened(settings) as opened, opened.partial(output.warn):
        result = opened.summary(cluster=cluster, other=other)
        if output.as_json:
            output.line(dumps(result))
        else:
            render_summary(output, result)


@app.command(
    rich_help_panel=Panel.ASK,
    examples=[
        "lahar why default/train",
        "lahar why default/train 'worker[2]'",
        "lahar why default/train --at -1h",
        "lahar why --node gpu-07",
        "lahar why b35ddf8d630073b1",
    ],
)
def why(
    context: typer.Context,
    what: Annotated[str | None, typer.Argument(metavar="EVENT|JOB", help="An event's id (or its beginning), or a job.")] = None,
    replica: Annotated[str | None, typer.Argument(metavar="TASK[INDEX]", help="One replica of the job: 'worker[2]'.")] = None,
    node: Annotated[
        str | None, typer.Option("--node", metavar="NAME", help="A node: whose pods are there, and what happened.")
    ] = None,
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="NAME", help="The node's, where several have one so named.")
    ] = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="TIME", help="As it was known then: 2h, -1h, 2026-03-01T12:00Z.")
    ] = None,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Explain why a job, a replica, a node or an event is as it is.

    For each replica that does not run: its last event, since when, what it waits for, what to do. The chain of causes goes back
    to the first input; an observation later than the fact that it shows has a sentence of its own ("Recorded when"). Of a job
    that Lahar schedules: where the scheduler stopped, how much is missing, why nodes refuse its pods, its place in the queue
    and who is ahead. `lahar history JOB --json` and `lahar events --json` show the ids of events.
    """
    if (what is None) == (node is None):
        raise ValueError("give a job, an event or --node NAME, and only one of them")
    if node is not None and at is not None:
        raise ValueError("--at is for jobs and their replicas")
    known = None if at is None else date_time(at)
    output, settings = output_of(context, as_json), settings_of(context, log)
    with Lahar.opened(settings) as opened:
        answer = opened.why(what or "", replica, at=known) if node is None else opened.why_node(node, cluster=cluster)
    if output.as_json:
        output.record(answer.document())
        return
    for number, sentence in enumerate(answer.sentences()):
        output.console.print(Text(sentence, style="bold" if number == 0 else ""))


@app.command("timeline", rich_help_panel=Panel.ASK, examples=["lahar timeline default/train"])
def timeline_command(context: typer.Context, job: JobArgument, log: LogOption = None, as_json: JsonOption = False) -> None:
    """Draw a job's three levels with their attempts over time."""
    output, settings = output_of(context, as_json), settings_of(context, log)
    with Lahar.opened(settings) as opened:
        line = opened.timeline(job)
    if output.as_json:
        output.record(line.document())
    else:
        for text in draw(line, output.console.width):
            output.console.print(text, soft_wrap=True)


@app.command(
    rich_help_panel=Panel.ASK,
    examples=[
        "lahar history default/train",
        "lahar history default/train --json | jq .type",
        "lahar history train --since 2h --phase Failed,Lost",
    ],
)
def history(
    context: typer.Context,
    job: JobArgument,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="Only what happened since then: 2h, 'yesterday 14:05'.")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Only what happened up to then.")] = None,
    phase: PhasesOption = None,
    reason: ReasonsOption = None,
    node: NodeOption = None,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show everything that happened to a job, in order.

    With --json: its events as CloudEvents.
    """
    output, settings = output_of(context, as_json), settings_of(context, log)
    first, last = in_order(since, until, "--since is later than --until")
    begin, end = EARLIEST if first is None else first, LATEST if last is None else last
    selection = Selection(node, several(reason), several(phase))
    with Lahar.opened(settings) as opened:
        events = opened.history(job, selection)
    for event in events:
        if begin <= event.time <= end:
            show_event(output, event)


def show_event(output: Output, event: Event[Data], of_job: str = "") -> None:
    """Write one event: as a CloudEvent, or as a line for people.

    Args:
        output: output of the command.
        event: the event.
        of_job: name of the job, if the output has events of several jobs.
    """
    if output.as_json:
        output.line(to_cloudevent(encode(event)).decode())
        return
    output.console.print(
        Text.assemble(
            (f"{of_job:<24}  " if of_job else "", "dim"),
            (f"{event.sequence:>5}  ", "dim"),
            f"{stamp(event.time, 'milliseconds')}  ",
            (f"{event.type.removeprefix('lahar.'):<28} ", "cyan"),
            describe(event),
        ),
        soft_wrap=True,
    )


@app.command(
    "as-of",
    rich_help_panel=Panel.ASK,
    examples=[
        "lahar as-of 2026-03-01T12:00:00Z",
        "lahar as-of 2026-03-01T12:00:00Z default/train",
        "lahar as-of -2h default/train",
        "lahar as-of 2026-03-01 --queue research --json",
    ],
)
def as_of(
    context: typer.Context,
    time: Annotated[str, typer.Argument(metavar="TIME", help="2026-03-01 14:05, yesterday 14:05, 14:05, -1h, now, …")],
    job: OptionalJob = None,
    queue: Annotated[str | None, typer.Option("--queue", metavar="NAME", help="Only this queue.")] = None,
    known: KnownOption = False,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a job, a queue or the cluster as it was at a moment."""
    output = output_of(context, as_json)
    if job is not None and queue is not None:
        raise ValueError("give a job or --queue, not both")
    at, by = date_time(time), _by(known=known)
    settings = settings_of(context, log)
    with Lahar.opened(settings) as opened, output.busy("reading the log"):
        if job is None:
            document = opened.as_of(at, by=by).document()
        else:
            view = opened.as_of(at, job, by=by)
    if job is not None:
        if view is None:
            raise NotThereError(
                "job", f"{job} at {shown_moment(to_micros(at))}", f"it was opened later; `lahar history {job}` shows when"
            )
        if output.as_json:
            output.line(dumps(view.document()))
        else:
            render_job(output, view)
        return
    name = None if queue is None else _queue_of(document["queues"], queue)
    if queue is not None and name is None:
        raise NotThereError("queue", queue, f"`lahar as-of {time}` shows those of that moment")
    if output.as_json:
        output.line(dumps(document if name is None else {"queue": name, **document["queues"][name]}))
    elif name is None:
        show_cluster(output, document)
    else:
        show_queues(output, {name: document["queues"][name]})


def _by(*, known: bool) -> By:
    return "recordedtime" if known else "time"


def _queue_of(queues: Iterable[str], wanted: str) -> str | None:
    """Return the queue with this name; the cluster's name may be left out if only one cluster has it.

    Raises:
        ValueError: several clusters have it.
    """
    names = [name for name in queues if name == wanted or name.endswith(f"/{wanted}")]
    if len(names) > 1:
        raise ValueError(f"several clusters have a queue {wanted!r}: --queue {' or '.join(names)}")
    return names[0] if names else None


@app.command(
    "diff",
    rich_help_panel=Panel.ASK,
    examples=["lahar diff 2026-03-01 2026-03-02", "lahar diff 2026-03-01T12:00:00Z 2026-03-01T13:00:00Z default/train"],
)
def diff_command(
    context: typer.Context,
    before: Annotated[str, typer.Argument(metavar="TIME1", help="2026-03-01 14:05, yesterday 14:05, 14:05, -1h, now, …")],
    after: Annotated[str, typer.Argument(metavar="TIME2", help="As TIME1; usually later.")],
    job: OptionalJob = None,
    known: KnownOption = False,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what changed between two moments, field by field, at all levels.

    Exit code 1 if anything did.
    """
    output = output_of(context, as_json)
    first, second, by = date_time(before), date_time(after), _by(known=known)
    settings = settings_of(context, log)
    with Lahar.opened(settings) as opened, output.busy("reading the log"):
        changes = opened.diff(first, second, job, by=by)
    _show_changes(output, changes)
    if changes:
        raise typer.Exit(1)


def _show_changes(output: Output, changes: list[Change]) -> None:
    if output.as_json:
        for change in changes:
            output.line(dumps(change._asdict()))
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    for change in changes:
        table.add_row(
            Text(change.path, "cyan"),
            Text(_word(change.path, change.before), "red"),
            "→",
            Text(_word(change.path, change.after), "green"),
        )
    output.console.print(table if changes else "nothing changed")


def _word(path: str, value: object) -> str:
    if isinstance(value, int) and path.endswith("memory_bytes"):
        return amount("memory", value)
    return "-" if value is None else str(value)
