"""The engine in one process: every lifecycle shard of a log, and who is told of what it commits.

In one process the order is: lifecycle until quiet, then effects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from engine.cli.logs import open_log
from engine.cli.settings import Settings
from engine.events.times import SECOND
from engine.history.transfer import Exportable
from engine.lifecycle.stage import LifecycleStage
from engine.lifecycle.state import ShardState
from engine.log.errors import LogUnavailableError
from engine.log.lock import RunLock
from engine.log.port import ShardId
from engine.log.producer_time import wall_clock as now
from engine.processor.observer import Observer
from engine.processor.processor import Processor
from engine.processor.watchdog import Watchdog
from engine.runtime.collector import set_aside

__all__ = ["Engine", "lifecycle_stage", "now", "opened", "run_lock", "watchdog_of"]

_IDLE_SECONDS: Final = 0.2
"""How long a live engine waits for inputs before it looks at its timers again."""

_FIRST_PAUSE: Final = 0.2
"""How long a live engine waits (seconds) before it opens a log anew that could not be used; each further failure doubles it."""

_LONGEST_PAUSE: Final = 10.0


@contextmanager
def opened(settings: Settings, *, create: bool = False, readonly: bool = True) -> Iterator[Exportable]:
    """Open the log of the settings for the length of a `with` block.

    Args:
        settings: say where it is.
        create: make it if it is not there.
        readonly: only read.

    Raises:
        LogError: it cannot be opened; the text says what to do.
        ValueError: the URL is of no known form.
    """
    log = open_log(settings.log, create=create, readonly=readonly)
    try:
        yield log
    finally:
        log.close()


def run_lock(settings: Settings) -> RunLock | None:
    """Return the lock that says who runs the log; `None` for a log that only this process can see."""
    scheme, _, rest = settings.log.partition(":")
    return RunLock(Path(rest)) if scheme == "sqlite" else None


def lifecycle_stage(settings: Settings) -> LifecycleStage:
    """Return the lifecycle stage as configured."""
    return LifecycleStage(forget_after=settings.forget_after, orphan_wait=settings.orphan_wait, max_replicas=settings.max_replicas)


def watchdog_of(settings: Settings) -> Watchdog:
    """Return what ends this process where a decision takes longer than configured."""
    return Watchdog(settings.decide_limit / SECOND)


class Engine:
    """All shards of the lifecycle stage on one log."""

    def __init__(self, log: Exportable, settings: Settings, *, live: bool = False, observer: Observer | None = None) -> None:
        """Name what is to be run; nothing is touched until `open`.

        Args:
            log: the log, writable.
            settings: how the stage is configured.
            live: timers fire from the wall clock when no input waits.
            observer: is told what the processors do.
        """
        self._log = log
        self._watchdog = watchdog_of(settings)
        stage = lifecycle_stage(settings)
        self.processors: list[Processor[ShardState]] = [
            Processor(log, stage, number, clock=now if live else None, observer=observer, watchdog=self._watchdog)
            for number in range(log.partitions("job-events"))
        ]

    def open(self) -> None:
        """Take over all shards and bring their states up to date.

        Raises:
            LogError: see `Processor.open`.
        """
        for processor in self.processors:
            processor.open()

    def close(self) -> None:
        """Give all shards back. Idempotent."""
        for processor in self.processors:
            processor.close()

    def not_open(self) -> list[ShardId]:
        """Return the shards that cannot be worked on at this moment. May be called from any thread."""
        return [processor.shard for processor in self.processors if not processor.is_open]

    def lag(self) -> int:
        """Return the number of inputs that wait."""
        return sum(processor.lag() for processor in self.processors)

    def run_until_quiet(self, on_progress: Callable[[], None] | None = None) -> int:
        """Process until no input is left and no timer is due by the shards' own time.

        Args:
            on_progress: called after each batch.

        Returns:
            Inputs taken and timers fired.
        """
        total = 0
        with self._watchdog, set_aside() as collector:
            for processor in self.processors:
                while done := processor.step():
                    total += done
                    collector.tick()
                    if on_progress is not None:
                        on_progress()
                total += processor.run_until_quiet()
        return total

    def run(
        self,
        stop: Callable[[], bool],
        after_commit: Callable[[], None],
        *,
        pause: Callable[[float], object],
        say: Callable[[str], object],
    ) -> None:
        """Process until told to stop; waits where there is nothing to do, and where the log cannot be used.

        Args:
            stop: asked between batches.
            after_commit: called after every round over the shards, idle or not.
            pause: waits for some seconds, or until `stop` holds.
            say: told why the log cannot be used, once until it can be used again.

        Raises:
            LogError: the log cannot be used, and waiting does not help: another process has taken a shard over
                (`FencedError`), or the log is damaged.
        """
        delay = _FIRST_PAUSE
        reopen = False
        with self._watchdog, set_aside() as collector:
            while not stop():
                try:
                    if reopen:
                        self.open()
                        reopen = False
                    done = sum(processor.step() for processor in self.processors)
                    after_commit()
                    # Only a whole round shows that the log is back: it may be readable, or take small writes, while it is full.
                    delay = _FIRST_PAUSE
                    if done:
                        collector.tick()
                    else:
                        self._log.wait(min(processor.rest(_IDLE_SECONDS) for processor in self.processors))
                except LogUnavailableError as error:
                    if delay == _FIRST_PAUSE:
                        say(f"{error}; trying again until it works")
                    reopen = True
                    pause(delay)
                    delay = min(delay * 2, _LONGEST_PAUSE)
