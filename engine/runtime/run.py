"""Process that runs a whole log: every shard of every stage, and the callbacks."""

from __future__ import annotations

from contextlib import ExitStack, nullcontext, suppress

from engine.formatting import moment
from engine.log.errors import FencedError
from engine.log.port import SearchableLog
from engine.log.producer_time import wall_clock
from engine.processor.membership import StaticMembership
from engine.processor.partitions import shard_count
from engine.runtime.callbacks import Callbacks, CallbackTurn
from engine.runtime.engine import Engine, run_lock, watchdog_of
from engine.runtime.monitoring import Monitoring, served
from engine.runtime.opening import UNOPENED, StoppedError, opened_at_start
from engine.runtime.reporter import Reporter
from engine.runtime.settings import Settings
from engine.runtime.shard_loop import Share, run_shares, shared, waiting_for
from engine.runtime.stages import stages_of
from engine.signals import Signals


def run(settings: Settings, reporter: Reporter, address: str | None) -> None:
    """Run until the process is stopped.

    Args:
        settings: settings of the log and the stages.
        reporter: receives progress.
        address: address for metrics; `None`: serve nothing.

    Raises:
        LogBusyError: another process runs the log.
        FencedError: another process has taken over a shard.
        LogError: the log cannot be used, and waiting does not help.
        KeyboardInterrupt: stopped by Ctrl-C.
    """
    with Signals() as signals, suppress(StoppedError), ExitStack() as stack:
        monitoring = stack.enter_context(Monitoring(settings))
        callbacks = Callbacks(settings, reporter, monitoring.executor)
        shares: list[Share] = []
        serving = stack.enter_context(ExitStack())
        serving.enter_context(
            served(address, monitoring, reporter, lambda: [*waiting_for(shares), *turn.trouble] if shares else [UNOPENED])
        )
        log = _taken(settings, reporter, stack, signals)
        fenced = False
        turn = CallbackTurn(log, callbacks, reporter.warn, monitoring.registry, lambda: not fenced)
        stack.callback(turn.stop)
        watchdog = stack.enter_context(watchdog_of(settings))
        shares += [
            shared(log, stage, StaticMembership(0, 1, shard_count(log, stage)), monitoring, watchdog, signals, stack)
            for stage in stages_of(settings)
        ]
        stack.callback(serving.close)
        reporter.note(f"running {settings.log}; Ctrl-C stops")
        try:
            run_shares(log, settings.log, shares, signals, monitoring.beat, turn.step)
        except FencedError:
            # The process that now runs the shard also delivers to the callbacks.
            fenced = True
            raise
    if signals.interrupted:
        raise KeyboardInterrupt


def run_once(settings: Settings, reporter: Reporter, address: str | None) -> int:
    """Run until no input waits and no timer is due by the shards' own time, then deliver to the callbacks.

    Args:
        settings: settings of the log and the stages.
        reporter: receives progress.
        address: address for metrics; `None`: serve nothing.

    Returns:
        Inputs processed and timers fired.

    Raises:
        LogBusyError: another process runs the log.
        LogError: the log cannot be used.
    """
    started = wall_clock()
    with ExitStack() as stack:
        monitoring = stack.enter_context(Monitoring(settings))
        callbacks = Callbacks(settings, reporter, monitoring.executor)
        log = _taken(settings, reporter, stack)
        engine = Engine.of(log, stages_of(settings), settings, monitoring.observer)
        stack.callback(engine.close)
        stack.enter_context(served(address, monitoring, reporter, engine.not_open))
        done = engine.run_until_quiet()
        due = engine.next_timer()
        if due is not None and due < started:
            reporter.warn(f"timers of jobs are overdue by the clock, the first since {moment(due)}: `lahar run` fires them")
        stack.callback(callbacks.close)
        callbacks.open(log, started, monitoring.registry)
        callbacks.deliver()
    return done


def _taken(settings: Settings, reporter: Reporter, stack: ExitStack, signals: Signals | None = None) -> SearchableLog:
    """Return the log, opened for writing under the run lock."""
    lock = run_lock(settings)
    stack.enter_context(lock.hold() if lock is not None else nullcontext())
    return stack.enter_context(opened_at_start(settings, reporter, signals))
