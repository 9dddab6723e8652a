"""Runner of a changing set of shards, each in a thread of its own.

While one shard waits for its commit, another one decides; a shard that opens slowly, or fails to open, delays no other. The owner
gets a thread's end and its error from `collect`.
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
from engine.runtime.gc_control import GcControl, freeze_live_objects
from engine.runtime.shard_thread import BACK_OFF, IDLE_SECONDS, ShardThread
from engine.runtime.switch_interval import long_turns

_OPENING_SECONDS: Final = 0.5
"""Maximum wait for a shard that is being opened (seconds), because it has no uncommitted work."""
DRAIN_SECONDS: Final = 15.0
"""Maximum wait for shards to end (seconds), the time limit of a commit. Kubernetes kills after 30 s."""

_LOOK_SECONDS: Final = 0.01
"""Delay until an idle shard is detected (seconds)."""

_logger: Final = logging.getLogger(__name__)


class Runner:
    """The shards of one stage in this process; a context manager. Its methods belong to one thread, the owner's."""

    def __init__(
        self,
        log: Log,
        make: Callable[[int], Processor[Any]],
        *,
        changed: Callable[[], object] = lambda: None,
        back_off: BackOff = BACK_OFF,
    ) -> None:
        """Start without shards.

        Args:
            log: log to run.
            make: creates the processor of a shard, by number; called in the shard's thread.
            changed: called in any thread when a shard was opened or its thread ended; call `collect` then.
            back_off: delays while the log cannot be used.
        """
        self._log = log
        self._make = make
        self._changed = changed
        self._back_off = back_off
        self._threads: dict[int, ShardThread] = {}
        self._gc = GcControl()
        self._stack = ExitStack()
        self._closed = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="lahar-watch", daemon=True)

    def __enter__(self) -> Self:
        """Take over the garbage collector for all shards, and start the input watcher."""
        self._stack.enter_context(long_turns())
        self._gc = self._stack.enter_context(freeze_live_objects())
        self._watcher.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """End all shards, unless `close` has done so; shards left behind by it are not waited for again."""
        if not self._closed.is_set():
            self.close()
        # The watcher wakes at this interval, unless the log does not answer.
        self._watcher.join(5 * IDLE_SECONDS)
        self._stack.close()

    # --- calls of the owner -----------------------------------------------------------------------------------------------

    def assign(self, shards: Collection[int]) -> None:
        """Run these shards and no others.

        New shards are opened in their threads; shards no longer assigned finish their current transaction and are closed. Does not
        block: call it again after `changed`, to start shards that had not ended yet.
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
                    after_commit=self._gc.tick,
                    after_loss=self._gc.collect_frozen,
                    changed=self._changed,
                    back_off=self._back_off,
                )

    def collect(self) -> list[tuple[int, FencedError]]:
        """Remove the threads that have ended since the last call.

        Returns:
            Assigned shards that another process has opened, with the error. They stay closed until they are assigned again.

        Raises:
            LogError: a shard has failed in a way that waiting does not help.
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
        """Close all shards after their current transactions. Idempotent.

        Args:
            seconds: maximum wait for all together; half a second for those being opened.

        Returns:
            Shards that have not ended in that time, because the log does not answer.
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

    # --- status, for any thread -------------------------------------------------------------------------------------------

    @property
    def open(self) -> frozenset[int]:
        """Numbers of the open shards."""
        return frozenset(thread.number for thread in list(self._threads.values()) if thread.is_open)

    @property
    def waiting(self) -> dict[int, str]:
        """Reason for each shard that should run and is not open."""
        return {
            thread.number: thread.trouble or "it is being opened"
            for thread in list(self._threads.values())
            if not thread.is_open and not thread.stopped
        }

    def _watch(self) -> None:
        """Wake idle shards when records may have been appended; one thread watches the log for all of them."""
        while not self._closed.is_set():
            try:
                threads = list(self._threads.values())
                if not any(thread.rests for thread in threads):
                    # Busy shards read without being woken.
                    self._closed.wait(_LOOK_SECONDS)
                    continue
                # Outputs of the shards themselves wake none.
                changed = self._log.wait(IDLE_SECONDS, [partition for thread in threads for partition in thread.reads])
                for thread in threads:
                    if not set(thread.reads).isdisjoint(changed):
                        thread.wake()
            except LogError:
                # The shards report the same error.
                self._closed.wait(IDLE_SECONDS)
            except Exception:
                # The log was closed meanwhile, or this is a defect; shards poll.
                if not self._closed.is_set():
                    _logger.exception("input watcher stopped; shards fall back to polling")
                return
