"""Commands that append inputs: ingest, import-trace."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import replace
from io import BufferedReader
from pathlib import Path
from typing import Annotated, BinaryIO, cast

import typer
from rich.text import Text

from engine.application.arguments import wall_clock as now
from engine.application.feed import Feed
from engine.cli.app import JsonOption, LogOption, Panel, app, output_of, settings_of
from engine.cli.arguments import NoProcessOption
from engine.cli.exit_codes import FINDING
from engine.cli.input_outcomes import finish, new_feed, repeatable
from engine.cli.output import Output
from engine.cli.trace_options import ColumnsOption, FormatOption, named_columns
from engine.events import Message, Topic, encode
from engine.events.bounds import MOMENT_BYTES, MOMENT_INPUTS, OBJECT_BYTES
from engine.events.inputs import Input
from engine.kubernetes.device_claims import DeviceClaims
from engine.kubernetes.edge import Ignored, Refused, to_inputs
from engine.kubernetes.ingest_report import IngestReport
from engine.kubernetes.input_events import event_of
from engine.kubernetes.list_moment import ListMoments
from engine.kubernetes.observation.latest_time import shown_time
from engine.kubernetes.owner_chains import OwnerChains
from engine.kubernetes.reading.documents import Document, DocumentReader, Unreadable
from engine.kubernetes.reading.object_files import DamagedFileError, open_objects, unpacked
from engine.runtime.settings import Settings
from engine.simulation.traces import BadRow, ImportReport, cluster_of, import_rows, read_trace, sample_trace, with_tenants
from lahar import Lahar

_CHUNK = 1 << 16
_FLUSH = 2_000
"""Inputs after which a stream without pauses is appended."""
_WARNED = 1_000
"""Unreadable objects with a warning of their own."""
_NAMED = 20
"""Rejected rows of a trace with a warning of their own."""


@app.command(
    rich_help_panel=Panel.PUT,
    examples=[
        "kubectl get pods -A -w --output-watch-events --show-managed-fields -o json | lahar ingest -",
        "kubectl get nodes -o yaml | lahar ingest",
        "lahar ingest --recorded pods.jsonl",
    ],
)
def ingest(
    context: typer.Context,
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE…]", help="Objects, watch events or CloudEvents, plain or .gz; - or none for stdin."),
    ] = None,
    cluster: Annotated[str | None, typer.Option(metavar="NAME", help="Cluster that they come from.")] = None,
    recorded: Annotated[
        bool,
        typer.Option(
            "--recorded", help="A recorded stream: each object counts as seen at the latest time shown up to it, not now."
        ),
    ] = False,
    no_process: NoProcessOption = False,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Read Kubernetes objects from files or standard input.

    Objects, Lists, watch events or CloudEvents; JSON or YAML. Unreadable pieces become dead letters and reading continues; exit
    code 1 then, and if a server reports an error. Plain objects show no deletions: prefer --output-watch-events.
    """
    output = output_of(context, as_json)
    settings = settings_of(context, log)
    if cluster is not None:
        settings = settings.model_copy(update={"cluster": cluster})
    with Lahar.opened(settings, create=True, readonly=False) as target:
        feed = new_feed(target, output, process=not no_process)
        stream = _Stream(feed, settings, output, recorded=recorded)
        with repeatable():
            for file in files or [Path("-")]:
                stream.read(file)
            stream.end()
            finish(feed, output)
    stream.report()
    if not stream.tally.complete:
        raise typer.Exit(FINDING)


class _Stream:
    """Appends a stream of objects to the log."""

    def __init__(self, feed: Feed, settings: Settings, output: Output, *, recorded: bool) -> None:
        self._feed = feed
        self._settings = settings
        self._output = output
        self._recorded = recorded
        self._pending: list[tuple[Topic, Message]] = []
        self._pending_bytes = 0
        self._chains = OwnerChains()
        self._claims = DeviceClaims(settings.accelerators)
        self._moments = ListMoments(self._chains)
        self._arrived = 0
        """When the last input of a recorded file was there to be read; 0: none was."""
        self._last = 0
        """Recorded time of the last input appended."""
        self._topic: Topic = "cluster"
        """Topic of that input."""
        self.tally = IngestReport()

    def read(self, file: Path) -> None:
        """Read a file to its end; appends the inputs read so far whenever it pauses.

        Pods with claims of devices that were not read wait for the next file.
        """
        self._arrived = self._last = 0
        try:
            with open_objects(file) as source:
                self._read("" if str(file) == "-" else f"{file}: ", source)
        except DamagedFileError as error:
            self._output.warn(self.tally.miss(str(error)))
        self._append(*self._moments.end())
        if not self._claims.incomplete:
            self._flush()

    def end(self) -> None:
        """Append all inputs read so far."""
        self._append(*self._moments.end())
        self._flush()

    def _read(self, prefix: str, source: BinaryIO) -> None:
        reader = DocumentReader()
        # At most one read of the pipe: a full chunk shows that more waits.
        read = cast("BufferedReader", source).read1
        while data := read(_CHUNK):
            if not self._take(prefix, reader.feed(data)) and unpacked(source):
                self._output.warn(f"{prefix}the rest is not read: a few bytes may unpack to very many")
                return
            paused = len(data) < _CHUNK and not unpacked(source) and not reader.in_list
            if paused and not (self._claims.incomplete and source.seekable()):  # the claims may be in the next file
                self.end()
                self._feed.process()
        self._take(prefix, reader.close())

    def _take(self, prefix: str, items: Iterable[Document | Unreadable]) -> bool:
        """Read the next objects; false if one exceeded the largest size."""
        bounded = True
        for item in items:
            inputs: list[tuple[Topic, Message]] = []
            most = MOMENT_INPUTS if self._claims.incomplete else _FLUSH
            if len(self._pending) >= most or self._pending_bytes >= MOMENT_BYTES:
                self._flush()
            arrived = self._arrival(item) if self._recorded else None
            outcome = to_inputs(item, self._settings.cluster, now() if arrived is None else arrived, self._settings.accelerators)
            bounded &= isinstance(item, Document) or len(item.content) < OBJECT_BYTES
            fault = self.tally.add(prefix, item, outcome)
            self._chains.note(item)
            self._claims.note(item, outcome)
            if isinstance(outcome, Refused):
                if self.tally.unreadable <= _WARNED:
                    further = "" if self.tally.unreadable < _WARNED else "; further unreadable objects are counted at the end"
                    self._output.warn(f"{fault}; kept as a dead letter{further}")
                self._append((outcome.topic, outcome.message))
            elif isinstance(outcome, Ignored):
                if fault and self.tally.errors <= _WARNED:
                    self._output.warn(fault)
            else:
                for warning in outcome.warnings:
                    self._output.warn(warning)
                inputs += [(outcome.topic, self._stamped(message, arrived)) for message in outcome.messages]
            self._append(*self._moments.take(item.of_list, inputs))
        return bounded

    def _arrival(self, item: Document | Unreadable) -> int | None:
        """Return when an object of a recorded file was there to be read: the latest time that it, or one above it, shows."""
        shown = shown_time(item.content) if isinstance(item, Document) else None
        if shown is None and not self._arrived:
            return None
        return max(shown or 0, self._arrived)

    def _stamped(self, message: Message, arrived: int | None) -> Message:
        """Return an input as it arrived; a pod's containers may have later times than `shown_time` reads."""
        if arrived is None:
            return message
        self._arrived = max(arrived, message.time)
        return message._replace(recordedtime=self._arrived)

    def _append(self, *inputs: tuple[Topic, Message]) -> None:
        self._pending += [(topic, self._in_order(topic, message)) for topic, message in inputs] if self._recorded else inputs
        self._pending_bytes += sum(len(message.data) for _, message in inputs)

    def _in_order(self, topic: Topic, message: Message) -> Message:
        """Return an input of a recorded file as recorded after those above it.

        Inputs of one time on two topics are a microsecond apart: a shard takes those of one time topic by topic. Such an input
        states when it arrived, so that no other time comes from those microseconds.
        """
        if message.recordedtime > self._arrived:
            return message  # it came before any time was shown
        raised = max(message.recordedtime, self._last)
        self._last, self._topic = raised + (raised == self._last and topic != self._topic), topic
        return message if self._last == message.recordedtime else _raised(message, self._last)

    def _flush(self) -> None:
        """Append the inputs read so far, consecutive ones of one topic together, so that the order across topics stays."""
        if self._recorded and self._pending:
            self._feed.play_from(min(message.recordedtime for _, message in self._pending))
        self._pending = self._claims.resolve(self._chains.resolve(self._pending))
        start = 0
        for end in range(1, len(self._pending) + 1):
            full = end - start == _FLUSH
            if end == len(self._pending) or self._pending[end][0] != self._pending[start][0] or full:
                self._feed.append(self._pending[start][0], [message for _, message in self._pending[start:end]])
                start = end
        self._pending.clear()
        self._pending_bytes = 0

    def report(self) -> None:
        """Show how many objects were taken, ignored and unreadable."""
        tally, processed = self.tally, self._feed.processed
        if self._output.as_json:
            self._output.record({**tally.document(), "processed": processed})
        else:
            counts = {"taken": tally.taken, "ignored": tally.ignored, "unreadable": tally.unreadable}
            summary = ", ".join(f"{count} {name}" for name, count in counts.items() if count or name == "taken")
            self._output.console.print(f"{summary}; {processed} processed")
            if tally.kinds:
                kinds = ", ".join(f"{count} {kind}" for kind, count in tally.kinds.most_common())
                self._output.console.print(f"ignored: {kinds}", soft_wrap=True)
        if tally.unreadable:
            self._output.fail(tally.shortfall())


def _raised(message: Message, recorded: int) -> Message:
    """Return an input with a later recorded time; it states when it arrived."""
    event = event_of(message)
    if event is None:
        return message._replace(recordedtime=recorded)
    data = event.data
    if isinstance(data, Input):
        data = replace(data, arrived=message.recordedtime)
    return encode(replace(event, recordedtime=recorded, data=data), message.key)


@app.command(
    "import-trace",
    rich_help_panel=Panel.PUT,
    examples=[
        "lahar import-trace --format openb",
        "lahar import-trace --format openb openb_pods.csv.gz --cluster openb",
        "lahar import-trace --format philly --columns timestamp=submitted,num_gpus=gpus jobs.csv",
    ],
)
def import_trace_command(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE", help="A trace, plain or .gz. Without it: the sample of openb or philly-status that ships with Lahar."
        ),
    ] = None,
    source_format: FormatOption = "philly-status",
    columns: ColumnsOption = None,
    cluster: Annotated[str | None, typer.Option(metavar="NAME", help="Cluster name; the file's name unless given.")] = None,
    tenants: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Spread the jobs over N tenants, user modulo N; without it their tenant is `default`."
        ),
    ] = None,
    no_process: NoProcessOption = False,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Import the trace of a real cluster: its jobs and pods become history.

    Importing twice changes nothing, so an import that was cut short is run again. Invalid rows are rejected with their line number,
    exit code 1 then; the others are imported.
    """
    output = output_of(context, as_json)
    settings = settings_of(context, log)
    names = named_columns(columns)
    began = now()
    with nullcontext(file) if file is not None else sample_trace(source_format) as path, output.busy(f"reading {path}"):
        name = cluster or cluster_of(path)
        rows = read_trace(path, source_format, names)
        if tenants is not None:
            rows = with_tenants(rows, tenants)
    with Lahar.opened(settings, create=True, readonly=False) as target:
        feed = new_feed(target, output, process=not no_process)
        with repeatable(), output.progress("facts") as progress:
            task = progress.add_task("importing", total=None)
            report = import_rows(
                target.log, rows, source_format, name, lambda done, total: progress.update(task, completed=done, total=total)
            )
        finish(feed, output)
    seconds = (now() - began) / 1_000_000
    left_out = [row for row in rows if isinstance(row, BadRow)]
    for row in left_out[:_NAMED]:
        output.warn(f"line {row.line} is left out: {row.reason}")
    if len(left_out) > _NAMED:
        output.warn(f"{len(left_out) - _NAMED:,} more are left out: `lahar events --type lahar.row.rejected.v1` lists them")
    _report(output, name, source_format, report, feed.processed, seconds)
    if left_out:
        raise typer.Exit(FINDING)


def _report(output: Output, name: str, source_format: str, report: ImportReport, processed: int, seconds: float) -> None:
    if output.as_json:
        output.record(
            {
                "cluster": name,
                "format": source_format,
                "rows": report.rows,
                "facts": report.facts,
                "rejected": report.rejected,
                "processed": processed,
                "seconds": round(seconds, 3),
            }
        )
        return
    rate = f", {processed / seconds:,.0f} a second" if processed else ""
    rejected = f", {report.rejected} rejected" if report.rejected else ""
    output.console.print(
        Text(
            f"{report.rows:,} rows of {name}{rejected}: {report.facts:,} facts, "
            f"{processed:,} inputs and timers processed in {seconds:.1f} s{rate}"
        ),
        soft_wrap=True,
    )
