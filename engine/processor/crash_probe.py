"""Trial of a decision in a child process, after processes ended during it that may have been killed from outside."""

from __future__ import annotations

import logging
import os
import select
import signal
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NoReturn

_PATIENCE: Final = 2.0
"""Time limit of a child as a multiple of its processor time: it may block forever on a lock copied from another thread."""
_LEAST: Final = 10.0
"""Minimum wall time of a child on a busy machine (seconds)."""
_LIVED: Final = b"1"
_logger: Final = logging.getLogger(__name__)


def child_survives(attempt: Callable[[], object], seconds: float, *, least: float = _LEAST) -> bool:
    """Run a function in a forked child process; return true if the child survives.

    The child's changes are lost; an exception counts as survival. Returns false if the system cannot fork.

    Args:
        attempt: function without input and output.
        seconds: limit of processor time.
        least: minimum time limit (seconds), for a busy machine.
    """
    patience = max(least, _PATIENCE * seconds)
    try:
        reader, writer = os.pipe()
    except OSError as error:
        return _untried(error)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # about copied locks: the time limit ends a wait for one
            child = os.fork()
    except OSError as error:
        os.close(reader)
        os.close(writer)
        return _untried(error)
    if child == 0:
        _try(attempt, seconds, patience, writer)
    os.close(writer)
    try:
        poller = select.poll()  # select refuses descriptors above 1023, which a worker of many shards has
        poller.register(reader, select.POLLIN)
        return bool(poller.poll(patience * 1000)) and os.read(reader, 1) == _LIVED
    finally:
        os.close(reader)
        with suppress(OSError):  # another thread has reaped the child
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _untried(error: OSError) -> bool:
    _logger.warning("a child process cannot be started to try a decision during which others ended: %s", error.strerror)
    return False


def _try(attempt: Callable[[], object], seconds: float, patience: float, writer: int) -> NoReturn:
    try:
        # The log's files, locks and connections belong to the parent.
        os.closerange(3, writer)
        os.closerange(writer + 1, os.sysconf("SC_OPEN_MAX"))
        # System time counts too, as for the watchdog; and the child soon ends after its parent.
        for alarm, timer, limit in (
            (signal.SIGPROF, signal.ITIMER_PROF, seconds),
            (signal.SIGALRM, signal.ITIMER_REAL, patience),
        ):
            signal.signal(alarm, signal.SIG_DFL)
            signal.setitimer(timer, limit)
        with suppress(Exception):
            attempt()
        os.write(writer, _LIVED)
    finally:
        os._exit(0)
