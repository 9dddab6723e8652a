"""Tries in a child process what processes have ended in: they may have been killed by somebody, for another reason."""

from __future__ import annotations

import os
import select
import signal
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NoReturn

__all__ = ["survives"]

_PATIENCE: Final = 5
"""How many times as long as its processor time a child may take: a lock that another thread held is nobody's there."""
_LIVED: Final = b"1"


def survives(attempt: Callable[[], object], seconds: float) -> bool:
    """Return whether a copy of this process does something and lives. What it changes is gone with it; what it raises is no end.

    Args:
        attempt: what to do, without input or output.
        seconds: of processor time that it may take.
    """
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that other threads are not there is what `_PATIENCE` is for
        child = os.fork()
    if child == 0:
        _try(attempt, seconds, writer)
    os.close(writer)
    try:
        told, _, _ = select.select([reader], [], [], _PATIENCE * seconds)
        return bool(told) and os.read(reader, 1) == _LIVED
    finally:
        os.close(reader)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _try(attempt: Callable[[], object], seconds: float, writer: int) -> NoReturn:
    try:
        # The log's files, locks and connections are the parent's.
        os.closerange(3, writer)
        os.closerange(writer + 1, os.sysconf("SC_OPEN_MAX"))
        signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        with suppress(Exception):
            attempt()
        os.write(writer, _LIVED)
    finally:
        os._exit(0)
