"""Append inputs, have them processed (here, by another process, or not at all), and return their outcomes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from engine.application.places import Place
from engine.events import Data, Event, Message, Topic, decode
from engine.events.ids import separate_job_id
from engine.events.inputs import JobSubmitted, JobUpdated
from engine.events.outcomes import CommandRefused, Fault, JobRejected
from engine.history.reading import events_of
from engine.kubernetes.manifests.manifest import read_manifest
from engine.kubernetes.reading.identity import job_name
from engine.log.errors import FencedError, LogBusyError
from engine.log.port import SearchableLog
from engine.log.producer_time import wall_clock
from engine.runtime.callbacks import Callbacks
from engine.runtime.engine import Engine, run_lock
from engine.runtime.opening import is_shared
from engine.runtime.principal import principal_of, spoken_by
from engine.runtime.reporter import Reporter
from engine.runtime.settings import Settings
from engine.runtime.stages import stages_of

Outcome = Literal["applied", "duplicate", "unchanged", "rejected", "refused", "appended"]
"""Outcome of an input; `appended`: another process will process it."""

_REPEATED: Final = "an input with this id was {} before, and nothing is done now; any other input needs a new id"

Progress = Callable[[], AbstractContextManager[Callable[[int, int], object]]]
"""Opens a display of progress; the function that it yields is called with the inputs done and their total."""


@dataclass(frozen=True, slots=True)
class Taken:
    """An input and its outcome."""

    job: str
    """Id."""
    name: str
    """Name of its job."""
    place: Place
    """Where the input came from: `jobs.yaml: line 12`."""
    input: str
    """Id."""
    outcome: Outcome
    faults: tuple[Fault, ...] = ()
    """Why it was rejected or refused."""
    warnings: tuple[str, ...] = ()
    events: list[Event[Data]] = field(default_factory=list)
    """The events that it caused."""
    repeated: bool = False
    """An input with this id was taken before: nothing happened, and this is the outcome of that one."""

    @property
    def failed(self) -> bool:
        """Whether it was rejected or refused."""
        return bool(self.faults)


class _Expected(NamedTuple):
    """An input whose outcome `finish` returns."""

    message: Message
    name: str
    place: Place
    hint: str
    chosen: bool
    known: int
    """Number of events that an input with this id caused before."""


class Feed:
    """Appends one caller's inputs to a log and returns their outcomes."""

    def __init__(
        self,
        log: SearchableLog,
        settings: Settings,
        reporter: Reporter,
        *,
        process: bool,
        engine: Engine | None = None,
        hosted: bool = False,
        progress: Progress = lambda: nullcontext(lambda _done, _all: None),
    ) -> None:
        """Prepare; nothing is written yet.

        Args:
            log: writable.
            settings: of this process.
            reporter: receives failures of callbacks.
            process: process the inputs here, unless another process runs the log or workers do.
            engine: the engine of an earlier feed into this log, with its state in memory.
            hosted: whether this code runs inside another program (`Engine`).
            progress: shows the progress of processing.

        Raises:
            CallbackError: the callbacks in the settings cannot be registered.
        """
        self._log = log
        self._settings = settings
        self._process = process and not is_shared(settings.log)
        self._progress = progress
        self._hosted = hosted
        self._principal = principal_of(settings.log)
        self.engine: Engine | None = engine
        """The engine that processed the inputs; the feed's creator closes it. `None`: nothing was processed here."""
        self._callbacks = Callbacks(settings, reporter) if self._process else None
        self._started = wall_clock()
        self._expected: list[_Expected] = []
        self.appended = 0
        self.processed = 0
        """Inputs taken and timers fired."""
        self.processor: Literal["here", "engine", "workers", "nobody"] = "nobody"
        """Who processes the inputs, as of `finish`; `engine`: another process that runs the log."""

    def play_from(self, time: int) -> None:
        """Set the recorded time (microseconds) from which callbacks see events as live, if it is before the feed's start."""
        self._started = min(self._started, time)

    def append(self, topic: Topic, messages: Sequence[Message]) -> None:
        """Append inputs, all or none, signed with this process's principal.

        Raises:
            LogUnavailableError: the log cannot be written.
        """
        self._log.append(topic, spoken_by(messages, self._principal) if topic == "jobs" else messages)
        self.appended += len(messages)

    def expect(self, message: Message, name: str = "", place: Place | None = None, hint: str = "", *, chosen: bool = False) -> None:
        """Have `finish` return the outcome of an appended input that is not processed yet.

        Args:
            message: the input.
            name: displayed name of its job; default the id.
            place: where the input came from, for corrections.
            hint: warning for when it changes nothing.
            chosen: the caller chose its id, so a repeated one is warned of.
        """
        # Outcomes other than `appended` are known only if the input is processed here.
        known = len(self._followed(message)) if self._process else 0
        self._expected.append(_Expected(message, name or message.key, place or Place(), hint, chosen, known))

    def process(self, *, notify: bool = True) -> bool:
        """Process all appended inputs until the log is quiet; false if another process does so.

        Args:
            notify: run the callbacks too.

        Raises:
            LogError: the log failed.
        """
        if not self._work():
            return False
        if notify:
            self.notify_callbacks()
        return True

    def finish(self) -> list[Taken]:
        """Process, and return the outcomes of the expected inputs; `notify_callbacks` runs the callbacks.

        Raises:
            LogError: the log failed.
        """
        processed = self._work()
        if processed:
            self.processor = "here"
        else:
            self.processor = "workers" if is_shared(self._settings.log) else "engine" if self._process else "nobody"
        expected, self._expected = self._expected, []
        return [self._taken(each, processed=processed) for each in expected]

    def notify_callbacks(self) -> None:
        """Deliver committed events to the callbacks, unless another process does so.

        Raises:
            LogError: the log cannot be read or written.
        """
        with ExitStack() as stack:
            if self._callbacks is not None and self._is_alone(stack):
                self._callbacks.open(self._log, self._started)
                self._callbacks.deliver()

    def _work(self) -> bool:
        if not self._process:
            return False
        while True:
            with ExitStack() as stack:
                if not self._is_alone(stack):
                    return False
                engine = self._run()
            # A process that appended while we held the lock relies on us, but may have appended after our last read.
            if not engine.lag():
                return True

    def _is_alone(self, stack: ExitStack) -> bool:
        """Take the lock for running the log; false if another process holds it."""
        lock = run_lock(self._settings)
        if lock is not None:
            try:
                stack.enter_context(lock.hold())
            except LogBusyError:
                return False
        return True

    def _run(self) -> Engine:
        """Run the engine; it stays open for the next call, as recovering its state may take seconds."""
        with self._progress() as show:
            engine, fresh = self.engine, self.engine is None
            if engine is None:
                engine = Engine.of(self._log, stages_of(self._settings), self._settings, hosted=self._hosted)
                engine.open()
            before, known = engine.taken(), engine

            def report_progress() -> None:
                done = known.taken() - before
                show(done, done + known.lag())

            try:
                self.processed += engine.run_until_quiet(report_progress)
            except FencedError:
                if fresh:
                    raise
                # Another command has processed since; nothing of ours was written.
                engine.open()
                self.processed += engine.run_until_quiet(report_progress)
        self.engine = engine
        return engine

    def _followed(self, message: Message) -> list[Event[Data]]:
        """Return the events that an input caused: in its job, or in a job of its own if that one has another owner."""
        events = self._caused(message, message.key)
        data = decode(message).data
        if events or not isinstance(data, JobSubmitted | JobUpdated):
            return events
        return self._caused(message, separate_job_id(message.key, message.clusterid, job_name(data.manifest)[0], message.key))

    def _caused(self, message: Message, job: str) -> list[Event[Data]]:
        return [event for event in events_of(self._log, job) if event.causationid == message.id]

    def _taken(self, expected: _Expected, *, processed: bool) -> Taken:
        message, name, place, hint, chosen, known = expected
        if not processed:
            return Taken(message.key, name, place, message.id, "appended")
        events = self._followed(message)
        repeated = 0 < known == len(events)
        if not repeated:
            events = events[known:]
        faults = tuple(fault for event in events for fault in _faults(event.data))
        outcome: Outcome = "duplicate" if repeated else "applied"
        if faults:
            outcome = "refused" if isinstance(events[-1].data, CommandRefused) else "rejected"
        elif not events:
            outcome = "unchanged"
        warnings = [warning for event in events for warning in getattr(event.data, "warnings", ())]
        if repeated and chosen:
            warnings = [_REPEATED.format("applied" if outcome == "duplicate" else outcome)]
        elif any(isinstance(event.data, JobRejected) for event in events):
            warnings += _warnings(message)
        if hint and not events:
            warnings.append(hint)
        return Taken(message.key, name, place, message.id, outcome, faults, tuple(warnings), events, repeated)


def _warnings(message: Message) -> list[str]:
    """Return the warnings about a rejected manifest: the log keeps only its faults."""
    data = decode(message).data
    # With `strict` the warnings are among the faults.
    if not isinstance(data, JobSubmitted) or data.strict:
        return []
    return read_manifest(data.manifest, seed=message.id).warnings


def _faults(data: Data) -> Sequence[Fault]:
    """Return the faults that an event reports of its input."""
    if isinstance(data, JobRejected):
        return data.faults
    return [Fault("", data.reason)] if isinstance(data, CommandRefused) else []
