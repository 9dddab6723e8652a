"""Whoever may not read a log's file may read none of those beside it either, and whoever may write it may write them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from stat import S_IMODE

import pytest

from engine.log import side_file
from engine.log.lock import RunLock
from engine.log.mark_file import MarkFile
from engine.log.port import Partition, ShardId
from engine.log.sqlite import SqliteLog

ENDINGS = [".lock", "-marks"]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    """A log, made under the umask that most systems have."""
    before = os.umask(0o022)
    path = tmp_path / "lahar.db"
    SqliteLog(path).close()
    yield path
    os.umask(before)


def used(log: Path) -> dict[str, int]:
    """Hold the lock and mark an input, as a run does; returns the mode of each file."""
    marks = MarkFile(log, 1, 1)
    with RunLock(log).hold():
        marks.write("1 pods/0@0")
    marks.close()
    return {ending: mode(log, ending) for ending in ENDINGS}


def mode(log: Path, ending: str) -> int:
    return S_IMODE(log.with_name(log.name + ending).stat().st_mode)


@pytest.mark.parametrize("meant", [0o600, 0o640, 0o644, 0o660])
def test_they_have_the_mode_of_the_log_whatever_the_umask(log: Path, meant: int) -> None:
    log.chmod(meant)
    assert used(log) == dict.fromkeys(ENDINGS, meant)


def test_those_that_are_there_follow_the_log(log: Path) -> None:
    assert used(log) == dict.fromkeys(ENDINGS, 0o644)
    log.chmod(0o600)
    assert used(log) == dict.fromkeys(ENDINGS, 0o600)


def test_a_lock_that_is_older_than_its_log_is_like_a_new_file(tmp_path: Path, log: Path) -> None:
    with RunLock(tmp_path / "new.db").hold():
        assert mode(tmp_path / "new.db", ".lock") == 0o644


def test_one_of_another_owner_is_used_as_it_is(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError

    used(log)
    log.chmod(0o600)
    monkeypatch.setattr(os, "fchmod", refused)
    assert used(log) == dict.fromkeys(ENDINGS, 0o644)


def test_where_root_makes_them_they_are_the_owners(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the owner of the log could not run it any more."""
    given: list[tuple[int, int]] = []
    real = os.fstat
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "fchown", lambda _, user, group: given.append((user, group)))
    monkeypatch.setattr(side_file.os, "fstat", lambda file: os.stat_result((*real(file)[:4], 4711, *real(file)[5:])))
    used(log)
    owner = log.stat()
    assert given == [(owner.st_uid, owner.st_gid)] * 2


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_link_in_their_place_is_not_followed(log: Path, ending: str) -> None:
    """In a folder that others may write to it could lead to any file of the user's."""
    other = log.with_name("other")
    log.with_name(log.name + ending).symlink_to(other)
    with pytest.raises(OSError, match="symbolic links"):
        side_file.open_beside(log.with_name(log.name + ending), log)
    assert not other.exists()


def test_a_closed_log_leaves_none_of_its_files_open(log: Path) -> None:
    """Also where whoever has a shard does not close it."""

    def still_open() -> list[str]:
        links = [entry for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()]
        return [name for name in map(str, (link.readlink() for link in links)) if name.startswith(str(log))]

    opened = SqliteLog(log)
    shard = opened.open(ShardId("lifecycle", 0), [Partition("pods", 0)])
    shard.mark("pods/0@0")
    if Path("/proc/self/fd").exists():
        assert f"{log}-marks" in still_open()
    opened.close()
    if Path("/proc/self/fd").exists():
        assert still_open() == []
