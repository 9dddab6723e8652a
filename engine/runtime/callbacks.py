"""Callbacks of a process: which are registered, and when events are delivered to them.

A module is looked for beside the configuration file that names it, then on Python's path. Modules that `lahar.toml` in the working
directory names are not imported: its author need not be the user who runs the command.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from typing import Final

from prometheus_client import CollectorRegistry

from engine.effects.dispatcher import Dispatcher
from engine.effects.executor import Executor, ThreadExecutor
from engine.effects.metrics import CallbackStatus, EffectMetrics
from engine.effects.registry import Registry, load
from engine.events.times import SECOND
from engine.log.errors import LogError, LogUnavailableError
from engine.log.port import SearchableLog
from engine.log.producer_time import wall_clock as now
from engine.runtime.principal import principal_of
from engine.runtime.reporter import Reporter
from engine.runtime.settings import FILE_NAME, Settings
from engine.runtime.shard_thread import BACK_OFF

__all__ = ["CallbackTurn", "Callbacks", "registered"]


_REST_SECONDS: Final = 0.2
"""How long inputs are waited for."""


class Callbacks:
    """The registered callbacks of one process. Callers of `tell` and `step` hold the log's run lock."""

    def __init__(self, settings: Settings, reporter: Reporter, executor: Callable[[], Executor] = ThreadExecutor) -> None:
        """Find them.

        Args:
            settings: name their modules.
            reporter: is told that one has failed.
            executor: gives what runs them.

        Raises:
            CallbackError: a module cannot be imported, or a callback in it is declared wrongly.
        """
        self._reporter = reporter
        self._principal = principal_of(settings.log)
        self._executor = executor
        self._registry = registered(settings, reporter)
        self._dispatcher: Dispatcher | None = None
        self._counted = False

    def open(
        self,
        log: SearchableLog,
        started: int,
        metrics: CollectorRegistry | None = None,
        our_turn: Callable[[], bool] = lambda: True,
    ) -> None:
        """Begin where each of them stands in a log; once is enough, until `close`.

        Args:
            log: writable.
            started: when this process began, or the recorded time that it plays from (microseconds); what was recorded before is
                told as `catchup`.
            metrics: where it is counted what they do.
            our_turn: tells, from any thread, whether no other process tells them.
        """
        if self._dispatcher is None:
            self._dispatcher = Dispatcher(log, self._registry, started=started, executor=self._executor(), our_turn=our_turn)
            self._dispatcher.principal = self._principal
            if metrics is not None and not self._counted:
                self._counted = True
                EffectMetrics(metrics, self._status)

    def deliver(self) -> None:
        """Tell them all that was committed, and wait until they have taken it. Nothing happens before `open`.

        What one of them could not take waits for the next time: a warning says so.

        Raises:
            LogError: the log cannot be read or written.
        """
        dispatcher = self._dispatcher
        if dispatcher is None or not len(self._registry):
            return
        with self._apart():
            dispatcher.run_until_quiet(now())
        for callback in dispatcher.status():
            if callback.disabled is not None:
                self._reporter.warn(
                    f"callback {callback.name} is disabled ({callback.disabled}); {callback.lag:,} events wait for it"
                )
            elif callback.failing is not None:
                self._reporter.warn(f"callback {callback.name} failed ({callback.failing}); the next command calls it again")

    def step(self) -> None:
        """Tell them what is due without waiting for any of them (for a process that goes on).

        Raises:
            LogError: the log cannot be read or written.
        """
        if self._dispatcher is not None:
            self._dispatcher.step(now())
            self._reporter.flush()  # what they print is read while this goes on

    def close(self) -> None:
        """Start no more calls, and save each callback's cursor unless another process has taken over."""
        if self._dispatcher is not None:
            self._dispatcher.close()
            self._dispatcher = None

    @property
    def any(self) -> bool:
        """Tell whether there are any."""
        return len(self._registry) > 0

    def _status(self) -> list[CallbackStatus]:
        dispatcher = self._dispatcher
        return [] if dispatcher is None else dispatcher.status()

    def _apart(self) -> AbstractContextManager[object]:
        """What callbacks print is no part of an answer in JSON."""
        return redirect_stdout(sys.stderr) if self._reporter.as_json else nullcontext()


class CallbackTurn:
    """Callbacks of a long-running process, called while it is this process's turn."""

    def __init__(
        self,
        log: SearchableLog,
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
        self._failures = 0
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
            return _REST_SECONDS
        try:
            if not self._active:
                self._callbacks.open(self._log, now(), self._metrics, self._our_turn)
                self._active = True
            self._callbacks.step()
            self._failures, self.trouble = 0, ()
            self._log.wait(_REST_SECONDS)
        except LogUnavailableError as error:
            if not self.trouble:
                self._warn(f"callbacks: {error}; trying again until it works")
            self.trouble = (str(error),)
            self._failures += 1
            return BACK_OFF.delay(self._failures) / SECOND
        return 0.0

    def stop(self) -> None:
        """Start no more calls and save each callback's cursor. Idempotent; `step` starts again."""
        self._active = False
        try:
            self._callbacks.close()
        except LogError as error:
            # Whoever goes on begins at the cursors that are saved: some notices are told again.
            self._warn(f"callbacks: {error}")


def registered(settings: Settings, reporter: Reporter) -> Registry:
    """Return the callbacks of the settings' modules and of installed packages.

    Args:
        settings: name the modules.
        reporter: is told that some are not loaded.

    Raises:
        CallbackError: a module cannot be imported, or a callback in it is declared wrongly.
    """
    if settings.untrusted_callbacks:
        reporter.warn(
            f"callbacks of ./{FILE_NAME} are not loaded, as no code is from the working directory; if you trust the file, "
            f"name it: --config {FILE_NAME}, or LAHAR_CONFIG"
        )
    return load(settings.callbacks, settings.home)
