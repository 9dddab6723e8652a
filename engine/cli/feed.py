"""Putting things in: ingest, import-trace."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from io import BufferedReader
from pathlib import Path
from typing import Annotated, BinaryIO, cast

import typer
from rich.text import Text

from engine.application.feed import Feed
from engine.cli.app import JsonOption, LogOption, Panel, app, output_of, settings_of
from engine.cli.arguments import NoProcessOption
from engine.cli.fed import finish, new_feed
from engine.cli.output import Output
from engine.events import Message, Topic
from engine.kubernetes.edge import Ignored, Refused, to_inputs
from engine.kubernetes.list_moment import ListMoments
from engine.kubernetes.observation.latest_time import shown_time
from engine.kubernetes.reading.documents import Document, DocumentReader, Unreadable
from engine.log.producer_time import wall_clock as now
from engine.runtime.engine import opened
from engine.runtime.settings import Settings
from engine.simulation.traces import FORMATS, cluster_of, import_rows, read_trace, sample_trace

__all__ = ["import_trace_command", "ingest"]

_CHUNK = 1 << 16
_FLUSH = 2_000
"""Inputs after which a stream that does not pause is appended."""
_TOLD = 1_000
"""Things that cannot be read, of which each has a warning."""


@app.command(
    rich_help_panel=Panel.PUT,
    examples=[
        "kubectl get pods -A -w --output-watch-events -o json | lahar ingest -",
        "kubectl get nodes -o yaml | lahar ingest",
        "lahar ingest --recorded pods.jsonl",
    ],
)
def ingest(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Objects, watch events or CloudEvents; - for stdin.")] = Path("-"),
    cluster: Annotated[str | None, typer.Option(metavar="NAME", help="Cluster that they come from.")] = None,
    recorded: Annotated[
        bool,
        typer.Option("--recorded", help="A recorded stream: each object counts as seen at the latest time that it shows, not now."),
    ] = False,
    no_process: NoProcessOption = False,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take in what Kubernetes shows, as it comes.

    Objects, Lists, watch events or CloudEvents; JSON or YAML. What cannot be read is kept as a dead letter and the rest goes on.
    Plain objects show no deletions: prefer --output-watch-events.
    """
    output = output_of(context, as_json)
    settings = settings_of(context, log)
    if cluster is not None:
        settings = settings.model_copy(update={"cluster": cluster})
    with opened(settings, create=True, readonly=False) as target:
        feed = new_feed(target, settings, output, process=not no_process)
        stream = _Stream(feed, settings, output, recorded=recorded)
        if str(file) == "-":
            stream.read(sys.stdin.buffer)
        else:
            with file.open("rb") as source:
                stream.read(source)
        finish(feed, output)
    stream.report()


class _Stream:
    """A stream of objects on its way into the log."""

    def __init__(self, feed: Feed, settings: Settings, output: Output, *, recorded: bool) -> None:
        self._feed = feed
        self._settings = settings
        self._output = output
        self._recorded = recorded
        self._pending: list[tuple[Topic, Message]] = []
        self._moments = ListMoments()
        self._counts: Counter[str] = Counter()

    def read(self, source: BinaryIO) -> None:
        """Take in all of a stream; what has come is appended as soon as the stream pauses."""
        reader = DocumentReader()
        # At most one read of the pipe: a full chunk says that more waits.
        read = cast("BufferedReader", source).read1
        while data := read(_CHUNK):
            self._take(reader.feed(data))
            if len(data) < _CHUNK:
                self._flush()
                self._feed.process()
        self._take(reader.close())
        self._flush()

    def _take(self, items: Iterable[Document | Unreadable]) -> None:
        for item in items:
            inputs: list[tuple[Topic, Message]] = []
            if len(self._pending) >= _FLUSH:
                self._flush()
            shown = shown_time(item.content) if self._recorded and isinstance(item, Document) else None
            outcome = to_inputs(item, self._settings.cluster, now() if shown is None else shown)
            if isinstance(outcome, Ignored):
                self._counts["ignored"] += 1
            elif isinstance(outcome, Refused):
                self._counts["unreadable"] += 1
                place = f"line {item.line}" if isinstance(item, Unreadable) else item.place
                reason = outcome.reason if outcome.reason.startswith(place) else f"{place}: {outcome.reason}"
                if self._counts["unreadable"] <= _TOLD:
                    further = "" if self._counts["unreadable"] < _TOLD else "; what else cannot be read is counted at the end"
                    self._output.warn(f"{reason}; kept as a dead letter{further}")
                self._pending.append((outcome.topic, outcome.message))
            else:
                self._counts["taken"] += len(outcome.messages)
                for warning in outcome.warnings:
                    self._output.warn(warning)
                for message in outcome.messages:
                    # What a pod's containers show is later than what `shown_time` sees, and is the message's time.
                    stamped = message._replace(recordedtime=message.time) if self._recorded else message
                    inputs.append((outcome.topic, stamped))
            self._pending += self._moments.take(item.of_list, inputs)
        self._pending += self._moments.end()

    def _flush(self) -> None:
        """Append what has come, each run of one topic at once, so that the order across topics stays."""
        if self._recorded and self._pending:
            self._feed.play_from(min(message.recordedtime for _, message in self._pending))
        start = 0
        for end in range(1, len(self._pending) + 1):
            full = end - start == _FLUSH
            if end == len(self._pending) or self._pending[end][0] != self._pending[start][0] or full:
                self._feed.append(self._pending[start][0], [message for _, message in self._pending[start:end]])
                start = end
        self._pending.clear()

    def report(self) -> None:
        """Say how many objects were taken, ignored and unreadable."""
        counts = {name: self._counts[name] for name in ("taken", "ignored", "unreadable")}
        if self._output.as_json:
            self._output.record({**counts, "processed": self._feed.processed})
        else:
            told = ", ".join(f"{count} {name}" for name, count in counts.items() if count or name == "taken")
            self._output.console.print(f"{told}; {self._feed.processed} processed")


@app.command(
    "import-trace",
    rich_help_panel=Panel.PUT,
    examples=["lahar import-trace", "lahar import-trace --format openb openb_pods.csv.gz --cluster openb"],
)
def import_trace_command(
    context: typer.Context,
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A trace, plain or .gz. Without it: the sample that ships with Lahar.")
    ] = None,
    source_format: Annotated[
        str, typer.Option("--format", metavar="F", help="One of " + ", ".join(FORMATS) + ".")
    ] = "philly-status",
    cluster: Annotated[str | None, typer.Option(metavar="NAME", help="Cluster name; the file's name unless given.")] = None,
    no_process: NoProcessOption = False,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Import the trace of a real cluster: its jobs and pods become history.

    Importing twice changes nothing. Rows that make no sense are rejected with their line number, and the rest goes on.
    """
    output = output_of(context, as_json)
    settings = settings_of(context, log)
    if file is None:
        with sample_trace() as sample:
            _import(output, settings, sample, source_format, cluster, process=not no_process)
    else:
        _import(output, settings, file, source_format, cluster, process=not no_process)


def _import(output: Output, settings: Settings, file: Path, source_format: str, cluster: str | None, *, process: bool) -> None:
    name = cluster or cluster_of(file)
    began = now()
    with output.busy(f"reading {file}"):
        rows = read_trace(file, source_format)
    with opened(settings, create=True, readonly=False) as target:
        feed = new_feed(target, settings, output, process=process)
        with output.progress("facts") as progress:
            task = progress.add_task("importing", total=None)
            report = import_rows(
                target, rows, source_format, name, lambda done, total: progress.update(task, completed=done, total=total)
            )
        finish(feed, output)
    seconds = (now() - began) / 1_000_000
    if output.as_json:
        output.record(
            {
                "cluster": name,
                "format": source_format,
                "rows": report.rows,
                "facts": report.facts,
                "rejected": report.rejected,
                "processed": feed.processed,
                "seconds": round(seconds, 3),
            }
        )
        return
    rate = f", {feed.processed / seconds:,.0f} a second" if feed.processed else ""
    rejected = f", {report.rejected} rejected" if report.rejected else ""
    output.console.print(
        Text(
            f"{report.rows:,} rows of {name}{rejected}: {report.facts:,} facts, "
            f"{feed.processed:,} inputs and timers processed in {seconds:.1f} s{rate}"
        ),
        soft_wrap=True,
    )
