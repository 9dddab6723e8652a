"""A process that waits hears at once that it is to stop."""

from __future__ import annotations

import signal

import pytest

from engine.signals import Signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_waiting_at_once(number: int) -> None:
    with Signals() as signals:
        signal.raise_signal(number)
        signals.wait(3600)
        assert (signals.stopped, signals.interrupted) == (True, number == signal.SIGINT)
