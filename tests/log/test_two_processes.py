"""A log that several processes have open at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from counting_stage import custom

from engine.log.port import Partition
from engine.log.sqlite import SqliteLog

PODS = Partition("pods", 0)

READ = """\
import sys
from engine.log.port import Partition
from engine.log.sqlite import SqliteLog
log = SqliteLog(sys.argv[1], readonly=sys.argv[2] == "read")
print(log.end(Partition("pods", 0)))
log.close()
"""


def end_seen_by_another(path: Path, how: str) -> int:
    done = subprocess.run([sys.executable, "-c", READ, str(path), how], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.parametrize("how", ["read", "write"])
def test_a_process_that_comes_and_goes_takes_nothing_from_one_that_stays(tmp_path: Path, how: str) -> None:
    """Its last connection gone, the other one must not fold and delete the write-ahead log that is still in use here."""
    path = tmp_path / "lahar.db"
    log = SqliteLog(path)
    log.append("pods", [custom("a", 1, "add", at=1)])
    before = path.with_name("lahar.db-wal").stat().st_ino
    assert end_seen_by_another(path, how) == 1
    assert path.with_name("lahar.db-wal").stat().st_ino == before
    log.append("pods", [custom("a", 2, "add", at=2)])
    assert end_seen_by_another(path, how) == 2
    log.close()
    assert end_seen_by_another(path, how) == 2


def test_looking_at_a_log_does_not_unlock_those_that_are_open(tmp_path: Path) -> None:
    """Neither does opening it once more in the same process, nor failing to."""
    path = tmp_path / "lahar.db"
    log = SqliteLog(path)
    for _ in range(2):
        SqliteLog(path, readonly=True).close()
        log.append("pods", [custom("a", 1, "add", at=1)])
        end = log.end(PODS)
        assert end_seen_by_another(path, "write") == end
    log.close()
