"""Poison guard: an input or a timer on which two processes have crashed is not decided a third time.

Before each decision the name of the input or timer is stored outside the transaction, so that it survives the process
(`ShardLog.mark`). The next holder of the shard reads it, unless the process stopped cleanly. After two processes have ended in one
decision, by a crash or by the watchdog (`watchdog`), a child process tries it (`crash_probe`). If the child ends too, the input is
parked with its job, or becomes a dead letter if a process ended while parking it; a timer is dropped. If the child survives, the
earlier processes were killed from outside. If the parent ends during a trial, the next start tries again, three times at most.

If a mark is free (a file), each input is marked, and the third start drops the input. If a mark is a request to a broker (Kafka),
an open shard has one mark without a name; only after a process has ended are the inputs of the next batch marked one by one, so an
input is decided once more. Only ends that a mark attributes to an input count, so killed processes drop nothing.
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

Name: TypeAlias = tuple[str, object]
"""An input's partition and offset, or a timer's id with its kind; the same in every process."""

REASON: Final = "processes ended twice while they decided it"
"""Reason recorded with a dropped input or timer."""

_FATAL: Final = 2
"""Number of process ends in one input after which a child process tries it; if the child ends too, the input is dropped."""
_HOPELESS: Final = 5
"""Number of process ends after which an input is dropped without a further trial: each trial has ended the parent too, or the
parent was killed during it. Starting a child takes milliseconds, so kills soon after a start can hit several trials in a row."""
_NOTHING: Final = ""
_OPEN: Final = "open"
_RECOVERY: Final = "recovery"
_logger: Final = logging.getLogger(__name__)


class PoisonGuard:
    """Marks each decision of a shard's holder, and counts the process ends of earlier holders."""

    def __init__(self, shard: ShardId, held: ShardLog, most: int, before: PoisonGuard | None = None) -> None:
        """Read the previous holder's mark.

        Args:
            shard: shard to guard.
            held: opened shard, which stores the marks.
            most: maximum number of inputs and timers in one transaction.
            before: guard of this process's previous opening of the shard, if no process can have ended since.

        Raises:
            LogError: the log cannot be read.
        """
        self.shard: Final = shard
        self.processor_seconds: Final = _thread_clock()
        """Returns the processor time of the thread that has opened the shard (seconds)."""
        self._held = held
        text = held.marked() if before is None else ""
        known = _read(text) if before is None else (before.suspect, before.ends)
        self.suspect: str = known[0]
        """Input, timer or recovery during which earlier processes ended, as of the opening; empty if unknown."""
        self.ends: int = known[1]
        """Number of those processes."""
        self.rehearse: Callable[[], bool] = lambda: False
        """Tries the next decision in a child process; returns whether the child survives."""
        self._free = held.marks_are_free
        self._careful = bool(text or self.suspect)
        """True if each input and timer is marked, even if a mark is a request to a broker."""
        self._left = most
        """Number of decisions still to be marked."""
        self._resting = _NOTHING if self._free else f"0 {_OPEN}"
        self._noted: str | None = None
        self.deciding: Name | None = None
        """Current decision; each has an object of its own."""
        if before is None:
            self._warn()

    def _warn(self) -> None:
        if not self.suspect:
            return
        many = "a process ended while it" if self.ends == 1 else f"{self.ends} processes, one after the other, ended while they"
        what = "recovered the shard" if self.suspect == _RECOVERY else f"decided {self.suspect}"
        done = ""
        if self.suspect != _RECOVERY and self.ends >= _FATAL:
            done = "; it is dropped now" + (" if a child process ends in it too" if self.ends < _HOPELESS else "")
        _logger.warning("shard %s: %s %s%s", self.shard, many, what, done)

    def recovering(self) -> None:
        """Mark that the state is being recovered.

        Raises:
            LogError: the log cannot be written.
        """
        self.deciding = None
        # The mark keeps the suspect, so that it survives an end of this process too.
        known = "" if self.suspect in {_NOTHING, _RECOVERY} else f" {self.suspect}"
        self._mark(f"{self.ends} {_RECOVERY}{known}")

    def begin(self, name: Name) -> Sequence[str]:
        """Mark the next decision.

        Args:
            name: name of an input or a timer.

        Returns:
            Reasons not to decide it. Empty: decide it; one: park it; more: make it a dead letter, or drop the timer.

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
            self._mark(mark)  # an end of this process counts too
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
        """Return the number of processes that ended in a decision, and the mark that records it."""
        text = text_of(name)
        ends = self.ends if text == self.suspect else 0
        return ends, f"{ends} {text}"

    def rest(self) -> None:
        """Mark that no decision is in progress: it is done, or failed with an error that this process survives.

        Raises:
            LogError: the log cannot be written.
        """
        self.deciding = None
        self._careful = self._careful and self._left > 0
        self._mark(self._resting)

    def run_out(self) -> None:
        """Mark the current decision before the watchdog ends the process; callable from any thread.

        Raises:
            LogError: the log cannot be written.
        """
        if self.deciding is not None:
            self._held.mark(self._mark_of(self.deciding)[1])

    def interrupted(self) -> None:
        """Mark that recovery was stopped on request; keeps the suspect."""
        if self.suspect in {_NOTHING, _RECOVERY}:
            self.close()

    def close(self) -> None:
        """Mark that the shard was closed cleanly, if the log can be written."""
        self.deciding = None
        with suppress(LogError):
            self._mark(_NOTHING)

    def _mark(self, text: str) -> None:
        if text != self._noted:
            self._noted = text
            self._held.mark(text)


def text_of(name: Name) -> str:
    """Return the text form of a name in marks and messages."""
    where, which = name
    return f"{where}@{which}"


def _thread_clock() -> Callable[[], float]:
    """Return the processor clock of this thread, for other threads to read; of the process if the system has none."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.process_time
    clock = time.pthread_getcpuclockid(threading.get_ident())

    def seconds() -> float:
        try:
            return time.clock_gettime(clock)
        except OSError:  # the thread has ended and makes no decision
            return 0.0

    return seconds


def _read(text: str) -> tuple[str, int]:
    """Return the suspect in a mark, and the number of processes that have ended in it."""
    found, _, name = text.partition(" ")
    if not found.isdecimal() or name == _OPEN:
        return _NOTHING, 0
    if name.startswith(f"{_RECOVERY} "):
        return name.removeprefix(f"{_RECOVERY} "), int(found)
    return name, int(found) + 1
