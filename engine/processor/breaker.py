"""The circuit breaker: an input or a timer in which processes end is not decided a third time.

Before something is decided its name is noted outside the transaction, where it outlives the process (`ShardLog.mark`). Whoever
opens the shard next finds it there, unless the process ended in good order. What two processes have ended in while they decided
it, by a crash or because they ran out of time (`watchdog`), is decided by a child process (`rehearsal`). If that ends too it is set
aside: parked with its job, or, where a process ended while it parked it, a dead letter; a timer is dropped then. If it survives,
somebody has killed the others. If the parent ends meanwhile the next start tries once more, three times at most.

Where a mark costs nothing (a file) each input has one, and the third start sets the input aside. Where it is a round trip (Kafka) a
shard that is open has one mark, which names nothing; only the start after a process has ended marks each input, for as many as may
have been in the batch. There the input is decided once more: only an end of a process counts that a mark can pin on it, so that
nothing is set aside because somebody killed processes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, TypeAlias

from engine.log.errors import LogError
from engine.log.port import ShardId, ShardLog

__all__ = ["REASON", "Breaker", "Name", "text_of"]

Name: TypeAlias = tuple[str, object]
"""Of an input: its partition and its offset; of a timer: that it is one, and its id. The same whoever decides it."""

REASON: Final = "processes ended twice while they decided it"
"""Why an input or a timer is set aside."""

_FATAL: Final = 2
"""Ends of processes in the same input after which a child process tries it; if the child ends, it is set aside."""
_HOPELESS: Final = 5
"""Ends after which it is set aside without another trial: each child so far took its parent with it, or somebody killed the
parent meanwhile. Making a child takes milliseconds, so kills that come soon after a start fall into a trial again and again."""
_NOTHING: Final = ""
_OPEN: Final = "open"
_RECOVERY: Final = "recovery"
_logger: Final = logging.getLogger(__name__)


class Breaker:
    """Marks what a holder of a shard is about to decide, and knows what earlier holders ended in."""

    def __init__(self, shard: ShardId, held: ShardLog, most: int, before: Breaker | None = None) -> None:
        """Read what the holder before has left.

        Args:
            shard: which shard.
            held: where the marks are kept.
            most: inputs and timers that may be decided in one transaction.
            before: of the last time that this process had the shard, as far as it knows: no process has ended since.

        Raises:
            LogError: the log cannot be read.
        """
        self.shard: Final = shard
        self.processor_seconds: Final = _thread_clock()
        """Gives the processor time of the thread that has opened the shard (seconds)."""
        self._held = held
        text = held.marked() if before is None else ""
        known = _read(text) if before is None else (before.suspect, before.ends)
        self.suspect: str = known[0]
        """What earlier processes had ended in when the shard was opened; empty: nothing that is known."""
        self.ends: int = known[1]
        """How many of them."""
        self.rehearse: Callable[[], bool] = lambda: False
        """Tells whether a child process survives what is about to be decided."""
        self._free = held.marks_are_free
        self._careful = bool(text or self.suspect)
        """Each input and timer is marked, whatever that costs."""
        self._left = most
        """Of those that are to be marked."""
        self._resting = _NOTHING if self._free else f"0 {_OPEN}"
        self._noted: str | None = None
        self.deciding: Name | None = None
        """What is being decided; another object for each."""
        if before is None:
            self._warn()

    def _warn(self) -> None:
        if not self.suspect:
            return
        many = "a process ended while it" if self.ends == 1 else f"{self.ends} processes, one after the other, ended while they"
        what = "recovered the shard" if self.suspect == _RECOVERY else f"decided {self.suspect}"
        done = ""
        if self.suspect != _RECOVERY and self.ends >= _FATAL:
            done = "; that is set aside now" + (" if a child process ends in it too" if self.ends < _HOPELESS else "")
        _logger.warning("shard %s: %s %s%s", self.shard, many, what, done)

    def recovering(self) -> None:
        """Note that the state is being built.

        Raises:
            LogError: the log cannot be written.
        """
        self.deciding = None
        # What is known of a suspect must outlive the end of this process too.
        known = "" if self.suspect in {_NOTHING, _RECOVERY} else f" {self.suspect}"
        self._mark(f"{self.ends} {_RECOVERY}{known}")

    def begin(self, name: Name) -> Sequence[str]:
        """Note what is decided next.

        Args:
            name: of an input or a timer.

        Returns:
            Why it is not to be decided: empty; one reason to park it; more to make it a dead letter, or to drop the timer.

        Raises:
            LogError: the log cannot be written.
        """
        self.deciding = name
        if not self.suspect:
            if self._free or self._careful:
                self._left -= 1
                self._mark(f"0 {text_of(name)}")
            return ()
        ends, mark = self._mark_of(name)
        if _FATAL <= ends < _HOPELESS:
            self._mark(mark)  # what takes this process with it counts
            if self.rehearse():
                _logger.warning("shard %s: a child process survives %s: something else ended the others", self.shard, self.suspect)
                self.suspect, self.ends = _NOTHING, 0
            else:
                self.ends = _HOPELESS
            ends, mark = self._mark_of(name)
        if self._free or self._careful:
            self._left -= 1
            self._mark(mark)
        return (REASON,) * (ends - _HOPELESS + 1)

    def _mark_of(self, name: Name) -> tuple[int, str]:
        """Return how many processes have ended in something, and the mark that says so."""
        text = text_of(name)
        ends = self.ends if text == self.suspect else 0
        return ends, f"{ends} {text}"

    def rest(self) -> None:
        """Note that nothing is being decided, in good order or because of an error that this process survives.

        Raises:
            LogError: the log cannot be written.
        """
        self.deciding = None
        self._careful = self._careful and self._left > 0
        self._mark(self._resting)

    def run_out(self) -> None:
        """Name what is being decided before the process is ended because of it; from any thread.

        Raises:
            LogError: the log cannot be written.
        """
        if self.deciding is not None:
            self._held.mark(self._mark_of(self.deciding)[1])

    def interrupted(self) -> None:
        """Note that the state is not built any further, as nobody wants it; what is known of a suspect stays."""
        if self.suspect in {_NOTHING, _RECOVERY}:
            self.close()

    def close(self) -> None:
        """Note that the shard is given back in good order, if the log can be written."""
        self.deciding = None
        with suppress(LogError):
            self._mark(_NOTHING)

    def _mark(self, text: str) -> None:
        if text != self._noted:
            self._noted = text
            self._held.mark(text)


def text_of(name: Name) -> str:
    """Return a name as marks and messages say it."""
    where, which = name
    return f"{where}@{which}"


def _thread_clock() -> Callable[[], float]:
    """Return the processor clock of this thread, for others to read; of the process where the system keeps none."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.process_time
    clock = time.pthread_getcpuclockid(threading.get_ident())

    def seconds() -> float:
        try:
            return time.clock_gettime(clock)
        except OSError:  # the thread has ended: it decides nothing any more
            return 0.0

    return seconds


def _read(text: str) -> tuple[str, int]:
    """Return the suspect that a mark names, and how many processes have ended in it by now."""
    found, _, name = text.partition(" ")
    if not found.isdecimal() or name == _OPEN:
        return _NOTHING, 0
    if name.startswith(f"{_RECOVERY} "):
        return name.removeprefix(f"{_RECOVERY} "), int(found)
    return name, int(found) + 1
