"""Append inputs, then let them be processed: here, by the engine that runs beside us, or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.text import Text

from engine.cli.callbacks import dispatch
from engine.cli.engine import EmbeddedLog, Engine, run_lock
from engine.cli.errors import BAD_INPUT
from engine.cli.output import Output
from engine.cli.settings import Settings
from engine.events import Data, Event, Message, Topic, encode
from engine.events.ids import digest
from engine.events.inputs import CommandIssued, CustomEventRaised
from engine.events.jobs import CommandRefused, JobRejected
from engine.history.reading import events_of
from engine.history.sentences import tell
from engine.log.errors import LogBusyError

__all__ = ["Feed", "NoProcessOption", "RecordedOption", "command_message", "input_message"]

NoProcessOption = Annotated[
    bool, typer.Option("--no-process", help="Only append; the next command, or `lahar run`, processes what was appended.")
]
RecordedOption = Annotated[
    str | None, typer.Option("--at", metavar="TIME", help="Record it at this time instead of now (to play a recorded story).")
]


def input_message(settings: Settings, job: str, data: Data, identity: str, source: str, recordedtime: int) -> Message:
    """Return an input about a job as the log keeps it.

    Args:
        settings: give the cluster.
        job: the job's id.
        data: the input.
        identity: id of the input, chosen by whoever appends it.
        source: who says so.
        recordedtime: microseconds.
    """
    event = Event(identity, source, data.TYPE, job, recordedtime, recordedtime, 0, job, "", settings.cluster, data)
    return encode(event)


def command_message(
    settings: Settings, job: str, data: CommandIssued | CustomEventRaised, identity: str, recordedtime: int
) -> Message:
    """Return a command or custom event as the log keeps it; `identity` is the client's, hashed to the form of all ids."""
    return input_message(settings, job, data, digest(f"command/{job}/{identity}".encode()), f"command/{data.by}", recordedtime)


class Feed:
    """One command's way to put inputs into a log and to see what becomes of them."""

    def __init__(self, log: EmbeddedLog, settings: Settings, output: Output, *, process: bool) -> None:
        """Begin.

        Args:
            log: writable.
            settings: of this run.
            output: where what happened is told.
            process: process what is appended, unless a live engine does.
        """
        self._log = log
        self._settings = settings
        self._output = output
        self._process = process
        self._expected: list[Message] = []
        self.appended = 0
        self.processed = 0

    def append(self, topic: Topic, messages: Sequence[Message]) -> None:
        """Append inputs, all or none.

        Raises:
            LogUnavailableError: the log cannot be written.
        """
        self._log.append(topic, messages)
        self.appended += len(messages)

    def expect(self, message: Message) -> None:
        """Tell at the end what became of this input."""
        self._expected.append(message)

    def process(self) -> bool:
        """Process until quiet what was appended so far; false if that is somebody else's work.

        Raises:
            LogError: the log failed.
        """
        if not self._process:
            return False
        lock = run_lock(self._settings)
        if lock is None:
            self._run()
            return True
        try:
            with lock.hold():
                self._run()
        except LogBusyError:
            return False
        return True

    def _run(self) -> None:
        engine = Engine(self._log, self._settings)
        with self._output.progress("inputs") as progress:
            task = progress.add_task("processing", total=None)
            engine.open()
            try:
                self.processed += engine.run_until_quiet(lambda done: progress.update(task, completed=done))
            finally:
                engine.close()
        dispatch(self._log, self._settings, self._output)

    def finish(self) -> None:
        """Process, and tell what became of the expected inputs.

        Raises:
            typer.Exit: one of them was rejected or refused (exit code 2).
        """
        if not self.process():
            if self._process:
                self._output.notes.print("appended; the engine that runs this log processes it", style="dim")
            for message in self._expected:
                self._tell(message, "appended", [])
            return
        failed = False
        for message in self._expected:
            events = [event for event in events_of(self._log, message.key) if event.causationid == message.id]
            failed |= self._tell(message, _outcome(events), events)
        if failed:
            raise typer.Exit(BAD_INPUT)

    def _tell(self, message: Message, outcome: str, events: list[Event[Data]]) -> bool:
        """Tell what became of one input; return whether it failed."""
        faults: list[dict[str, Any]] = []
        for event in events:
            if isinstance(event.data, JobRejected):
                faults += [{"path": fault.path, "message": fault.message} for fault in event.data.faults]
            elif isinstance(event.data, CommandRefused):
                faults.append({"path": "", "message": event.data.reason})
        if self._output.as_json:
            self._output.record({"job": message.key, "input": message.id, "outcome": outcome, "faults": faults})
        elif faults:
            for fault in faults:
                self._output.fail(f"{fault['path']}: {fault['message']}" if fault["path"] else fault["message"])
        elif not events:
            self._output.console.print(f"{message.key}: {outcome}")
        for event in events if not self._output.as_json and not faults else []:
            self._output.console.print(Text.assemble((f"{message.key}  ", "dim"), tell(event)), soft_wrap=True)
            for warning in getattr(event.data, "warnings", ()):
                self._output.warn(warning)
        return bool(faults)


def _outcome(events: list[Event[Data]]) -> str:
    if not events:
        return "unchanged"
    if any(isinstance(event.data, JobRejected) for event in events):
        return "rejected"
    return "refused" if any(isinstance(event.data, CommandRefused) for event in events) else "applied"
