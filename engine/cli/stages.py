"""The loops of processes that share a log with others: lifecycle shards in threads, callbacks in one process at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry

from engine.cli.callbacks import Callbacks
from engine.cli.engine import lifecycle_stage, now
from engine.cli.settings import Settings
from engine.cli.signals import Signals
from engine.history.transfer import Exportable
from engine.lifecycle.state import ShardState
from engine.log.errors import LogError, LogUnavailableError
from engine.processor.membership import Membership
from engine.processor.observer import Observer
from engine.processor.processor import Processor
from engine.processor.watchdog import Watchdog
from engine.runtime.runner import BackOff, Runner

__all__ = ["TURN_SECONDS", "UNSETTLED", "Effects", "lifecycle_processor", "run_shards", "waiting_for"]

TURN_SECONDS: Final = 0.2
"""How long a process at rest waits before it looks around."""

_LIVE_BATCH: Final = 1_000
"""Inputs a transaction, at most, of a shard that runs for good. On Kafka one costs as much as 100 inputs, whatever is in it."""

UNSETTLED: Final = "the group of the workers has not said yet which shards are to be run here"
"""Why a process is not ready that has just begun to take part."""


def lifecycle_processor(
    log: Exportable, settings: Settings, observer: Observer, watchdog: Watchdog, *, live: bool = True
) -> Callable[[int], Processor[ShardState]]:
    """Return what gives the processor of a lifecycle shard, by number.

    Args:
        log: writable.
        settings: how the stage is configured.
        observer: is told what the processors do.
        watchdog: ends the process where a decision takes too long.
        live: it runs for good: timers fire from the wall clock when no input waits, transactions are large. Otherwise they have
            the size that they have on other logs, so that the same inputs leave the same records (a transaction has one
            `shard.accounted`).
    """
    stage = lifecycle_stage(settings)
    if not live:
        return lambda number: Processor(log, stage, number, observer=observer, watchdog=watchdog)
    return lambda number: Processor(log, stage, number, batch=_LIVE_BATCH, clock=now, observer=observer, watchdog=watchdog)


def run_shards(
    runner: Runner,
    membership: Membership,
    signals: Signals,
    beat: Callable[[], object],
    meanwhile: Callable[[], float] = lambda: TURN_SECONDS,
) -> None:
    """Run the shards that are this process's until it is told to stop.

    Args:
        runner: runs them; wakes `signals` when one of them has news.
        membership: says which; wakes `signals` when it has news.
        signals: say when to stop.
        beat: told at each turn.
        meanwhile: called every now and then; returns how long it need not be called (seconds).

    Raises:
        FencedError: another process has taken a shard over, and this one is not to have it again.
        LogError: a shard cannot go on, or this process has no part in the stage any more.
    """
    while not signals.stopped:
        beat()
        for shard, error in runner.collect():
            membership.fenced(shard, error)
        runner.assign(membership.shards())
        signals.wait(meanwhile())


def waiting_for(runner: Runner, membership: Membership) -> list[str]:
    """Return why shards that are this process's are not run at this moment. May be called from any thread."""
    if not membership.is_settled():
        return [UNSETTLED]
    try:
        missing = membership.shards() - runner.open
    except LogError as error:
        return [str(error)]
    reasons = runner.waiting
    return [f"shard {number} is not open: {reasons.get(number, 'it is about to be')}" for number in sorted(missing)]


class Effects:
    """Callbacks that are told while it is this process's turn to do so."""

    def __init__(
        self,
        log: Exportable,
        callbacks: Callbacks,
        warn: Callable[[str], object],
        metrics: CollectorRegistry,
        our_turn: Callable[[], bool],
    ) -> None:
        """Tell nobody yet.

        Args:
            log: writable.
            callbacks: who is told.
            warn: told why the log cannot be used, once until it can be used again.
            metrics: where it is counted what they do.
            our_turn: tells, from any thread, whether no other process may be telling them by now. Otherwise nobody is told, and how
                far each callback has come is left alone: the other one goes on from where it stands, what this one would write is
                older.
        """
        self._log = log
        self._callbacks = callbacks
        self._warn = warn
        self._metrics = metrics
        self._our_turn = our_turn
        self._back_off = BackOff()
        self._pause = self._back_off.first
        self._active = False
        self.trouble: tuple[str, ...] = ()
        """Why the log cannot be used at this moment."""

    def step(self) -> float:
        """Tell callbacks what is due; the first time, each begins where its cursor stands now.

        Returns:
            How long there is nothing to do (seconds); 0: look at once, the log was waited for.

        Raises:
            LogError: the log cannot be used, and waiting does not help.
        """
        if not self._callbacks.any:
            return TURN_SECONDS
        try:
            if not self._active:
                self._callbacks.open(self._log, now(), self._metrics, self._our_turn)
                self._active = True
            self._callbacks.step()
            self._pause, self.trouble = self._back_off.first, ()
            self._log.wait(TURN_SECONDS)
        except LogUnavailableError as error:
            if not self.trouble:
                self._warn(f"callbacks: {error}; trying again until it works")
            self.trouble = (str(error),)
            pause, self._pause = self._pause, min(self._pause * 2, self._back_off.longest)
            return pause
        return 0.0

    def stop(self) -> None:
        """Begin no further call, and save how far each callback has come. Idempotent; `step` begins anew."""
        self._active = False
        try:
            self._callbacks.close()
        except LogError as error:
            # Whoever goes on begins at the cursors that are saved: some notices are told again.
            self._warn(f"callbacks: {error}")
