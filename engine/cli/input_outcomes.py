"""Shows the outcomes of a command's inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer
from rich.text import Text

from engine.application.errors import LogUnavailableError
from engine.application.feed import Feed
from engine.cli.exit_codes import BAD_INPUT
from engine.cli.output import Output
from engine.history.sentences import describe
from lahar import Lahar, Taken


def new_feed(log: Lahar, output: Output, *, process: bool) -> Feed:
    """Return a `Feed` for a command, with progress on a terminal."""

    @contextmanager
    def progress() -> Iterator[Callable[[int, int], object]]:
        with output.progress("inputs") as shown:
            task = shown.add_task("opening", total=None)
            yield lambda done, waiting: shown.update(task, description="processing", completed=done, total=waiting)

    return log.feed_of(output, process=process, progress=progress)


@contextmanager
def repeatable() -> Iterator[None]:
    """Add to the error of a log that is away how a command goes on whose inputs have the same ids in each run."""
    try:
        yield
    except LogUnavailableError as error:
        if not error.transient:
            raise
        raise LogUnavailableError(f"{error}; run the same command again: nothing is added twice") from error


def finish(feed: Feed, output: Output) -> None:
    """Process, and show the outcomes of the expected inputs.

    Raises:
        typer.Exit: an input was rejected or refused (exit code 2).
    """
    told = feed.finish()
    if feed.processor in {"workers", "engine"}:
        who = "the workers of this log process it" if feed.processor == "workers" else "the engine that runs this log processes it"
        output.notes.print(f"appended; {who}", style="dim")
    for taken in told:
        _show(taken, output)
    if feed.processor == "here":
        feed.notify_callbacks()
    if any(taken.failed for taken in told):
        raise typer.Exit(BAD_INPUT)


def _show(taken: Taken, output: Output) -> None:
    for warning in taken.warnings:  # before the faults, whose cause one may be
        output.warn(taken.place.of_warning(warning))
    if output.as_json:
        faults = [{"path": fault.path, "message": fault.message} for fault in taken.faults]
        record = {"job": taken.job, "name": taken.name, "input": taken.input, "outcome": taken.outcome}
        output.record(record | {"repeated": taken.repeated, "faults": faults})
    elif taken.failed:
        for fault in taken.faults:
            output.fail(": ".join(part for part in (taken.place.at(fault.path) or taken.name, fault.path, fault.message) if part))
    elif taken.outcome == "applied":
        for event in taken.events:
            output.console.print(Text.assemble((f"{event.subject}  ", "dim"), describe(event)), soft_wrap=True)
    else:
        ident = f"{taken.job}  " if taken.repeated else ""
        meaning = "unchanged, it was applied before" if taken.outcome == "duplicate" else taken.outcome
        output.console.print(Text.assemble((ident, "dim"), f"{taken.name}: {meaning}"), soft_wrap=True)
