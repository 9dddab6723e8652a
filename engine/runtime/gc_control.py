"""Controls the garbage collector of a process with millions of live objects.

A full collection visits all of them: with 100,000 live jobs it stops the engine for more than a second, repeatedly while the state
grows. The state has no cycles, so objects that survive a commit are frozen (`gc.freeze`) after a young collection; a collection
then costs as much as was allocated since the last one.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from engine.gc_pause import collector_paused

__all__ = ["GcControl", "freeze_live_objects"]

_EVERY: Final = 10
"""Calls of `tick` between two collections: up to 5,000 inputs, 10,000 in live workers on Kafka. A collection then takes some 7 ms,
3 of them for objects in use in all shards at that moment."""


class GcControl:
    """Collects between commits instead of at arbitrary times. One serves all threads of a process."""

    def __init__(self, every: int = _EVERY) -> None:
        """Collect at each so many calls of `tick`."""
        self._every = every
        self._ticks = 0
        self._lock = threading.Lock()

    def tick(self) -> None:
        """Call it after each commit."""
        # If another thread is collecting, return: that collection covers this thread's objects too.
        if not self._lock.acquire(blocking=False):
            return
        try:
            self._ticks += 1
            if self._ticks >= self._every:
                self._ticks = 0
                gc.collect(1)
                gc.freeze()
        finally:
            self._lock.release()

    def collect_frozen(self) -> None:
        """Collect frozen objects too: a lost shard leaves cycles behind, such as those of its connections.

        Takes a second for every 100,000 live jobs or so.
        """
        with self._lock:
            gc.unfreeze()
            gc.collect()
            gc.freeze()


@contextmanager
def freeze_live_objects(every: int = _EVERY) -> Iterator[GcControl]:
    """Take over the collector for a `with` block, and freeze all objects that are alive at its beginning.

    `every`: calls of `tick` between two collections.
    The collector belongs to the process: one thread enters the block, and it outlasts the other threads.
    """
    with collector_paused():
        # Not a full one: that visits all objects of the program that feeds the log, each time.
        gc.collect(1)
        gc.freeze()
        try:
            yield GcControl(every)
        finally:
            gc.unfreeze()
