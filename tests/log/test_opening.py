"""Opening a log by URL, and the lock that says who runs it."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.log.errors import LogBusyError, LogUnavailableError
from engine.log.lock import RunLock
from engine.log.memory import MemoryLog
from engine.log.partitioner import murmur2
from engine.log.sqlite import SqliteLog
from engine.log.url import open_log


def test_a_path_opens_a_file(tmp_path: Path) -> None:
    log = open_log(f"sqlite:{tmp_path}/a b?c#d%.db", 3)
    assert isinstance(log, SqliteLog)
    assert (log.path, log.partitions("pods")) == (tmp_path / "a b?c#d%.db", 3)
    log.close()
    again = open_log(f"sqlite:{tmp_path}/a b?c#d%.db", create=False)
    assert again.partitions("pods") == 3
    again.close()


@pytest.mark.parametrize("partitions", [0, -1])
def test_a_log_without_partitions_is_none(tmp_path: Path, partitions: int) -> None:
    for url in ("memory:", f"sqlite:{tmp_path}/lahar.db"):
        with pytest.raises(ValueError, match="1 or more partitions"):
            open_log(url, partitions)
    assert not (tmp_path / "lahar.db").exists()


def test_memory_opens_nothing() -> None:
    assert isinstance(open_log("memory:"), MemoryLog)


def test_kafka_is_not_for_the_embedded_engine() -> None:
    with pytest.raises(LogUnavailableError, match="opened by the command alone"):
        open_log("kafka://localhost:9092")


@pytest.mark.parametrize("url", ["", "lahar.db", "sqlite:", "memory:x", "postgres://h/d", "sqlite"])
def test_anything_else_is_an_error_that_names_the_forms(url: str) -> None:
    with pytest.raises(ValueError, match="write sqlite:PATH"):
        open_log(url)


def test_the_lock_is_held_by_one(tmp_path: Path) -> None:
    mine, other = RunLock(tmp_path / "lahar.db"), RunLock(tmp_path / "lahar.db")
    assert not other.is_held()
    with mine.hold():
        assert other.is_held()
        with pytest.raises(LogBusyError, match=f"held by process {os.getpid()}"), other.hold():
            pass
        assert other.is_held()
    assert not other.is_held()
    with other.hold():
        assert mine.is_held()


def test_a_holder_that_has_not_said_who_it_is_is_unknown(tmp_path: Path) -> None:
    lock = RunLock(tmp_path / "lahar.db")
    with lock.path.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(LogBusyError, match="held by process unknown"), lock.hold():
            pass


def test_a_log_has_one_lock_by_whatever_name_it_is_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "lahar.db").touch()
    (tmp_path / "link.db").symlink_to(tmp_path / "data" / "lahar.db")
    monkeypatch.chdir(tmp_path / "data")
    with RunLock("lahar.db").hold():
        assert RunLock(tmp_path / "link.db").is_held()
        assert RunLock(tmp_path / "data" / ".." / "data" / "lahar.db").is_held()


def test_the_lock_of_a_dead_process_is_free(tmp_path: Path) -> None:
    script = f"""
import sys
from engine.log.lock import RunLock
with RunLock({str(tmp_path / "lahar.db")!r}).hold():
    print("held", flush=True)
    sys.stdin.read()
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    lock = RunLock(tmp_path / "lahar.db")
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert lock.is_held()
        with pytest.raises(LogBusyError, match=str(holder.pid)), lock.hold():
            pass
        holder.kill()
        holder.wait()
        assert not lock.is_held()
        with lock.hold():
            pass


def test_a_lock_that_cannot_be_made(tmp_path: Path) -> None:
    with pytest.raises(LogUnavailableError, match="cannot be made"), RunLock(tmp_path / "missing" / "lahar.db").hold():
        pass


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("21", -973932308),
        ("foobar", -790332482),
        ("a-little-bit-long-string", -985981536),
        ("a-little-bit-longer-string", -1486304829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        ("abc", 479470107),
    ],
)
def test_keys_are_hashed_as_kafka_hashes_them(key: str, expected: int) -> None:
    """The values of Kafka's own test of murmur2."""
    assert murmur2(key.encode()) == expected & 0xFFFFFFFF
