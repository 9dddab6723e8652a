"""The processor: runs one shard of a stage on a log.

It takes inputs, lets the stage decide, applies what follows and writes it, and moves on, all in one transaction. It knows nothing
of jobs; the stage knows nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, Final, Generic, TypeVar

from engine.events import Data, Event, EventError, Topic, decode, encode
from engine.events.ids import output_id
from engine.events.jobs import Accounted
from engine.log.accounts import SILENT, Accounts
from engine.log.dead_letters import dead_letter
from engine.log.errors import LogError
from engine.log.inputs import Inputs, Retaken, Source, Taken
from engine.log.metrics import ProcessorMetrics
from engine.log.port import Commit, Log, Output, Position, Record, ShardId, ShardLog, Vector
from engine.log.recovery import Recovered, input_partitions, output_partitions, recover
from engine.log.stage import Stage

__all__ = ["OUTPUT_LIMIT", "SNAPSHOT_EVERY", "BrokenStageError", "Processor"]

OUTPUT_LIMIT: Final = 2_000
"""Outputs at which a commit takes no further input (kafka.md, Transactions)."""

SNAPSHOT_EVERY: Final = 100_000
"""Inputs within which a changed subject is written to the snapshot; recovery folds the tail of as many, in about 2 s."""

S = TypeVar("S")

Reasons = dict[tuple[int, int], list[str]]
"""Why the stage failed on an input, once for each attempt; by the place of its partition and its offset."""


class BrokenStageError(Exception):
    """Raised when a stage breaks its contract."""


class _UndecidedError(Exception):
    """Raised when the stage failed on the last of some inputs."""

    def __init__(self, taken: list[Taken], reason: str) -> None:
        super().__init__(reason)
        self.taken = taken
        self.reason = reason


class _Run(Generic[S]):
    """What a processor has in memory while its shard is open."""

    __slots__ = (
        "accounts",
        "basis",
        "committed",
        "held",
        "inputs",
        "now",
        "outputs",
        "sequence",
        "silent",
        "snapshots",
        "state",
        "vector",
    )

    def __init__(self, held: ShardLog, recovered: Recovered[S], inputs: Inputs) -> None:
        position = held.position
        self.held = held
        self.state = recovered.state
        self.accounts = recovered.accounts
        self.snapshots = recovered.snapshots
        self.inputs = inputs
        self.now = position.now
        self.sequence = position.shardsequence
        self.vector = list(position.vector)
        self.basis: Vector = position.vector
        """The vector as a tuple."""
        self.outputs: list[Output] = []
        self.silent = dict.fromkeys(SILENT, 0)
        """Inputs of this commit that left no event."""
        self.committed: dict[str, int] = dict(self.accounts.outcomes)

    def position(self) -> Position:
        """Where the shard will stand when all this is committed."""
        return Position(self.basis, self.now, self.sequence)


class Processor(Generic[S]):
    """One shard of a stage at work. Not thread-safe: one thread steps it."""

    def __init__(
        self,
        log: Log,
        stage: Stage[S],
        number: int = 0,
        *,
        batch: int = 500,
        snapshot_every: int = SNAPSHOT_EVERY,
        clock: Callable[[], int] | None = None,
        metrics: ProcessorMetrics | None = None,
    ) -> None:
        """Name what is to be run; nothing is touched until `open`.

        Args:
            log: where inputs, outputs and snapshots stand.
            stage: what decides.
            number: which shard, from 0.
            batch: inputs a transaction.
            snapshot_every: inputs within which a changed subject is written to the snapshot.
            clock: gives the time (microseconds) by which timers fire while no input waits; `None`: only recorded times do.
            metrics: where what it does is counted.
        """
        self.shard: Final = ShardId(stage.name, number)
        self.stage: Final[Stage[S]] = stage
        self.log: Final = log
        self._batch = batch
        self._every = snapshot_every
        self._clock = clock
        self._metrics = metrics
        self._partitions = input_partitions(log, stage, number)
        self._absorbs = [stage.absorbs(partition.topic) for partition in self._partitions]
        self._written = output_partitions(log, stage, number)
        self._opened: _Run[S] | None = None

    # --- opening and closing ----------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Take the shard over, whoever holds it, and bring its state to where it stands.

        Raises:
            LogUnavailableError: the log cannot be reached or written.
            LayoutError: the shard was run before with other inputs.
            LogDamagedError: what the log holds is not what was written.
        """
        self.close()
        began = perf_counter()
        # Fence first: only then is the position final.
        self._load(self.log.open(self.shard, self._partitions))
        if self._metrics is not None:
            self._metrics.opened(self, perf_counter() - began)

    def close(self) -> None:
        """Give the shard back; what is not committed is forgotten. Idempotent."""
        if self._opened is not None:
            self._opened.held.close()
            self._opened = None

    def _load(self, held: ShardLog) -> None:
        recovered = recover(self.log, self.stage, self.shard, held, self._every)
        self._opened = _Run(held, recovered, self._inputs(held.position.vector))

    def _inputs(self, offsets: Vector) -> Inputs:
        return Inputs(self.log, self._partitions, offsets, self._batch)

    # --- what it shows ----------------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Tell whether it holds its shard. After an error of the log it does not, and must be opened again."""
        return self._opened is not None

    @property
    def state(self) -> S:
        """The stage's state."""
        return self._run.state

    @property
    def accounts(self) -> Accounts:
        """What became of the inputs."""
        return self._run.accounts

    @property
    def committed(self) -> dict[str, int]:
        """Inputs by outcome, as of the last commit."""
        return self._run.committed

    @property
    def position(self) -> Position:
        """How far the shard has committed."""
        return self._run.held.position

    @property
    def snapshot_low(self) -> Position:
        """Where the snapshot stands: recovery folds what comes behind it."""
        return self._run.snapshots.low

    @property
    def snapshot_dirty(self) -> int:
        """Number of subjects whose snapshot record is older than their state."""
        return self._run.snapshots.dirty

    @property
    def timer_due(self) -> int | None:
        """When the earliest timer fires (microseconds), or `None`."""
        return self.stage.due(self._run.state)

    def lag(self) -> int:
        """Return the number of offsets that wait in the shard's input partitions."""
        taken = self.position.vector
        return sum(max(self.log.end(partition) - offset, 0) for partition, offset in zip(self._partitions, taken, strict=True))

    @property
    def _run(self) -> _Run[S]:
        if self._opened is None:
            raise LogError(f"shard {self.shard} is not open; open its processor first")
        return self._opened

    # --- working ----------------------------------------------------------------------------------------------------------

    def step(self) -> int:
        """Take what waits, up to a batch, and commit what follows.

        Where nothing waits, timers fire by the clock, if there is one; where none is due, a part of the snapshot is written.

        Returns:
            How many inputs were taken and timers fired; 0: there was nothing to do.

        Raises:
            FencedError: another process has taken the shard over; stop.
            LogError: the log failed; the shard is closed, open it again.
        """
        run = self._run
        run.inputs.refresh()
        done = self._attempt(run.inputs)
        if not done and self._clock is not None:
            done = self.fire_due(self._clock())
        if not done:
            self._commit(None)
        return done

    def run_until_quiet(self) -> int:
        """Step until no input waits and no timer is due by the shard's own time, then complete the snapshot.

        Returns:
            How many inputs were taken and timers fired.

        Raises:
            LogError: as `step`.
        """
        total = 0
        while done := self.step() or self.fire_due(self._run.now):
            total += done
        while self.snapshot_dirty:
            self._commit(None)
        return total

    def fire_due(self, clock_now: int) -> int:
        """Fire the timers due by a time (microseconds) and commit what follows; for a shard that has no input waiting.

        Returns:
            How many were fired. More may be due if the commit grew too large.

        Raises:
            LogError: as `step`.
        """
        run = self._run
        before = run.position()
        try:
            fired = self._fire(run, clock_now)
        except BaseException:
            self.close()
            raise
        self._touch(run, before)
        if fired:
            self._commit(0)
        return fired

    def _attempt(self, source: Source) -> int:
        """Process a batch. If the stage fails on an input: once more from the durable state, with that input set aside."""
        reasons: Reasons = {}
        try:
            while True:
                try:
                    done, inputs = self._process(source, reasons)
                    break
                except _UndecidedError as undecided:
                    place, record = undecided.taken[-1]
                    reasons.setdefault((place, record.offset), []).append(undecided.reason)
                    # Not opened anew: that would fence a process that has taken over meanwhile.
                    self._load(self._run.held)
                    source = Retaken(undecided.taken)
        except BaseException:
            # What is in memory is ahead of the log.
            self.close()
            raise
        if done:
            self._commit(inputs)
        if reasons:
            self._run.inputs = self._inputs(self._run.basis)
        return done

    def _process(self, source: Source, reasons: Reasons) -> tuple[int, int]:
        """Take inputs; return how many were taken and timers fired, and how many were taken."""
        run, stage = self._run, self.stage
        taken: list[Taken] = []
        fired = 0
        while len(taken) < self._batch and len(run.outputs) < OUTPUT_LIMIT and (found := source.peek()) is not None:
            place, record = found
            before = run.position()
            # Due by this input's time; or by the shard's own, which is ahead of it where producers' clocks differ. Otherwise
            # what fires before what would depend on whether the shard was idle in between.
            horizon = max(run.now, record.message.recordedtime)
            due = stage.due(run.state)
            if due is not None and due <= horizon:
                fired += self._fire(run, horizon)
                if len(run.outputs) >= OUTPUT_LIMIT:
                    self._touch(run, before)
                    break
            taken.append(found)
            try:
                self._take(run, place, record, reasons.get((place, record.offset), ()) if reasons else ())
            except LogError:
                raise
            except Exception as error:
                raise _UndecidedError(taken, f"{type(error).__name__}: {error}") from error
            if changed := stage.touched(run.state):
                run.snapshots.touch(changed, before)
            source.take()
        return len(taken) + fired, len(taken)

    def _fire(self, run: _Run[S], horizon: int) -> int:
        """Fire timers due by a time until none is left or the commit is full."""
        fired = 0
        while (due := self.stage.due(run.state)) is not None and due <= horizon and len(run.outputs) < OUTPUT_LIMIT:
            run.now = max(run.now, due)
            written = run.sequence
            for event in self.stage.fire(run.state, run.now):
                self._emit(run, event)
            if run.sequence == written:
                raise BrokenStageError(f"stage {self.stage.name} has a timer due at {due} that fires without an event")
            fired += 1
        return fired

    def _take(self, run: _Run[S], place: int, record: Record, reasons: Sequence[str]) -> None:
        """Decide on one input, or set it aside for the reasons that earlier attempts gave."""
        message = record.message
        run.now = max(run.now, message.recordedtime)
        run.vector[place] = record.offset + 1
        run.basis = tuple(run.vector)
        run.accounts.received += 1
        if len(reasons) > 1:
            # Parking failed as well.
            self._bury(run, record, reasons[-1])
            return
        try:
            event = decode(message)
        except EventError as error:
            self._bury(run, record, str(error))
            return
        stage, state = self.stage, run.state
        if self._absorbs[place]:
            stage.absorb(state, event)
        decision = stage.park(state, event, run.now, reasons[0]) if reasons else stage.decide(state, event, run.now)
        first: Event[Any] | None = None
        while True:
            try:
                made = next(decision)
            except StopIteration as stop:
                outcome = stop.value
                break
            if first is None:
                first = made
            self._emit(run, made)
        if first is None:
            if outcome not in SILENT:
                raise BrokenStageError(f"outcome {outcome!r} without an event")
            run.silent[outcome] += 1
        elif stage.outcome(first) is None:
            raise BrokenStageError(f"outcome {outcome!r}, but {first.type} stands for none")

    def _emit(self, run: _Run[S], event: Event[Data]) -> None:
        self.stage.evolve(run.state, event)
        self._write(run, event, event.data.TOPIC, None)

    def _write(self, run: _Run[S], event: Event[Data], topic: Topic, key: str | None) -> None:
        run.outputs.append(Output(topic, encode(event, key), run.basis))
        run.sequence += 1
        run.accounts.fold(event, run.basis, run.sequence, self.stage.outcome)

    def _bury(self, run: _Run[S], record: Record, reason: str) -> None:
        letter = dead_letter(self.shard, record, reason, run.now, run.accounts.outcomes["dead"] + 1)
        self._write(run, letter, "dead-letters", record.message.key)

    def _touch(self, run: _Run[S], before: Position) -> None:
        if changed := self.stage.touched(run.state):
            run.snapshots.touch(changed, before)

    # --- committing -------------------------------------------------------------------------------------------------------

    def _commit(self, inputs: int | None) -> None:
        """Write what has been made of some inputs; `None`: of none, there is only the snapshot to write."""
        run = self._run
        if any(run.silent.values()):
            self._account(run)
        after = run.position()
        committed = run.held.position
        if run.snapshots.wants_mark(committed.shardsequence):
            run.snapshots.mark(committed.shardsequence, {partition: self.log.end(partition) for partition in self._written})
        changes = run.snapshots.changes(run.state, after, run.accounts, inputs)
        if inputs is None and not changes:
            return
        began = perf_counter()
        try:
            run.held.commit(Commit(after.vector, after.now, run.outputs, changes))
        except BaseException as error:
            self.close()
            if self._metrics is not None and isinstance(error, LogError):
                self._metrics.commit_failed(self.shard, error)
            raise
        if self._metrics is not None:
            self._metrics.commit_done(self.shard, perf_counter() - began, len(run.outputs))
        run.outputs = []
        run.committed = dict(run.accounts.outcomes)

    def _account(self, run: _Run[S]) -> None:
        event = Event(
            output_id(self.stage.name, f"{self.shard}/accounted", run.sequence + 1),
            f"lahar/{self.stage.name}",
            Accounted.TYPE,
            str(self.shard),
            run.now,
            run.now,
            run.accounts.accounted + 1,
            "",
            "",
            "",
            Accounted(run.now, **run.silent),
        )
        run.silent = dict.fromkeys(SILENT, 0)
        self._write(run, event, self.stage.outputs[0], str(self.shard))
