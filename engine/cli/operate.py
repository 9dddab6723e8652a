"""Operating a log: verify, backup, compaction, export and import."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import Annotated, BinaryIO

import typer

from engine.application.questions import meant
from engine.cli.app import JsonOption, LogOption, Panel, app, group, output_of, settings_of
from engine.cli.arguments import JobOption, in_order
from engine.cli.exit_codes import FINDING
from engine.events.bounded_lines import bounded_lines
from engine.events.bounds import EXPORT_LINE_BYTES
from engine.history.export_lines import contents_of
from engine.history.readable_records import Damage
from engine.history.transfer import export_job, export_log, import_log
from engine.kubernetes.reading.object_files import standard_input
from engine.runtime.engine import run_lock
from engine.runtime.opening import is_shared, open_log, opened
from engine.runtime.stages import stages_of
from lahar import Lahar, Verdict

log_group = group("log", Panel.OPERATE, "Look after the log's file: backup, compact.")


@app.command(rich_help_panel=Panel.OPERATE)
def verify(context: typer.Context, log: LogOption = None, as_json: JsonOption = False) -> None:
    """Check that snapshots equal the history, and that each input taken has one outcome.

    Reads all inputs, folds the log from its beginning and compares. Exit code 1 on a difference, with its first event and jobs, or
    on a damaged or unaccounted input.
    """
    output = output_of(context, as_json)
    settings = settings_of(context, log)
    differs = False
    with Lahar.opened(settings) as opened:
        verdicts = opened.verify()

        def verdict_of_next() -> Verdict | None:
            with output.busy("folding a shard"):
                return next(verdicts, None)

        for verdict in iter(verdict_of_next, None):
            differs |= not verdict.ok
            if output.as_json:
                output.record(verdict.document())
            else:
                output.console.print(verdict.sentence(), soft_wrap=True)
    if differs:
        raise typer.Exit(FINDING)


@log_group.command("backup", examples=["lahar log backup lahar-2026-03-01.db"])
def backup(
    context: typer.Context,
    target: Annotated[Path, typer.Argument(metavar="FILE", help="A new file.")],
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy the log into a new file while it is in use."""
    output = output_of(context, as_json)
    if target.exists():
        raise ValueError(f"{target} exists; name a new file for the backup")
    settings = settings_of(context, log)
    _must_be_a_file(settings.log, "its brokers keep copies of each record, and `lahar export` writes all of them")
    with Lahar.opened(settings) as source, output.busy("copying"):
        source.backup(target)
    if output.as_json:
        output.record({"file": str(target), "bytes": target.stat().st_size})
    else:
        output.console.print(f"{target}: {target.stat().st_size:,} bytes")


@log_group.command("compact")
def compact(context: typer.Context, log: LogOption = None, as_json: JsonOption = False) -> None:
    """Give unused space of the log's file back to the file system. No event is removed."""
    output = output_of(context, as_json)
    settings = settings_of(context, log)
    _must_be_a_file(settings.log, "its brokers free the records that a topic's retention expires")
    with Lahar.opened(settings, readonly=False) as source, output.busy("compacting"):
        path, before, after = source.compact()
    if output.as_json:
        output.record({"file": str(path), "before": before, "after": after})
    else:
        output.console.print(f"{path}: {before:,} → {after:,} bytes")


def _must_be_a_file(url: str, instead: str) -> None:
    if is_shared(url):
        raise ValueError(f"{url} is not a file: {instead}")


@app.command(
    rich_help_panel=Panel.OPERATE,
    examples=[
        "lahar export > all.jsonl",
        "lahar export --job default/train > train.jsonl",
        "lahar export --first 2026-03-01 --last 2026-03-02 > day.jsonl",
    ],
)
def export(
    context: typer.Context,
    job: JobOption = None,
    first: Annotated[str | None, typer.Option("--first", metavar="TIME", help="Recorded at or after.")] = None,
    last: Annotated[str | None, typer.Option("--last", metavar="TIME", help="Recorded at or before.")] = None,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the log to standard output: all of it, one job or a range.

    The output is always JSON Lines of CloudEvents, from which `lahar import` restores the log without loss. Damaged records are
    omitted and named on standard error; exit code 1 then.
    """
    output, settings = output_of(context, as_json), settings_of(context, log)
    damages = 0

    def left_out(damage: Damage) -> None:
        nonlocal damages
        damages += damage.records
        output.warn(f"left out: {damage}")

    with opened(settings) as source, output.busy("exporting"):
        if job is not None:
            if first is not None or last is not None:
                raise ValueError("--job goes without --first and --last: a job is exported whole")
            lines = export_job(source, meant(settings, source, job), left_out)
        else:
            lines = export_log(source, *in_order(first, last, "--first is later than --last"), left_out)
        for line in lines:
            sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()
    if damages:
        output.fail(f"{damages:,} records are damaged and left out; `lahar import` continues without them")
        raise typer.Exit(FINDING)


@app.command("import", rich_help_panel=Panel.OPERATE, examples=["lahar --log sqlite:restored.db import all.jsonl"])
def import_(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `lahar export` wrote; - for stdin.")] = Path("-"),
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Restore an export into an empty log: all of it, or nothing.

    No engine may run that log meanwhile.
    """
    output = output_of(context, as_json)
    settings = settings_of(context, log)
    with ExitStack() as stack:
        source = stack.enter_context(_reread(file))

        def lines() -> Iterator[bytes]:
            source.seek(0)
            return bounded_lines(source, EXPORT_LINE_BYTES)

        partitions, lock = contents_of(next(lines(), b"")).partitions, run_lock(settings)
        if lock is not None:
            stack.enter_context(lock.hold())
        target = stack.enter_context(closing(open_log(settings.log, partitions)))
        progress = stack.enter_context(output.progress("records"))
        task = progress.add_task("restoring", total=None)
        stages = {stage.name: stage for stage in stages_of(settings)}
        done = import_log(target, lines, stages, lambda count: progress.update(task, completed=count))
    if output.as_json:
        output.record({"records": done})
    else:
        output.console.print(f"{done:,} records restored into {settings.log}")


@contextmanager
def _reread(file: Path) -> Iterator[BinaryIO]:
    """Open a file that can be read twice; what cannot (standard input, a pipe) is copied into a temporary file first."""
    with standard_input() if str(file) == "-" else file.open("rb") as source:
        if source.seekable():
            yield source
            return
        with TemporaryFile() as copy:
            copyfileobj(source, copy)
            yield copy
