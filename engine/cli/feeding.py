"""Append inputs, then let them be processed: here, by the engine that runs beside us, or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple

import typer
from rich.text import Text

from engine.cli.output import Output
from engine.events import Data, Event, Message, Topic, decode, encode
from engine.events.ids import digest, separate_job_id
from engine.events.inputs import CommandIssued, CustomEventRaised, JobSubmitted, JobUpdated
from engine.events.jobs import CommandRefused, JobRejected
from engine.history.reading import events_of
from engine.history.sentences import tell
from engine.history.transfer import Exportable
from engine.kubernetes.manifests.manifest import read_manifest
from engine.kubernetes.reading.identity import job_name
from engine.log.errors import FencedError, LogBusyError
from engine.log.producer_time import wall_clock as now
from engine.runtime.callbacks import Callbacks
from engine.runtime.engine import Engine, run_lock
from engine.runtime.errors import BAD_INPUT
from engine.runtime.opening import is_shared
from engine.runtime.principal import principal_of, spoken_by
from engine.runtime.settings import Settings
from engine.runtime.stages import stages_of

__all__ = ["Feed", "command_message", "input_message"]


def input_message(cluster: str, job: str, data: Data, identity: str, source: str, recordedtime: int) -> Message:
    """Return an input about a job as the log keeps it.

    Args:
        cluster: the job's.
        job: the job's id.
        data: the input.
        identity: id of the input, chosen by whoever appends it.
        source: who says so.
        recordedtime: microseconds.

    Raises:
        UndecodableError: it is larger than an input may be, or breaks another bound; the text names it.
    """
    event = Event(identity, source, data.TYPE, job, recordedtime, recordedtime, 0, job, "", cluster, data)
    message = encode(event)
    decode(message)
    return message


def command_message(cluster: str, job: str, data: CommandIssued | CustomEventRaised, identity: str, recordedtime: int) -> Message:
    """Return a command or custom event as the log keeps it; `identity` is the client's, hashed to the form of all ids."""
    return input_message(cluster, job, data, digest(f"command/{job}/{identity}".encode()), f"command/{data.by}", recordedtime)


class _Expected(NamedTuple):
    """An input of which it is told what became of it."""

    message: Message
    name: str
    place: str
    hint: str
    repeated: bool
    """An input with this id was taken before."""


class Feed:
    """One command's way to put inputs into a log and to see what becomes of them."""

    def __init__(self, log: Exportable, settings: Settings, output: Output, *, process: bool) -> None:
        """Begin.

        Args:
            log: writable.
            settings: of this run.
            output: where what happened is told.
            process: process what is appended, unless a live engine does, or the log is one that workers process.

        Raises:
            CallbackError: the callbacks that the settings name cannot be registered.
        """
        self._log = log
        self._settings = settings
        self._output = output
        self._process = process and not is_shared(settings.log)
        self._principal = principal_of(settings.log)
        self._engine: Engine | None = None
        self._callbacks = Callbacks(settings, output) if self._process else None
        self._started = now()
        self._expected: list[_Expected] = []
        self.appended = 0
        self.processed = 0

    def play_from(self, time: int) -> None:
        """Say that what is put in was recorded from this time on (microseconds): from then on it is news to callbacks."""
        self._started = min(self._started, time)

    def append(self, topic: Topic, messages: Sequence[Message]) -> None:
        """Append inputs, all or none; it is this process that says what they say.

        Raises:
            LogUnavailableError: the log cannot be written.
        """
        self._log.append(topic, spoken_by(messages, self._principal) if topic == "jobs" else messages)
        self.appended += len(messages)

    def expect(self, message: Message, name: str = "", place: str = "", hint: str = "") -> None:
        """Tell at the end what became of an input that was appended and not yet processed.

        Args:
            message: the input.
            name: what to call its job; the id unless given.
            place: where it came from, for whoever has to correct it: `jobs.yaml: line 12`.
            hint: warning for the case that nothing follows.
        """
        # Only what is processed here is told more of than that it was appended.
        repeated = self._process and bool(self._followed(message))
        self._expected.append(_Expected(message, name or message.key, place, hint, repeated))

    def warn(self, text: str) -> None:
        """Say that something is odd but was dealt with."""
        self._output.warn(text)

    def process(self, *, tell: bool = True) -> bool:
        """Process until quiet what was appended so far; false if that is somebody else's work.

        Args:
            tell: tell the callbacks too.

        Raises:
            LogError: the log failed.
        """
        if not self._work():
            return False
        if tell:
            self._tell_callbacks()
        return True

    def _work(self) -> bool:
        if not self._process:
            return False
        while True:
            with ExitStack() as stack:
                if not self._alone(stack):
                    return False
                engine = self._run()
            # Who appended while the lock was held relied on its holder, and may have come too late for it.
            if not engine.lag():
                return True

    def _alone(self, stack: ExitStack) -> bool:
        """Take the lock of whoever runs the log; false if somebody else has it."""
        lock = run_lock(self._settings)
        if lock is not None:
            try:
                stack.enter_context(lock.hold())
            except LogBusyError:
                return False
        return True

    def _tell_callbacks(self) -> None:
        with ExitStack() as stack:
            if self._callbacks is not None and self._alone(stack):
                self._callbacks.open(self._log, self._started)
                self._callbacks.tell()

    def _run(self) -> Engine:
        """Run the engine; it stays open for the next time, as recovering its state may take seconds."""
        with self._output.progress("inputs") as progress:
            task = progress.add_task("opening", total=None)
            engine, fresh = self._engine or self._engine_of_all(), self._engine is None
            if fresh:
                engine.open()
            waiting = engine.lag()
            progress.update(task, description="processing", total=waiting)

            def show() -> None:
                progress.update(task, completed=max(waiting - engine.lag(), 0))

            try:
                self.processed += engine.run_until_quiet(show)
            except FencedError:
                if fresh:
                    raise
                # Another command has processed since; nothing of ours was written.
                engine.open()
                self.processed += engine.run_until_quiet(show)
        self._engine = engine
        return engine

    def _engine_of_all(self) -> Engine:
        return Engine.of(self._log, stages_of(self._settings), self._settings)

    def finish(self) -> None:
        """Process, and tell what became of the expected inputs.

        Raises:
            typer.Exit: one of them was rejected or refused (exit code 2).
        """
        processed = self._work()
        if is_shared(self._settings.log):
            self._output.notes.print("appended; the workers of this log process it", style="dim")
        elif self._process and not processed:
            self._output.notes.print("appended; the engine that runs this log processes it", style="dim")
        failed = False
        for expected in self._expected:
            if processed:
                failed |= self._tell(expected, self._followed(expected.message))
            else:
                self._say(expected, "appended")
        if processed:
            self._tell_callbacks()
        if failed:
            raise typer.Exit(BAD_INPUT)

    def _followed(self, message: Message) -> list[Event[Data]]:
        """Return what followed from an input: about its job or, where that is somebody else's, about one of its own."""
        events = self._caused(message, message.key)
        data = decode(message).data
        if events or not isinstance(data, JobSubmitted | JobUpdated):
            return events
        return self._caused(message, separate_job_id(message.key, message.clusterid, job_name(data.manifest)[0], message.key))

    def _caused(self, message: Message, job: str) -> list[Event[Data]]:
        return [event for event in events_of(self._log, job) if event.causationid == message.id]

    def _tell(self, expected: _Expected, events: list[Event[Data]]) -> bool:
        """Tell what followed from one input; return whether it failed."""
        faults = [fault for event in events for fault in _faults(event.data)]
        if faults or not events:
            outcome = "unchanged" if not events else "refused" if isinstance(events[-1].data, CommandRefused) else "rejected"
            self._say(expected, outcome, faults)
        elif expected.repeated or self._output.as_json:
            self._say(expected, "duplicate" if expected.repeated else "applied")
        else:
            for event in events:
                self._output.console.print(Text.assemble((f"{event.subject}  ", "dim"), tell(event)), soft_wrap=True)
        warnings = [warning for event in events for warning in getattr(event.data, "warnings", ())]
        if any(isinstance(event.data, JobRejected) for event in events):
            warnings += _warnings(expected.message)
        if expected.hint and not events:
            warnings.append(expected.hint)
        for warning in warnings:
            self._output.warn(f"{expected.place}: {warning}" if expected.place else warning)
        return bool(faults)

    def _say(self, expected: _Expected, outcome: str, faults: Sequence[tuple[str, str]] = ()) -> None:
        message, name, place = expected[:3]
        if self._output.as_json:
            told = [{"path": path, "message": text} for path, text in faults]
            self._output.record({"job": message.key, "name": name, "input": message.id, "outcome": outcome, "faults": told})
        elif not faults:
            meaning = "unchanged: it was taken before" if outcome == "duplicate" else outcome
            self._output.console.print(Text(f"{name}: {meaning}"), soft_wrap=True)
        for path, text in () if self._output.as_json else faults:
            self._output.fail(": ".join(part for part in (place or name, path, text) if part))


def _warnings(message: Message) -> list[str]:
    """Return what is odd about the manifest of a submission that was rejected: the log keeps only its faults."""
    data = decode(message).data
    # With `strict` the warnings are among the faults.
    if not isinstance(data, JobSubmitted) or data.strict:
        return []
    return read_manifest(data.manifest, seed=message.id).warnings


def _faults(data: Data) -> list[tuple[str, str]]:
    """Return (path, message) of what an event says is wrong with its input."""
    if isinstance(data, JobRejected):
        return [(fault.path, fault.message) for fault in data.faults]
    return [("", data.reason)] if isinstance(data, CommandRefused) else []
