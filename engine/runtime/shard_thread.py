"""One shard in a thread of its own: opened, stepped, opened again where the log was unavailable."""

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

__all__ = ["BACK_OFF", "IDLE_SECONDS", "ShardThread"]

IDLE_SECONDS: Final = 0.2
"""How long a shard without inputs waits, at most, before it looks at its timers again."""
_PACE_SECONDS: Final = 0.03
"""From the beginning of a transaction to that of the next one, while there is less to do than a batch (kafka.md, Transactions).
What a transaction costs, and the questions to brokers before it, is then shared by more inputs."""
BACK_OFF: Final = BackOff(SECOND // 5, 10 * SECOND)
"""Of a log that cannot be used."""

_logger: Final = logging.getLogger(__name__)


class _News:
    """Counts when something may have been appended, and wakes the shard that waits for it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.count = 0

    def tell(self) -> None:
        """Count one more."""
        with self._changed:
            self.count += 1
            self._changed.notify_all()

    def wait(self, seen: int, seconds: float) -> None:
        """Return as soon as the count is another one than `seen`, some seconds later at the latest."""
        with self._changed:
            self._changed.wait_for(lambda: self.count != seen, seconds)


class ShardThread:
    """A thread that runs one shard until it is to stop, is fenced, or fails in a way that waiting does not mend."""

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
        """Begin.

        Args:
            number: of the shard.
            make: gives its processor; called in the thread.
            after_commit: called in the thread.
            after_loss: called in the thread when the shard was lost and opened anew.
            changed: called in the thread when the shard was opened and when the thread has ended.
            back_off: where the log cannot be used.
        """
        self.number: Final = number
        self.shard = str(number)
        """Its name, for people: with its stage as soon as the processor is made."""
        self._make = make
        self._news = _News()
        self._after_commit = after_commit
        self._after_loss = after_loss
        self._was_open = False
        self._changed = changed
        self._back_off = back_off
        self._stop = threading.Event()
        self.is_open = False
        self.reads: Sequence[Partition] = ()
        """The shard's inputs; empty until its processor is made."""
        self.ended = False
        """It does nothing any more; `error` says why."""
        self.error: BaseException | None = None
        """`None`: it was stopped."""
        self.rests = False
        """It waits for inputs."""
        self.trouble = ""
        """Why the log cannot be used at this moment; empty: it can."""
        # A daemon: a log that does not answer must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name=f"lahar-shard-{number}", daemon=True)
        self._thread.start()

    @property
    def stopped(self) -> bool:
        """Tell whether it is to end."""
        return self._stop.is_set()

    def wake(self) -> None:
        """Let it look for inputs, at once if it rests."""
        self._news.tell()

    def stop(self) -> None:
        """Let it finish the transaction at hand, give the shard back and end."""
        self._stop.set()
        self._news.tell()

    def join(self, seconds: float) -> None:
        """Return when it has ended, some seconds later at the latest."""
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
            seen, began = self._news.count, time.monotonic()
            try:
                if not processor.is_open:
                    self._open(processor)
                    continue
                done = processor.step()
            except LogUnavailableError as error:
                self._tell(error)
                failures += 1
                self._stop.wait(self._back_off.delay(failures) / SECOND)
                continue
            # Not before a step: the log may be readable, or let a shard be opened, while it cannot be written.
            # Where only inputs could not be read, the shard has stayed open.
            self.is_open, self.trouble, failures = True, "", 0
            if not done:
                self._rest(seen, processor.rest(IDLE_SECONDS))
                continue
            self._after_commit()
            if done < processor.batch:
                self._stop.wait(max(began + _PACE_SECONDS - time.monotonic(), 0))

    def _rest(self, seen: int, seconds: float) -> None:
        self.rests = True
        self._news.wait(seen, seconds)
        self.rests = False

    def _open(self, processor: Processor[Any]) -> None:
        self.is_open = False
        processor.open(self._stop.is_set)
        if self._was_open:
            self._after_loss()
        self.is_open = self._was_open = True
        self._changed()

    def _tell(self, error: LogUnavailableError) -> None:
        self.is_open = False
        if not self.trouble:
            fields = {"shard": self.shard, "error": type(error).__name__}
            _logger.warning("shard %s: %s; trying again until it works", self.shard, error, extra=fields)
        self.trouble = str(error)
