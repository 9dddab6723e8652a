"""Callbacks of a process: their registration, and the times of delivery.

A module is searched in the folder of the configuration file that names it, then on Python's path. Modules named in a `lahar.toml`
of the working directory are not imported, because its author may not be the user who runs the command.
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

_REST_SECONDS: Final = 0.2
"""Longest wait for inputs (seconds)."""


class Callbacks:
    """The registered callbacks of one process. Callers of `deliver` and `step` hold the log's run lock."""

    def __init__(self, settings: Settings, reporter: Reporter, executor: Callable[[], Executor] = ThreadExecutor) -> None:
        """Register the callbacks.

        Args:
            settings: names of their modules.
            reporter: receives failures of callbacks.
            executor: creates the executor that runs them.

        Raises:
            CallbackError: a module cannot be imported, or a declaration in it is invalid.
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
        """Start at each callback's cursor in a log; repeated calls have no effect until `close`.

        Args:
            log: writable log.
            started: start of this process, or the first recorded time of its inputs (microseconds); events recorded before are
                delivered as `catchup`.
            metrics: registry for the callbacks' metrics.
            our_turn: returns true if no other process delivers; called from any thread.
        """
        if self._dispatcher is None:
            self._dispatcher = Dispatcher(log, self._registry, started=started, executor=self._executor(), our_turn=our_turn)
            self._dispatcher.principal = self._principal
            if metrics is not None and not self._counted:
                self._counted = True
                EffectMetrics(metrics, self._status)

    def deliver(self) -> None:
        """Deliver all committed events and wait for the callbacks. Does nothing before `open`.

        Failed deliveries are repeated at the next call, with a warning.

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
        """Deliver due events without waiting for any callback (for a long-running process).

        Raises:
            LogError: the log cannot be read or written.
        """
        if self._dispatcher is not None:
            self._dispatcher.step(now())
            self._reporter.flush()  # callbacks' output is read while this process runs

    def close(self) -> None:
        """Start no more calls, and save each callback's cursor unless another process has taken over."""
        if self._dispatcher is not None:
            self._dispatcher.close()
            self._dispatcher = None

    @property
    def any(self) -> bool:
        """True if callbacks are registered."""
        return len(self._registry) > 0

    def _status(self) -> list[CallbackStatus]:
        dispatcher = self._dispatcher
        return [] if dispatcher is None else dispatcher.status()

    def _apart(self) -> AbstractContextManager[object]:
        """Redirect callbacks' output to standard error, if standard output is JSON."""
        return redirect_stdout(sys.stderr) if self._reporter.as_json else nullcontext()


class CallbackTurn:
    """Callbacks of a long-running process, delivered during its turns."""

    def __init__(
        self,
        log: SearchableLog,
        callbacks: Callbacks,
        warn: Callable[[str], object],
        metrics: CollectorRegistry,
        our_turn: Callable[[], bool],
    ) -> None:
        """Configure the delivery; nothing is delivered yet.

        Args:
            log: writable log.
            callbacks: registered callbacks.
            warn: called with the error when the log becomes unusable.
            metrics: registry for the callbacks' metrics.
            our_turn: returns true if no other process may be delivering; called from any thread. Otherwise nothing is delivered and
                no cursor is saved, because the other process continues from the saved cursors, which are newer.
        """
        self._log = log
        self._callbacks = callbacks
        self._warn = warn
        self._metrics = metrics
        self._our_turn = our_turn
        self._failures = 0
        self._active = False
        self.trouble: tuple[str, ...] = ()
        """Reason why the log cannot be used; empty if it can."""

    def step(self) -> float:
        """Deliver due events; the first call starts at the saved cursors.

        Returns:
            Seconds until the next call; 0: call again at once, because this call waited for the log.

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
            # The next process starts at the saved cursors, so it delivers some notices again.
            self._warn(f"callbacks: {error}")


def registered(settings: Settings, reporter: Reporter) -> Registry:
    """Return the callbacks of the settings' modules and of installed packages.

    Args:
        settings: names of the modules.
        reporter: receives a warning about modules that are not loaded.

    Raises:
        CallbackError: a module cannot be imported, or a declaration in it is invalid.
    """
    if settings.untrusted_callbacks:
        reporter.warn(
            f"callbacks of ./{FILE_NAME} are not loaded, as Lahar runs no code from the working directory; if you trust the file, "
            f"name it: --config {FILE_NAME}, or LAHAR_CONFIG"
        )
    return load(settings.callbacks, settings.home)
