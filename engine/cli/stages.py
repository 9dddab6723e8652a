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
from engine.log.membership import Membership
from engine.log.processor import Processor
from engine.log.runner import BackOff, Runner

__all__ = ["TURN_SECONDS", "Effects", "lifecycle_processor", "run_shards"]

TURN_SECONDS: Final = 0.2
"""How long a process at rest waits before it looks around."""


def lifecycle_processor(log: Exportable, settings: Settings, *, live: bool = True) -> Callable[[int], Processor[ShardState]]:
    """Return what gives the processor of a lifecycle shard, by number.

    Args:
        log: writable.
        settings: how the stage is configured.
        live: timers fire from the wall clock when no input waits.
    """
    stage = lifecycle_stage(settings)
    return lambda number: Processor(log, stage, number, clock=now if live else None)


def run_shards(
    runner: Runner, membership: Membership, signals: Signals, meanwhile: Callable[[], float] = lambda: TURN_SECONDS
) -> None:
    """Run the shards that are this process's until it is told to stop.

    Args:
        runner: runs them; wakes `signals` when one of them has news.
        membership: says which; wakes `signals` when it has news.
        signals: say when to stop.
        meanwhile: called every now and then; returns how long it need not be called (seconds).

    Raises:
        FencedError: another process has taken a shard over, and this one is not to have it again.
        LogError: a shard cannot go on, or this process has no part in the stage any more.
    """
    while not signals.stopped:
        for shard, error in runner.collect():
            membership.fenced(shard, error)
        runner.assign(membership.shards())
        signals.wait(meanwhile())


class Effects:
    """Callbacks that are told while it is this process's turn to do so."""

    def __init__(
        self, log: Exportable, callbacks: Callbacks, warn: Callable[[str], object], metrics: CollectorRegistry | None = None
    ) -> None:
        """Tell nobody yet.

        Args:
            log: writable.
            callbacks: who is told.
            warn: told why the log cannot be used, once until it can be used again.
            metrics: where it is counted what they do.
        """
        self._log = log
        self._callbacks = callbacks
        self._warn = warn
        self._metrics = metrics
        self._back_off = BackOff()
        self._pause = self._back_off.first
        self._active = False

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
                self._callbacks.open(self._log, now(), self._metrics)
                self._active = True
            self._callbacks.step()
            self._pause = self._back_off.first
            self._log.wait(TURN_SECONDS)
        except LogUnavailableError as error:
            if self._pause == self._back_off.first:
                self._warn(f"callbacks: {error}; trying again until it works")
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
