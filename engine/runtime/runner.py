"""Runs a changing set of shards, each in a thread of its own.

While one shard waits for its commit another one decides; a shard that opens slowly, or fails to open, delays no other. The owner
learns of a thread's end and its error by calling `collect`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Final, Self

from engine.events.back_off import BackOff
from engine.log.errors import FencedError, LogError
from engine.log.port import Log
from engine.processor.processor import Processor
from engine.runtime.collector import Collector, set_aside
from engine.runtime.shard_thread import BACK_OFF, IDLE_SECONDS, ShardThread
from engine.runtime.switch_interval import long_turns

__all__ = ["DRAIN_SECONDS", "Runner"]

_OPENING_SECONDS: Final = 0.5
"""How long a shard that is being opened is waited for: nothing of it is under way that could be left half done."""
DRAIN_SECONDS: Final = 15.0
"""How long shards are waited for when they are to end: as long as a commit may take. Kubernetes kills after 30 s."""

_LOOK_SECONDS: Final = 0.01
"""How soon it is noticed that a shard has begun to rest."""

_logger: Final = logging.getLogger(__name__)


class Runner:
    """The shards of one stage in this process. Its methods belong to one thread, the owner's; it is a context manager."""

    def __init__(
        self,
        log: Log,
        make: Callable[[int], Processor[Any]],
        *,
        changed: Callable[[], object] = lambda: None,
        back_off: BackOff = BACK_OFF,
    ) -> None:
        """Begin with no shards.

        Args:
            log: on which they run.
            make: gives the processor of a shard, by number; called in the shard's thread.
            changed: called in some thread when a shard was opened, or its thread has ended: `collect` has something to say.
            back_off: for a log that cannot be used.
        """
        self._log = log
        self._make = make
        self._changed = changed
        self._back_off = back_off
        self._threads: dict[int, ShardThread] = {}
        self._collector = Collector()
        self._stack = ExitStack()
        self._closed = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="lahar-watch", daemon=True)

    def __enter__(self) -> Self:
        """Take the interpreter over, once for all shards, and begin to look out for inputs."""
        self._stack.enter_context(long_turns())
        self._collector = self._stack.enter_context(set_aside())
        self._watcher.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """End all shards, unless `close` has: who was left behind is not waited for again."""
        if not self._closed.is_set():
            self.close()
        # It looks up at least so often, unless the log does not answer.
        self._watcher.join(5 * IDLE_SECONDS)
        self._stack.close()

    # --- what the owner calls ---------------------------------------------------------------------------------------------

    def assign(self, shards: Collection[int]) -> None:
        """Run these shards and no others.

        New ones are opened in their threads; those that are not named any more finish the transaction at hand and are given back.
        Nothing is waited for: call it again when `changed` was called; a shard that had not ended yet is begun anew then.
        """
        for number, thread in self._threads.items():
            if number not in shards and not thread.stopped:
                _logger.info("shard %s is stopped", thread.shard)
                thread.stop()
        for number in sorted(shards):
            if number not in self._threads:
                self._threads[number] = ShardThread(
                    number,
                    self._make,
                    after_commit=self._collector.tick,
                    after_loss=self._collector.look_through,
                    changed=self._changed,
                    back_off=self._back_off,
                )

    def collect(self) -> list[tuple[int, FencedError]]:
        """Take in which threads have ended since the last call.

        Returns:
            The shards that another process has opened, which nobody had asked to end. They are not run here any more until they
            are assigned again.

        Raises:
            LogError: a shard has failed in a way that waiting does not mend.
            Exception: a defect has ended a thread.
        """
        fenced: list[tuple[int, FencedError]] = []
        for thread in [thread for thread in self._threads.values() if thread.ended]:
            del self._threads[thread.number]
            if isinstance(thread.error, FencedError):
                if not thread.stopped:
                    fenced.append((thread.number, thread.error))
            elif thread.error is not None:
                raise thread.error
        return fenced

    def close(self, seconds: float = DRAIN_SECONDS) -> list[int]:
        """Let all shards finish the transaction at hand and give them back. Idempotent.

        Args:
            seconds: to wait at most, for all together; for those that are being opened half a second.

        Returns:
            Shards that have not ended within that time (of a log that does not answer).
        """
        self._closed.set()
        for thread in self._threads.values():
            thread.stop()
        begun = time.monotonic()
        for thread in self._threads.values():
            patience = seconds if thread.is_open else min(seconds, _OPENING_SECONDS)
            thread.join(max(begun + patience - time.monotonic(), 0))
        left = sorted((thread.number, thread.shard) for thread in self._threads.values() if not thread.ended)
        for thread in self._threads.values():
            if thread.ended and thread.error is not None and not isinstance(thread.error, FencedError):
                _logger.error("shard %s could not be closed cleanly: %s", thread.shard, thread.error)
        if left:
            names = ", ".join(shard for _, shard in left)
            _logger.warning("shards %s have not ended in time and are left behind", names)
        return [number for number, _ in left]

    # --- what it shows, to any thread -------------------------------------------------------------------------------------

    @property
    def open(self) -> frozenset[int]:
        """The shards that are open."""
        return frozenset(thread.number for thread in list(self._threads.values()) if thread.is_open)

    @property
    def waiting(self) -> dict[int, str]:
        """The shards that are to be run and are not open, each with the reason."""
        return {
            thread.number: thread.trouble or "it is being opened"
            for thread in list(self._threads.values())
            if not thread.is_open and not thread.stopped
        }

    def _watch(self) -> None:
        """Wake idle shards as soon as something may have been appended: one thread asks the log for all of them."""
        while not self._closed.is_set():
            try:
                threads = list(self._threads.values())
                if not any(thread.rests for thread in threads):
                    # Shards at work look for themselves.
                    self._closed.wait(_LOOK_SECONDS)
                    continue
                # Not woken by what the shards write themselves.
                changed = self._log.wait(IDLE_SECONDS, [partition for thread in threads for partition in thread.reads])
                for thread in threads:
                    if not set(thread.reads).isdisjoint(changed):
                        thread.wake()
            except LogError:
                # The shards meet the same error, and tell it.
                self._closed.wait(IDLE_SECONDS)
            except Exception:
                # The log was closed meanwhile, or it is a defect; shards go on polling.
                if not self._closed.is_set():
                    _logger.exception("input watcher stopped; shards fall back to polling")
                return
