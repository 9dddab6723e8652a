"""Thread of one shard: opened, stepped, and reopened after the log was unavailable."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from engine.events.back_off import BackOff
from engine.events.times import SECOND
from engine.log.errors import LogUnavailableError
from engine.log.port import Partition
from engine.processor.processor import Processor
from engine.processor.recovery import StoppedRecoveryError

IDLE_SECONDS: Final = 0.2
"""Maximum wait of an idle shard before it checks its timers (seconds)."""
_PACE_SECONDS: Final = 0.03
"""Time between the starts of two transactions while less than a batch waits (seconds; kafka.md, Transactions), so that more inputs
share the cost of a transaction and of its requests to brokers."""
BACK_OFF: Final = BackOff(SECOND // 5, 10 * SECOND)
"""Delays while the log cannot be used."""

_logger: Final = logging.getLogger(__name__)


class _AppendCount:
    """Counter of possible appends; wakes the shard that waits for one."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.count = 0

    def increment(self) -> None:
        """Count one append."""
        with self._changed:
            self.count += 1
            self._changed.notify_all()

    def wait(self, seen: int, seconds: float) -> None:
        """Block until the count differs from `seen`, for at most `seconds`."""
        with self._changed:
            self._changed.wait_for(lambda: self.count != seen, seconds)


class ShardThread:
    """Thread that runs one shard until it is stopped, is fenced, or fails in a way that waiting does not help."""

    def __init__(
        self,
        number: int,
        make: Callable[[int], Processor[Any]],
        *,
        after_commit: Callable[[], None],
        after_loss: Callable[[], None],
        changed: Callable[[], object],
        back_off: BackOff,
    ) -> None:
        """Start the thread.

        Args:
            number: number of the shard.
            make: creates its processor; called in the thread.
            after_commit: called in the thread.
            after_loss: called in the thread after the shard was lost and reopened.
            changed: called in the thread when the shard was opened and when the thread has ended.
            back_off: delays while the log cannot be used.
        """
        self.number: Final = number
        self.shard = str(number)
        """Display name, with its stage once the processor exists."""
        self._make = make
        self._appends = _AppendCount()
        self._after_commit = after_commit
        self._after_loss = after_loss
        self._was_open = False
        self._changed = changed
        self._back_off = back_off
        self._stop = threading.Event()
        self.is_open = False
        self.reads: Sequence[Partition] = ()
        """Input partitions; empty until the processor exists."""
        self.ended = False
        """True if the thread has ended; `error` is the reason."""
        self.error: BaseException | None = None
        """Error that ended the thread; `None`: it was stopped."""
        self.rests = False
        """True while it waits for inputs."""
        self.trouble = ""
        """Reason why the log cannot be used now; empty: it can."""
        # A daemon thread, so that a log that does not answer cannot keep the process alive.
        self._thread = threading.Thread(target=self._run, name=f"lahar-shard-{number}", daemon=True)
        self._thread.start()

    @property
    def stopped(self) -> bool:
        """Return true if a stop was requested."""
        return self._stop.is_set()

    def wake(self) -> None:
        """Make it read inputs, at once if it is idle."""
        self._appends.increment()

    def stop(self) -> None:
        """Request that it finishes its current transaction, closes the shard and ends."""
        self._stop.set()
        self._appends.increment()

    def join(self, seconds: float) -> None:
        """Block until it has ended, for at most `seconds`."""
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            processor = self._make(self.number)
            self.shard, self.reads = str(processor.shard), processor.reads
            try:
                with suppress(StoppedRecoveryError):
                    self._work(processor)
            finally:
                self.is_open = False
                processor.close()
        except BaseException as error:  # noqa: BLE001  the owner raises it in its own thread
            self.error = error
        self.ended = True
        self._changed()

    def _work(self, processor: Processor[Any]) -> None:
        failures = 0
        while not self._stop.is_set():
            seen, began = self._appends.count, time.monotonic()
            try:
                if not processor.is_open:
                    self._open(processor)
                    continue
                done = processor.step()
            except LogUnavailableError as error:
                self._warn(error)
                failures += 1
                self._stop.wait(self._back_off.delay(failures) / SECOND)
                continue
            # Reset only after a successful step: the log may allow reads, or the opening of a shard, while it cannot be written.
            # If only the read of inputs failed, the shard has stayed open.
            self.is_open, self.trouble, failures = True, "", 0
            if not done:
                self._rest(seen, processor.rest(IDLE_SECONDS))
                continue
            self._after_commit()
            if done < processor.batch:
                self._stop.wait(max(began + _PACE_SECONDS - time.monotonic(), 0))

    def _rest(self, seen: int, seconds: float) -> None:
        self.rests = True
        self._appends.wait(seen, seconds)
        self.rests = False

    def _open(self, processor: Processor[Any]) -> None:
        self.is_open = False
        processor.open(self._stop.is_set)
        if self._was_open:
            self._after_loss()
        self.is_open = self._was_open = True
        self._changed()

    def _warn(self, error: LogUnavailableError) -> None:
        self.is_open = False
        if not self.trouble:
            fields = {"shard": self.shard, "error": type(error).__name__}
            _logger.warning("shard %s: %s; trying again until it works", self.shard, error, extra=fields)
        self.trouble = str(error)
