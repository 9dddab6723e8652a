"""`lahar run`: run the engine; `lahar status`: show its position."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from engine.cli.app import JsonOption, LogOption, Panel, app, output_of, settings_of
from engine.cli.arguments import MetricsOption
from engine.cli.logging_config import written
from engine.cli.output import Output
from engine.exact_numbers import dumps
from engine.formatting import exact, length
from engine.runtime import run as processes
from engine.runtime.engine import run_lock
from engine.runtime.opening import is_shared
from lahar import Lahar, ShardStatus


@app.command(
    rich_help_panel=Panel.RUN,
    examples=["lahar run", "lahar run --metrics 9100", "lahar --log sqlite:/var/lib/lahar/lahar.db run --once"],
)
def run(
    context: typer.Context,
    once: Annotated[
        bool, typer.Option("--once", help="Stop as soon as no input is left and no timer is due by the log's own time.")
    ] = False,
    metrics: MetricsOption = None,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Process inputs, fire timers and call callbacks until interrupted.

    One process runs a log at a time; others may append and ask meanwhile. SIGTERM ends it with code 0, Ctrl-C with 130, both
    between two transactions. While the log cannot be reached or written (a full disk, a busy file) it retries, at most 10 s apart.
    It needs a log on Kafka for itself; `lahar worker` shares one.
    """
    output = output_of(context, as_json)
    settings = settings_of(context, log)
    # `--once` reports everything in its answer.
    with nullcontext() if once else written(settings.log_format):
        if once:
            _say_processed(output, processes.run_once(settings, output, metrics))
        else:
            processes.run(settings, output, metrics)


def _say_processed(output: Output, done: int) -> None:
    if output.as_json:
        output.record({"processed": done})
    else:
        output.console.print(f"{done:,} inputs and timers processed")


@app.command(rich_help_panel=Panel.OPERATE)
def status(context: typer.Context, log: LogOption = None, as_json: JsonOption = False) -> None:
    """Show the engine's position and lag, shard by shard.

    For each shard: offsets, lag, outcomes of all inputs, parked jobs, dead letters, the next timer, the age of the snapshot.
    """
    output = output_of(context, as_json)
    settings = settings_of(context, log)
    with Lahar.opened(settings) as opened, output.busy("recovering"):
        shards = opened.status()
        lock = run_lock(settings)
        held = lock is not None and lock.is_held()
    if output.as_json:
        for shard in shards:
            output.line(dumps({**shard.document(), "running": held}))
        return
    # On Kafka this process cannot know whether workers run.
    runner = "" if is_shared(settings.log) else ": an engine runs it" if held else ": no engine runs it"
    output.console.print(f"{settings.log}{runner}", soft_wrap=True)
    for shard in shards:
        _show_shard(output, shard)


def _show_shard(output: Output, shard: ShardStatus) -> None:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column()
    output.console.print(Text(shard.shard, style="bold"))
    rows: list[tuple[str, Any]] = [(name, f"{taken:,} of {end:,} taken") for name, taken, end in shard.inputs]
    rows += [
        ("lag", f"{shard.lag:,} inputs"),
        ("own time", exact(shard.now) if shard.now else "-"),
        ("outputs", f"{shard.outputs:,}"),
        ("outcomes", ", ".join(f"{count:,} {name}" for name, count in shard.outcomes.items() if count) or "-"),
        ("parked jobs", shard.parked_jobs),
        ("dead letters", shard.dead_letters),
        ("next timer", "-" if shard.timer_due is None else exact(shard.timer_due)),
        ("snapshot", _snapshot(shard)),
    ]
    for name, value in rows:
        table.add_row(f"  {name}", str(value))
    output.console.print(table, soft_wrap=True)


def _snapshot(shard: ShardStatus) -> str:
    if not shard.snapshot_records:
        return "-"
    age = length(max(shard.now - shard.snapshot_time, 0))
    return f"{shard.snapshot_records:,} records, {shard.snapshot_behind:,} outputs and {age} behind"
