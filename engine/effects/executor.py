"""Where receivers run: in threads of their own, or in the caller's (tests, simulations).

A delivery is a run of notices in order; it ends with the first that is not done. Each call has a time limit, measured by the
executor's own clock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from engine.effects.notice import Notice
from engine.effects.receiver import Outcome, Receiver, tell
from engine.events.times import SECOND

__all__ = ["Delivery", "Executor", "InlineExecutor", "Progress", "ThreadExecutor", "monotonic"]

_LEFT_BEHIND: Final = 4
"""Calls of one receiver that overran and still have not returned, beyond which it is not called again: threads cannot be stopped,
and one that hangs for 24 hours would leave three hundred of them."""

_POLL: Final = 0.25
"""Seconds between two looks at the clock while calls are under way."""


def monotonic() -> int:
    """Return the time of a clock that only goes forward (microseconds)."""
    return time.monotonic_ns() // 1_000


class Progress(NamedTuple):
    """How a delivery has gone on."""

    outcomes: list[Outcome]
    """Since the last time, in the order of the notices."""
    over: bool
    """No more will come."""


class Delivery(Protocol):
    """A run of notices on its way to one receiver."""

    def collect(self) -> Progress:
        """Return the results since the last call; a call that overran has failed."""

    def stop(self) -> None:
        """Start no more calls; a running one continues and is collected as usual."""


class Executor(Protocol):
    """Runs receivers."""

    def start(self, receiver: Receiver, notices: Sequence[Notice], may_call: Callable[[], bool]) -> Delivery:
        """Begin to deliver some notices, one after another.

        Args:
            receiver: the receiver.
            notices: in order.
            may_call: asked before each call, in the thread that makes it; false ends the delivery.
        """

    def wait(self) -> None:
        """Return as soon as a call may have ended, some time later at the latest."""


class InlineExecutor:
    """Calls receivers at once, in the caller's thread. A call that overruns is noticed when it returns."""

    def __init__(self, clock: Callable[[], int] = monotonic) -> None:
        """Make one; `clock` gives microseconds."""
        self._clock = clock

    def start(self, receiver: Receiver, notices: Sequence[Notice], may_call: Callable[[], bool]) -> Delivery:
        """Deliver some notices."""
        outcomes: list[Outcome] = []
        for notice in notices:
            if not may_call():
                break
            began = self._clock()
            outcome = tell(receiver, notice)
            if self._clock() - began >= receiver.time_limit:
                outcome = _overrun(receiver)
            outcomes.append(outcome)
            if outcome.kind != "done":
                break
        return _Finished(outcomes)

    def wait(self) -> None:
        """Return: nothing is ever under way."""


class ThreadExecutor:
    """Calls receivers in threads, one for each delivery, so that none waits for another."""

    def __init__(self, clock: Callable[[], int] = monotonic) -> None:
        """Make one; `clock` gives microseconds and is read from all threads."""
        self._clock = clock
        self._changed = threading.Condition()
        self._news = False
        self._left: dict[str, list[threading.Thread]] = {}

    def start(self, receiver: Receiver, notices: Sequence[Notice], may_call: Callable[[], bool]) -> Delivery:
        """Begin to deliver some notices, unless too many earlier calls have not returned."""
        # One list for all of the receiver's deliveries: those of several partitions are under way at once.
        left = self._left.setdefault(receiver.name, [])
        left[:] = [thread for thread in left if thread.is_alive()]
        if len(left) >= _LEFT_BEHIND:
            return _Finished([Outcome("retry", f"{len(left)} earlier calls overran and have not returned yet")])
        return _InThread(self._clock, receiver, notices, may_call, self._changed, self._tell_news, left.append)

    def wait(self) -> None:
        """Return as soon as a call has ended since the last time, after a quarter of a second at the latest."""
        with self._changed:
            self._changed.wait_for(lambda: self._news, _POLL)
            self._news = False

    def _tell_news(self) -> None:
        self._news = True
        self._changed.notify_all()


class _Finished:
    """A delivery whose outcomes are all known."""

    def __init__(self, outcomes: list[Outcome]) -> None:
        self._outcomes = outcomes

    def collect(self) -> Progress:
        outcomes, self._outcomes = self._outcomes, []
        return Progress(outcomes, over=True)

    def stop(self) -> None:
        """Do nothing: no call is to follow."""


class _InThread:
    """A delivery that a thread carries out. All that both threads touch is touched under `lock`."""

    def __init__(
        self,
        clock: Callable[[], int],
        receiver: Receiver,
        notices: Sequence[Notice],
        may_call: Callable[[], bool],
        lock: threading.Condition,
        ended: Callable[[], None],
        leave: Callable[[threading.Thread], None],
    ) -> None:
        self._clock = clock
        self._receiver = receiver
        self._notices = notices
        self._may_call = may_call
        self._lock = lock
        self._ended = ended
        self._leave = leave
        self._outcomes: list[Outcome] = []
        self._stopped = self._over = False
        self._began = clock()
        # A daemon: a call that never returns must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name=f"callback {receiver.name}", daemon=True)
        self._thread.start()

    def collect(self) -> Progress:
        with self._lock:
            if not self._over and self._clock() - self._began >= self._receiver.time_limit:
                self._outcomes.append(_overrun(self._receiver))
                self._over = True
                self._leave(self._thread)
            outcomes, self._outcomes = self._outcomes, []
            return Progress(outcomes, self._over)

    def stop(self) -> None:
        with self._lock:
            self._stopped = True

    def _run(self) -> None:
        left = len(self._notices)
        for notice in self._notices:
            if not self._may_call():
                self._end()
                return
            outcome = tell(self._receiver, notice)
            left -= 1
            if not self._go_on(outcome, left):
                return

    def _end(self) -> None:
        """Note that no further call begins."""
        with self._lock:
            self._over = True
            self._ended()

    def _go_on(self, outcome: Outcome, left: int) -> bool:
        """Note how a call ended; tell whether another one begins."""
        with self._lock:
            if self._over:
                # Given up meanwhile: it counts as failed, and the same notice may already be on its way again.
                return False
            self._outcomes.append(outcome)
            self._over = outcome.kind != "done" or self._stopped or not left
            self._began = self._clock()
            self._ended()
            return not self._over


def _overrun(receiver: Receiver) -> Outcome:
    return Outcome("retry", f"took longer than {receiver.time_limit / SECOND:g} s")
