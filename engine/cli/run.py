"""`lahar run`: the engine at work; `lahar status`: how it stands."""

from __future__ import annotations

import signal
import threading
from contextlib import nullcontext
from typing import Annotated, Any

import typer
from prometheus_client import CollectorRegistry, start_http_server
from rich.table import Table

from engine.cli.app import JsonOption, LogOption, Panel, app, output_of, settings_of
from engine.cli.callbacks import Callbacks
from engine.cli.engine import Engine, lifecycle_stage, now, opened, run_lock
from engine.cli.output import Output
from engine.events.times import format_time
from engine.history.exact import dumps
from engine.history.status import ShardStatus, shard_status
from engine.log.metrics import ProcessorMetrics

__all__ = ["run", "status"]


@app.command(rich_help_panel=Panel.RUN)
def run(
    context: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="Stop as soon as no input is left and no timer is due.")] = False,
    metrics: Annotated[
        int | None, typer.Option("--metrics", metavar="PORT", help="Serve Prometheus metrics on 127.0.0.1:PORT/metrics.")
    ] = None,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Process inputs, fire timers and tell callbacks until interrupted."""
    output = output_of(context, as_json)
    settings = settings_of(context, log)
    lock = run_lock(settings)
    registry = CollectorRegistry()
    callbacks, started = Callbacks(settings, output), now()
    with lock.hold() if lock is not None else nullcontext(), opened(settings, create=True, readonly=False) as target:
        engine = Engine(target, settings, live=not once, metrics=ProcessorMetrics(registry))
        if metrics is not None:
            start_http_server(metrics, addr="127.0.0.1", registry=registry)
        engine.open()
        callbacks.open(target, started, registry)
        try:
            if once:
                done = engine.run_until_quiet()
                callbacks.tell()
                _say_processed(output, done)
                return
            stopped = threading.Event()
            signal.signal(signal.SIGTERM, lambda *_: stopped.set())
            output.notes.print(f"running {settings.log}; Ctrl-C stops", style="dim")
            engine.run(stopped.is_set, callbacks.step)
        finally:
            callbacks.close()
            engine.close()


def _say_processed(output: Output, done: int) -> None:
    if output.as_json:
        output.record({"processed": done})
    else:
        output.console.print(f"{done:,} inputs and timers processed")


@app.command(rich_help_panel=Panel.OPERATE)
def status(context: typer.Context, log: LogOption = None, as_json: JsonOption = False) -> None:
    """Show how far each shard has come: offsets, lag, outcomes, parked jobs, dead letters, timers, snapshot."""
    output = output_of(context, as_json)
    settings = settings_of(context, log)
    with opened(settings) as source:
        shards = [shard_status(source, lifecycle_stage(settings), number) for number in range(source.partitions("job-events"))]
        lock = run_lock(settings)
        held = lock is not None and lock.is_held()
    if output.as_json:
        for shard in shards:
            output.line(dumps({**shard.document(), "running": held}))
        return
    output.console.print(f"{settings.log}: {'an engine runs it' if held else 'no engine runs it'}")
    for shard in shards:
        _show_shard(output, shard)


def _show_shard(output: Output, shard: ShardStatus) -> None:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column()
    rows: list[tuple[str, Any]] = [(name, f"{taken:,} of {end:,} taken") for name, taken, end in shard.inputs]
    rows += [
        ("lag", f"{shard.lag:,} inputs"),
        ("own time", format_time(shard.now) if shard.now else "-"),
        ("outputs", f"{shard.outputs:,}"),
        ("outcomes", ", ".join(f"{count:,} {name}" for name, count in shard.outcomes.items() if count) or "-"),
        ("parked jobs", shard.parked_jobs),
        ("dead letters", shard.dead_letters),
        ("next timer", "-" if shard.timer_due is None else format_time(shard.timer_due)),
        ("snapshot", f"{shard.snapshot_records:,} records, {shard.snapshot_behind:,} outputs behind"),
    ]
    for name, value in rows:
        table.add_row(f"{shard.shard} {name}", str(value))
    output.console.print(table)
