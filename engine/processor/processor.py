"""Processor: runs one shard of a stage on a log.

One transaction reads inputs, calls the stage's `decide`, applies and writes its events and advances the input offsets. The
processor does not depend on jobs, nor the stage on the processor.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, perf_counter
from typing import Final, TypeVar

from engine.events import Data, Event, EventError, decode
from engine.events.times import SECOND
from engine.log.errors import FencedError, LogError, RecordTooLargeError
from engine.log.port import Commit, Log, Record, ShardLog, Vector
from engine.processor.batch_retries import Failures, UndecidedError, not_written
from engine.processor.inputs import Inputs, Retaken, Source, Taken
from engine.processor.observer import Batch, Observer
from engine.processor.partitions import single_shard
from engine.processor.poison_guard import PoisonGuard
from engine.processor.recovery import StoppedRecoveryError, must_reach, recover
from engine.processor.shard_run import OUTPUT_LIMIT, Limit, ShardRun, UnfiredError
from engine.processor.shard_view import ShardView
from engine.processor.stage import Stage, TakesTurns
from engine.processor.watchdog import DECIDE_SECONDS, Watchdog

_BATCH: Final = 500
"""Maximum number of inputs per transaction. Doubling it doubles the longest pause and saves 1 % of the work on SQLite."""

_SHORTEST_REST: Final = 0.001

_OVERDUE: Final = 3600 * SECOND
_SETTLED: Final = 2 * SECOND
"""Delay of overdue timers by the clock (microseconds): they may belong to history that is still arriving, from an importer or an
earlier stage, and the next part may cancel them. So they fire once no input has arrived for this long."""

SNAPSHOT_EVERY: Final = 100_000
"""A changed subject is written to the snapshot within this many inputs; recovery folds a tail of as many, in about 2 s."""

S = TypeVar("S")


class Processor(ShardView[S]):
    """Runs one shard of a stage. Not thread-safe: one thread steps it."""

    def __init__(
        self,
        log: Log,
        stage: Stage[S],
        number: int = 0,
        *,
        batch: int = _BATCH,
        snapshot_every: int = SNAPSHOT_EVERY,
        clock: Callable[[], int] | None = None,
        observer: Observer | None = None,
        watchdog: Watchdog | None = None,
        hosted: bool = False,
    ) -> None:
        """Configure the processor; `open` is the first access to the log.

        Args:
            log: log with inputs, outputs and snapshots.
            stage: stage to run.
            number: number of the shard, from 0.
            batch: maximum number of inputs per transaction.
            snapshot_every: number of inputs within which a changed subject is written to the snapshot.
            clock: time by which timers fire while no input waits (microseconds); `None`: timers fire by recorded times only.
            observer: called at each step.
            watchdog: ends the process if a decision takes too long.
            hosted: true inside another program, whose garbage collector is left on.
        """
        super().__init__(log, stage, number)
        self._takes_turns: Final = stage if isinstance(stage, TakesTurns) else None
        self._waiting_fact: tuple[Record, Event[Data] | None] | None = None
        """Last fact of the cluster that may be processed early, and its decoded event, if it can be decoded."""
        self.batch: Final = batch
        """Maximum number of inputs per transaction."""
        self._most_inputs = Limit(batch)
        self._most_outputs = Limit(OUTPUT_LIMIT)
        self._every = snapshot_every
        self._clock = clock
        self._observer = observer
        self._watchdog = watchdog
        self._hosted = hosted
        self._mine = False
        self._last: PoisonGuard | None = None
        """Guard of this process's last opening, unless the shard was closed cleanly."""
        self._took = 0
        """Clock time at which the shard was opened or last processed inputs."""
        self.moved: float | None = None
        """Start of the last step (seconds of `time.monotonic`); `None` while the shard is being opened."""

    # --- opening and closing ----------------------------------------------------------------------------------------------

    def open(self, stopped: Callable[[], bool] = lambda: False) -> None:
        """Open the shard, fence its earlier holder, and recover the state.

        Args:
            stopped: returns true if this process no longer needs the shard.

        Raises:
            StoppedRecoveryError: `stopped` returned true; the shard is closed.
            LogUnavailableError: the log cannot be reached or written, or an input partition ends before the shard's position.
            LayoutError: the shard ran before with other inputs.
            LogDamagedError: stored records are missing or damaged.
        """
        self._let_go()
        self._mine, self.moved = True, None
        if self._observer is not None:
            self._observer.opening(self)
        began = perf_counter()
        try:
            # Fence first, because only then is the position final.
            held = self.log.open(self.shard, self.reads)
            try:
                for partition, taken in zip(self.reads, held.position.vector, strict=True):
                    if taken:
                        must_reach(self.log, self.shard, partition, taken)
                poison_guard = PoisonGuard(self.shard, held, self.batch, self._last)
                poison_guard.recovering()
                try:
                    folded = self._load(held, poison_guard, stopped)
                except (StoppedRecoveryError, KeyboardInterrupt):
                    poison_guard.interrupted()
                    raise
                poison_guard.rest()
                self._last = poison_guard
                if self._watchdog is not None:
                    self._watchdog.watch(poison_guard)
            except BaseException:
                held.close()
                raise
        finally:
            self.moved = monotonic()
        if self._clock is not None:
            self._took = self._clock()
        seconds = perf_counter() - began
        self._logger.opened(seconds, folded)
        if self._observer is not None:
            self._observer.opened(self, seconds, folded)

    def close(self) -> None:
        """Close the shard; uncommitted work is discarded. Idempotent."""
        if self.can_work:
            self._poison_guard.close()
        self._let_go()
        self._last = None
        if self._mine:
            self._mine = False
            self._logger.closed()
            if self._observer is not None:
                self._observer.closed(self.shard)

    def _let_go(self) -> None:
        if self._opened is not None:
            self._opened.held.close()
            self._opened = None

    def _load(self, held: ShardLog, poison_guard: PoisonGuard, stopped: Callable[[], bool] = lambda: False) -> int:
        """Recover the state up to the shard's position; return the number of events folded."""
        recovered = recover(self.log, self.stage, self.shard, held, self._every, hosted=self._hosted, stopped=stopped)
        self._logger.begin(self.stage.parked(recovered.state))
        inputs = self._inputs(held.position.vector)
        patience = DECIDE_SECONDS if self._watchdog is None else self._watchdog.seconds
        counts = self._observer is not None
        run = ShardRun(
            self.stage, self.shard, held, recovered, inputs, self._most_outputs, poison_guard.begin, patience, counts=counts
        )
        poison_guard.rehearse = self._rehearse
        self._opened, self._poison_guard = run, poison_guard
        return recovered.events

    def _rehearse(self) -> bool:
        # Looks up the current run: the guard must not keep an earlier one in memory.
        return self._run.rehearse()

    def _inputs(self, offsets: Vector) -> Inputs:
        return Inputs(self.log, self.reads, offsets, self.batch, of_jobs=not single_shard(self.stage), in_turn=self._in_turn)

    def _in_turn(self, record: Record) -> bool:
        if self._takes_turns is None:
            return False
        if self._waiting_fact is None or self._waiting_fact[0] is not record:  # called again before each earlier input
            try:
                self._waiting_fact = record, decode(record.message)
            except EventError:
                self._waiting_fact = record, None  # becomes a dead letter
        _, event = self._waiting_fact
        return event is not None and self._takes_turns.in_turn(self._run.state, event)

    # --- timers by the clock ----------------------------------------------------------------------------------------------

    def rest(self, most: float) -> float:
        """Return the seconds until the earliest timer, at most `most`: the time for which the caller may wait for inputs."""
        due = self._run.due
        if due is None or self._clock is None:
            return most
        now = self._clock()
        return min(most, max((self._due_by_clock(due, now) - now) / SECOND, _SHORTEST_REST))

    def _due_by_clock(self, due: int, now: int) -> int:
        """Return the time at which a timer fires if no input waits or arrives (all in microseconds)."""
        return max(due, self._took + _SETTLED) if due < now - _OVERDUE else due

    # --- working ----------------------------------------------------------------------------------------------------------

    def step(self) -> int:
        """Process waiting inputs, up to a batch, and commit their events.

        If no input waits, timers fire by the clock, if there is one; if none is due, a part of the snapshot is written.

        Returns:
            The number of inputs processed and timers fired; 0 if there is nothing to do.

        Raises:
            FencedError: another process has taken over the shard; stop.
            LogError: the log failed; unless `is_open`, open the shard again.
        """
        run = self._run
        self.moved = monotonic()
        run.inputs.refresh()
        done = self._attempt(run.inputs)
        if self._clock is not None:
            now = self._clock()
            if done:
                self._took = now
            elif (due := self._run.due) is not None and self._due_by_clock(due, now) <= now:
                done = self.fire_due(now)
        if not done:
            self._commit(None)
        return done

    def run_until_quiet(self) -> int:
        """Step until no input waits, no timer is due by the shard's time and no work is postponed, then complete the snapshot.

        Postponed work is done at once; the shard's time moves to the time of that work.

        Returns:
            The number of inputs processed and timers fired.

        Raises:
            LogError: the errors of `step`.
        """
        total = 0
        while done := self.step() or self.fire_due(self.horizon):
            total += done
        while self.snapshot_dirty:
            self._commit(None)
        return total

    def fire_due(self, clock_now: int) -> int:
        """Fire the timers due by a time (microseconds) and commit their events; for a shard without waiting inputs.

        Returns:
            The number of timers fired. More may be due if the commit grew too large.

        Raises:
            LogError: the errors of `step`.
        """
        return self._attempt(Retaken(()), clock_now)

    def _attempt(self, source: Source, horizon: int | None = None) -> int:
        """Process a batch, then fire the timers due by `horizon`.

        If the stage fails on an input or a timer, it is retried from the committed state, with its job parked. If the log rejects
        an output as too large, the batch is retried with its input as a dead letter.
        """
        failures = Failures()
        began = perf_counter()
        try:
            while True:
                try:
                    done, inputs = self._process(source, failures, horizon)
                    self._poison_guard.rest()
                    if done:
                        self._commit(inputs, done, began, failures)
                    break
                except UndecidedError as undecided:
                    failures.note(undecided)
                    self._poison_guard.recovering()
                    # Not reopened, because that would fence a process that has taken over meanwhile.
                    self._load(self._run.held, self._poison_guard)
                    source = Retaken(undecided.taken)
        except BaseException as error:
            if isinstance(error, Exception | KeyboardInterrupt) and not isinstance(error, FencedError) and self._opened is not None:
                # An interrupt (Ctrl-C) or an unreadable log does not count as a crash. Any other exception of a decision
                # (SystemExit, a panic in a C extension) ends the process, and would end each successor.
                self._poison_guard.close()
            # The state in memory is ahead of the log.
            self._let_go()
            raise
        if failures.any:
            self._run.inputs = self._inputs(self._run.basis)
        return done

    def _process(self, source: Source, failures: Failures, idle_horizon: int | None) -> tuple[int, int]:
        """Process inputs; return the number of inputs and timers, and the number of inputs."""
        run, stage = self._run, self.stage
        taken: list[Taken] = []
        fired = 0
        timers, reasons, large = failures.timers, failures.inputs, failures.large
        state, most = run.state, self._most_inputs.now
        while len(taken) < most and not run.full() and (found := source.peek()) is not None:
            place, record, time = found
            # Due by this input's time, or by the shard's own time, which is later if producers' clocks differ. Otherwise the firing
            # order would depend on whether the shard was idle in between.
            due = stage.due(state)
            if due is not None and due <= (horizon := max(run.now, time)):
                try:
                    fired += run.fire(horizon, timers)
                except UnfiredError as unfired:
                    raise UndecidedError([*taken, found], unfired.reason, timer=unfired.sequence) from unfired
                if run.full():
                    break
            taken.append(found)
            try:
                if large and (place, record.offset) in large:
                    run.drop_large(found, large[place, record.offset])
                else:
                    run.take(found, reasons.get((place, record.offset), ()) if reasons else ())
            except LogError:
                raise
            except Exception as error:
                raise UndecidedError(taken, f"{type(error).__name__}: {error}") from error
            source.take()
        if idle_horizon is not None:
            try:
                fired += run.fire(idle_horizon, timers)
            except UnfiredError as unfired:
                raise UndecidedError(taken, unfired.reason, timer=unfired.sequence) from unfired
        return len(taken) + fired, len(taken)

    # --- committing -------------------------------------------------------------------------------------------------------

    def _commit(self, inputs: int | None, done: int = 0, began: float | None = None, failures: Failures | None = None) -> None:
        """Commit a batch's outputs.

        Args:
            inputs: number of inputs; `None`: only the snapshot is written.
            done: number of inputs processed and timers fired.
            began: time at which the first of them was read; `None`: now.
            failures: failures of earlier attempts.

        Raises:
            UndecidedError: an output is too large for the log.
        """
        run = self._run
        try:
            self._write_commit(run, inputs, done, perf_counter() if began is None else began)
        except BaseException as error:
            if self._observer is not None and isinstance(error, LogError):
                self._observer.commit_failed(self.shard, error)
            if isinstance(error, RecordTooLargeError) and failures is not None:
                raise not_written(run.begun, run.held.position.shardsequence + 1, error, failures) from error
            # The state in memory is ahead of the log.
            self._let_go()
            if isinstance(error, LogError):
                self._logger.given_up(error)
                self._most_inputs.failed(inputs or 0)
                self._most_outputs.failed(len(run.outputs))
            raise

    def _write_commit(self, run: ShardRun[S], inputs: int | None, done: int, began: float) -> None:
        run.account()
        after = run.position()
        committed = run.held.position
        run.snapshots.touch(self.stage.touched(run.state), committed, run.state)
        if run.snapshots.wants_mark(committed.shardsequence):
            run.snapshots.mark(committed.shardsequence, {partition: self.log.end(partition) for partition in self.writes})
        changes = run.snapshots.changes(run.state, after, run.accounts, inputs)
        if inputs is None and not changes:
            return
        commit_began = perf_counter()
        run.held.commit(Commit(after.vector, after.now, run.outputs, changes))
        ended = perf_counter()
        self._most_inputs.written()
        self._most_outputs.written()
        self._logger.committed(run.outputs)
        if self._observer is not None:
            seconds, taken = (ended - began, ended - commit_began), inputs or 0
            self._observer.committed(Batch(self.shard, *seconds, taken, done - taken, len(run.outputs), run.held.position))
        run.settle()
