"""Runs all shards of all stages of a log in this process until no input waits and no timer is due."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import compress
from pathlib import Path
from typing import Any, Self

from engine.events.times import SECOND
from engine.log.lock import RunLock
from engine.log.port import Log
from engine.processor.observer import Observer
from engine.processor.partitions import shard_count, takes_inputs
from engine.processor.processor import Processor
from engine.processor.recovery import StoppedRecoveryError
from engine.processor.stage import Stage
from engine.processor.watchdog import Watchdog
from engine.runtime.gc_control import freeze_live_objects
from engine.runtime.opening import is_shared
from engine.runtime.settings import Settings
from engine.runtime.switch_interval import long_turns


def run_lock(settings: Settings) -> RunLock | None:
    """Return the run lock of a log; `None` for a log in memory, or one shared by workers."""
    scheme, _, rest = settings.log.partition(":")
    return RunLock(Path(rest)) if scheme == "sqlite" else None


def watchdog_of(settings: Settings, *, hosted: bool = False) -> Watchdog:
    """Return the watchdog with the configured limit; `hosted` as in `Engine`."""
    return Watchdog(settings.decide_limit / SECOND, alarm=not hosted)


class Engine:
    """Runs the shards of some stages, stage by stage in the given order: a stage is quiet before the next one begins.

    A stage may write inputs of an earlier one, so the stages repeat until all are quiet.
    """

    def __init__(
        self, stages: Sequence[Sequence[Processor[Any]]], watchdog: Watchdog, *, threads: bool = False, hosted: bool = False
    ) -> None:
        """Configure the engine; nothing is opened yet.

        Args:
            stages: processors of each stage's shards, in order.
            watchdog: watchdog of the processors.
            threads: run the shards of a stage concurrently, each reopened in a thread of its own, for a log with high latency.
            hosted: true inside another program, whose garbage collector and switch interval stay unchanged.
        """
        self._threads = threads
        self._hosted = hosted
        self._watchdog = watchdog
        self._stages = stages
        self._stop = threading.Event()

    @classmethod
    def of(
        cls, log: Log, stages: Sequence[Stage[Any]], settings: Settings, observer: Observer | None = None, *, hosted: bool = False
    ) -> Self:
        """Return the engine of a log.

        Args:
            log: writable log.
            stages: stages in order.
            settings: settings with the log and the time limit of a decision.
            observer: observer of the processors.
            hosted: true inside another program, whose settings stay unchanged.
        """
        watchdog = watchdog_of(settings, hosted=hosted)
        processors = [
            [
                Processor(log, stage, number, observer=observer, watchdog=watchdog, hosted=hosted)
                for number in range(shard_count(log, stage))
            ]
            for stage in stages
        ]
        return cls(processors, watchdog, threads=is_shared(settings.log), hosted=hosted)

    @property
    def processors(self) -> list[Processor[Any]]:
        """Processors of all shards."""
        return [processor for stage in self._stages for processor in stage]

    def open(self) -> None:
        """Open all shards and recover their states.

        Raises:
            LogError: see `Processor.open`.
        """
        for processor in self.processors:
            processor.open()

    def close(self) -> None:
        """Close all shards. Idempotent."""
        for processor in self.processors:
            processor.close()

    def not_open(self) -> list[str]:
        """Return the reasons why shards are not running now. Callable from any thread.

        With `threads` it is empty, because quiet shards are closed.
        """
        waiting = [] if self._threads else [processor.shard for processor in self.processors if not processor.is_open]
        return [f"shard {shard} is not open" for shard in waiting]

    def next_timer(self) -> int | None:
        """Return the due time of the next timer of a job (microseconds); `None`: none is set, or all shards are closed."""
        open_ones = [one for stage in self._stages for one in stage if one.is_open and takes_inputs(one.stage)]
        return min((due for one in open_ones if (due := one.stage.due(one.state)) is not None), default=None)

    def lag(self) -> int:
        """Return the number of waiting inputs; the shards must be open."""
        return sum(processor.lag() for processor in self.processors)

    def taken(self) -> int:
        """Return the number of inputs ever processed; the shards must be open."""
        return sum(processor.received for processor in self.processors)

    def run_until_quiet(self, on_progress: Callable[[], object] = lambda: None) -> int:
        """Process until no input waits and no timer is due by the shards' own time.

        Args:
            on_progress: called after each batch; with `threads` from any thread.

        Returns:
            Inputs processed and timers fired by the stages that read producers' inputs; the work of other stages does not count.

        Raises:
            LogError: a shard cannot continue; the others stop after their transactions.
        """
        total = 0
        counted = [any(takes_inputs(processor.stage) for processor in stage) for stage in self._stages]
        with self._watchdog, ExitStack() as stack:
            after_commit = on_progress
            if not self._hosted:
                stack.enter_context(long_turns())
                collector = stack.enter_context(freeze_live_objects())

                def after_commit() -> None:
                    collector.tick()
                    on_progress()

            while any(done := [self._run_stage(stage, after_commit) for stage in self._stages]):
                total += sum(compress(done, counted))
                if len(self._stages) == 1:
                    break
        return total

    def _run_stage(self, stage: Sequence[Processor[Any]], after_commit: Callable[[], object]) -> int:
        def work(processor: Processor[Any]) -> int:
            try:
                if self._threads or not processor.is_open:
                    processor.open(self._stop.is_set)
                return self._run_shard(processor, after_commit)
            except StoppedRecoveryError:
                return 0  # another thread raises the error
            except BaseException:
                self._stop.set()
                raise
            finally:
                if self._threads:
                    processor.close()

        self._stop.clear()
        if not self._threads:
            return sum(map(work, stage))
        with ThreadPoolExecutor(len(stage), "lahar-shard") as threads:
            try:
                return sum(threads.map(work, stage))
            finally:
                # Also after an interrupt of this thread, because the other threads end soon.
                self._stop.set()

    def _run_shard(self, processor: Processor[Any], after_commit: Callable[[], object]) -> int:
        total = 0
        while not self._stop.is_set() and (done := processor.step() or processor.fire_due(processor.horizon)):
            total += done
            after_commit()
        return total if self._stop.is_set() else total + processor.run_until_quiet()
