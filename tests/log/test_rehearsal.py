"""A copy of the process tries something: its end is told from its life, and ends nothing else."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.log.rehearsal import survives

CHANGED: list[int] = []


def fail() -> None:
    raise ValueError


def leave() -> None:
    raise SystemExit


def loop() -> None:
    while True:
        pass


def wait() -> None:
    """Hold the interpreter and take no processor time, as a lock does that nobody gives back."""
    ctypes.PyDLL(None).pause()


def crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


@pytest.mark.parametrize("attempt", [lambda: None, fail, lambda: CHANGED.append(1)], ids=["nothing", "error", "change"])
def test_what_a_process_survives(attempt: Callable[[], object]) -> None:
    assert survives(attempt, 5)
    assert CHANGED == []


@pytest.mark.parametrize("attempt", [lambda: os._exit(0), crash, leave, loop, wait], ids=["exit", "crash", "leave", "loop", "wait"])
def test_what_a_process_ends_in(attempt: Callable[[], object]) -> None:
    assert not survives(attempt, 0.2)


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with (tmp_path / "file").open("w") as file:
        file.write("written once")
        assert survives(lambda: None, 5)
        assert not survives(loop, 0.1)
    assert (tmp_path / "file").read_text() == "written once"
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
