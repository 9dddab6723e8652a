"""A copy of the process tries something: its end is told from its life, and ends nothing else."""

from __future__ import annotations

import ctypes
import errno
import gc
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.processor.crash_probe import child_survives

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


def _open_files() -> int:
    """Return how many files are open, those apart that earlier tests left to the collector."""
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))


def crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


@pytest.mark.parametrize("attempt", [lambda: None, fail, lambda: CHANGED.append(1)], ids=["nothing", "error", "change"])
def test_what_a_process_survives(attempt: Callable[[], object]) -> None:
    assert child_survives(attempt, 5)
    assert CHANGED == []


@pytest.mark.parametrize("attempt", [lambda: os._exit(0), crash, leave, loop, wait], ids=["exit", "crash", "leave", "loop", "wait"])
def test_what_a_process_ends_in(attempt: Callable[[], object]) -> None:
    assert not child_survives(attempt, 0.2, least=0.4)


def test_a_process_with_more_than_a_thousand_open_files_can_try_too() -> None:
    """A worker of many shards has that many, and select() takes no descriptor above 1023."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= limits[1] < 1100:
        pytest.skip("this machine allows fewer than 1,100 open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], 1100), limits[1]))
    taken: list[int] = []
    try:
        while not taken or taken[-1] < 1024:
            taken.append(os.dup(0))
        assert child_survives(lambda: None, 5)
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_time_of_the_system_counts_too() -> None:
    """As for the watchdog: otherwise what ends each process would end no child."""

    def spend() -> None:
        while True:
            Path("/proc/self/stat").read_bytes()

    assert not child_survives(spend, 0.3)


@pytest.mark.parametrize("call", ["fork", "pipe"])
def test_where_the_system_makes_no_copy_nothing_is_known(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, call: str
) -> None:
    def refuse() -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    before = _open_files()
    monkeypatch.setattr(os, call, refuse)
    assert not child_survives(lambda: None, 5)
    assert _open_files() == before
    assert "Resource temporarily unavailable" in caplog.text


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fork, children = os.fork, []

    def forked() -> int:
        children.append(fork())
        return children[-1]

    monkeypatch.setattr(os, "fork", forked)
    before = _open_files()
    with (tmp_path / "file").open("w") as file:
        file.write("written once")
        assert child_survives(lambda: None, 5)
        assert not child_survives(loop, 0.1)
    assert (tmp_path / "file").read_text() == "written once"
    assert _open_files() == before
    assert len(children) == 2
    for child in children:
        with pytest.raises(ChildProcessError):
            os.waitpid(child, os.WNOHANG)
