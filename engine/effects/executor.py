"""Executors of receivers: in separate threads, or in the caller's thread (tests, simulations).

A delivery is a sequence of notices; it ends with the first that is not done. Each call has a time limit, measured by the executor's
own clock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from engine.effects.notice import Told
from engine.effects.receiver import Outcome, Receiver, deliver
from engine.events.times import SECOND

_LEFT_BEHIND: Final = 4
"""Maximum number of overrun calls of a receiver that are still running; beyond it the receiver is not called. Threads cannot be
stopped, and a receiver that hangs for 24 hours would leave three hundred."""

_POLL: Final = 0.25
"""Seconds between two checks of the time limits while calls are running."""


def monotonic() -> int:
    """Return the time of a monotonic clock (microseconds)."""
    return time.monotonic_ns() // 1_000


class Progress(NamedTuple):
    """Outcomes of a delivery since the last call."""

    outcomes: list[Outcome]
    """New outcomes, in the order of the notices."""
    over: bool
    """True if the delivery has ended."""


class Delivery(Protocol):
    """A sequence of notices in delivery to one receiver."""

    def collect(self) -> Progress:
        """Return the outcomes since the last call; a call beyond its time limit has failed."""

    def stop(self) -> None:
        """Start no more calls; a running one continues and is collected as usual."""


class Executor(Protocol):
    """Runs receivers."""

    def start(self, receiver: Receiver, notices: Sequence[Told], may_call: Callable[[], bool]) -> Delivery:
        """Start the delivery of notices, one after another.

        Args:
            receiver: receiver of the notices.
            notices: notices in order.
            may_call: called before each delivery, in the delivering thread; false ends the sequence.
        """

    def wait(self) -> None:
        """Block until a call may have ended, for a bounded time."""


class InlineExecutor:
    """Calls receivers at once, in the caller's thread. Detects an exceeded time limit when the call returns."""

    def __init__(self, clock: Callable[[], int] = monotonic) -> None:
        """Create an executor; `clock` returns microseconds."""
        self._clock = clock

    def start(self, receiver: Receiver, notices: Sequence[Told], may_call: Callable[[], bool]) -> Delivery:
        """Deliver notices."""
        outcomes: list[Outcome] = []
        for notice in notices:
            if not may_call():
                break
            began = self._clock()
            outcome = deliver(receiver, notice)
            if self._clock() - began >= receiver.time_limit:
                outcome = _overrun(receiver)
            outcomes.append(outcome)
            if outcome.kind != "done":
                break
        return _Finished(outcomes)

    def wait(self) -> None:
        """Return at once, because no call is running."""


class ThreadExecutor:
    """Calls receivers in threads, one per delivery, so that none waits for another."""

    def __init__(self, clock: Callable[[], int] = monotonic) -> None:
        """Create an executor; `clock` returns microseconds and is called from all threads."""
        self._clock = clock
        self._changed = threading.Condition()
        self._news = False
        self._left: dict[str, list[threading.Thread]] = {}

    def start(self, receiver: Receiver, notices: Sequence[Told], may_call: Callable[[], bool]) -> Delivery:
        """Start a delivery, unless too many earlier calls are still running."""
        # One list per receiver, because several partitions deliver at once.
        left = self._left.setdefault(receiver.name, [])
        left[:] = [thread for thread in left if thread.is_alive()]
        if len(left) >= _LEFT_BEHIND:
            return _Finished([Outcome("retry", f"{len(left)} earlier calls overran and have not returned yet")])
        return _InThread(self._clock, receiver, notices, may_call, self._changed, self._wake, left.append)

    def wait(self) -> None:
        """Block until a call has ended since the last call of `wait`, for at most a quarter of a second."""
        with self._changed:
            self._changed.wait_for(lambda: self._news, _POLL)
            self._news = False

    def _wake(self) -> None:
        self._news = True
        self._changed.notify_all()


class _Finished:
    """Delivery with known outcomes."""

    def __init__(self, outcomes: list[Outcome]) -> None:
        self._outcomes = outcomes

    def collect(self) -> Progress:
        outcomes, self._outcomes = self._outcomes, []
        return Progress(outcomes, over=True)

    def stop(self) -> None:
        """Do nothing, because no call follows."""


class _InThread:
    """Delivery in a thread. `lock` guards the state shared by both threads."""

    def __init__(
        self,
        clock: Callable[[], int],
        receiver: Receiver,
        notices: Sequence[Told],
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
        # A daemon thread, so that a call that never returns cannot keep the process alive.
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
            outcome = deliver(self._receiver, notice)
            left -= 1
            if not self._continue(outcome, left):
                return

    def _end(self) -> None:
        """Record that no further call will start."""
        with self._lock:
            self._over = True
            self._ended()

    def _continue(self, outcome: Outcome, left: int) -> bool:
        """Record a call's outcome; return true if another call follows."""
        with self._lock:
            if self._over:
                # Given up meanwhile: it counts as failed, and the same notice may already be in delivery again.
                return False
            self._outcomes.append(outcome)
            self._over = outcome.kind != "done" or self._stopped or not left
            self._began = self._clock()
            self._ended()
            return not self._over


def _overrun(receiver: Receiver) -> Outcome:
    return Outcome("retry", f"took longer than {receiver.time_limit / SECOND:g} s")
