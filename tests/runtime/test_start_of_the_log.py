"""A process that starts before its log tries again, says so once, and gives up when its time is over or it is told to stop."""

from __future__ import annotations

import signal

import pytest

from engine.log.errors import LogBusyError, LogError, LogUnavailableError
from engine.log.start import StartWait
from engine.runtime.opening import StoppedError, awaited
from engine.signals import Signals


class Clock(Signals):
    """Time that passes only where somebody waits; a signal comes at a moment that was named."""

    def __init__(self, signal_at: float = float("inf")) -> None:
        super().__init__()
        self.now = 100.0
        self._signal_at = 100.0 + signal_at

    def wait(self, seconds: float) -> None:
        self.now = min(self.now + seconds, self._signal_at)
        if self.now == self._signal_at:
            signal.raise_signal(signal.SIGTERM)


class Late:
    """A log that can be opened at the attempt after some that fail; each takes a second."""

    def __init__(self, clock: Clock, failures: int, transient: bool = True) -> None:
        self._clock = clock
        self._failures = failures
        self._transient = transient
        self.attempts = 0

    def __call__(self) -> str:
        self.attempts += 1
        if self.attempts > self._failures:
            return "a log"
        self._clock.now += 1
        error = LogUnavailableError(f"nobody answers ({self.attempts})")
        error.transient = self._transient
        raise error


def start(clock: Clock, seconds: float, said: list[str]) -> StartWait:
    return StartWait(seconds, said.append, monotonic=lambda: clock.now)


@pytest.mark.parametrize("failures", [1, 2, 20])
def test_a_log_that_comes_late_is_opened_and_the_wait_is_told_once(failures: int) -> None:
    clock, said = Clock(), list[str]()
    late = Late(clock, failures)
    assert awaited(late, start(clock, 60, said), clock) == "a log"
    assert late.attempts == failures + 1
    assert said == ["waiting up to 60 s for the log: nobody answers (1)"]


def test_a_log_that_is_there_is_opened_without_a_word() -> None:
    clock, said = Clock(), list[str]()
    assert awaited(Late(clock, 0), start(clock, 60, said), clock) == "a log"
    assert (clock.now, said) == (100.0, [])


def test_after_the_time_the_last_reason_is_raised() -> None:
    clock, said = Clock(), list[str]()
    late = Late(clock, 1_000)
    # Attempt and pause take two seconds together; the last attempt is made when the time is over.
    with pytest.raises(LogUnavailableError, match=r"^nobody answers \(6\)$"):
        awaited(late, start(clock, 10.5, said), clock)
    assert late.attempts == 6
    assert len(said) == 1


@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_what_waiting_does_not_help_is_raised_at_once(seconds: float) -> None:
    clock, said = Clock(), list[str]()
    late = Late(clock, 1, transient=not seconds)
    with pytest.raises(LogUnavailableError):
        awaited(late, start(clock, seconds, said), clock)
    assert (late.attempts, said) == (1, [])


def test_other_errors_of_the_log_are_not_waited_for() -> None:
    clock, said = Clock(), list[str]()
    for error in (LogBusyError("another process runs it"), LogError("damaged")):

        def fail(error: LogError = error) -> str:
            raise error

        with pytest.raises(type(error)):
            awaited(fail, start(clock, 60, said), clock)
    assert said == []


def test_a_signal_ends_the_wait_at_once() -> None:
    clock, said = Clock(signal_at=4.5), list[str]()
    late = Late(clock, 1_000)
    with clock, pytest.raises(StoppedError):
        awaited(late, start(clock, 60, said), clock)
    assert clock.stopped
    assert (clock.now, late.attempts) == (104.5, 3)
