"""What a SQLite log has said is written outlives a loss of power at any moment after it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from log_contract import EVENTS, INPUTS, PODS, SHARD, message, output, read_all
from power_loss import disk, reachable

from engine.log.errors import LogError
from engine.log.port import Commit
from engine.log.sqlite import SqliteLog

pytestmark = pytest.mark.skipif(not reachable(), reason="this Python hides SQLite's file layer")

ROUNDS = 12


def found_after(images: dict[str, bytes], folder: Path) -> tuple[int, int, int, dict[Any, int], list[tuple[str, bytes]]]:
    """Open what the disk kept; return numbers of inputs and outputs, the shard's position, a cursor and the snapshot."""
    folder.mkdir()
    for name, content in images.items():
        if not name.endswith("-shm"):  # an index of the write-ahead log, made anew
            (folder / name).write_bytes(content)
    log = SqliteLog(folder / "lahar.db")
    shard = log.open(SHARD, INPUTS)
    found = (
        len(read_all(log, PODS)),
        len(read_all(log, EVENTS)),
        shard.position.shardsequence,
        log.cursor("bell"),
        [*shard.snapshot()],
    )
    log.close()
    return found


def lost(tmp_path: Path, synchronous: str | None) -> list[str]:
    """Let power fail after each thing that the log has said is written; return what is not there then."""
    path = tmp_path / "lahar.db"
    SqliteLog(path).close()
    dice, failures = random.Random(4), []  # noqa: S311  repeatable, not secret
    told: list[tuple[tuple[int, int, int, dict[Any, int], list[tuple[str, bytes]]], dict[str, bytes]]] = []
    with disk() as watched:
        log = SqliteLog(path)
        if synchronous is not None:
            assert log._file._writer is not None
            log._file._writer.execute(f"PRAGMA synchronous = {synchronous}")
        shard = log.open(SHARD, INPUTS)
        for number in range(ROUNDS):
            before = watched.syncs
            log.append("pods", [message("a", number, data=b"x" * 3_000)])
            cursor = {EVENTS: number} if number else {}
            snapshot = [("a", b"%d" % number)] if number else []
            told.append(((number + 1, number, number, cursor, snapshot), watched.lose_power(dice)))
            shard.commit(Commit((number + 1, 0), number, [output(number)], [("a", b"%d" % (number + 1))]))
            told.append(((number + 1, number + 1, number + 1, cursor, [("a", b"%d" % (number + 1))]), watched.lose_power(dice)))
            log.move_cursor("bell", {EVENTS: number + 1})
            told.append(((number + 1,) * 3 + ({EVENTS: number + 1}, [("a", b"%d" % (number + 1))]), watched.lose_power(dice)))
            if watched.syncs < before + 3:
                failures.append(f"round {number}: {watched.syncs - before} of 3 transactions were synchronised")
            if number == ROUNDS // 2:
                log.compact()
        log.close()
    for place, (expected, images) in enumerate(told):
        try:
            found: object = found_after(images, tmp_path / f"after-{place}")
        except LogError as error:
            found = error
        if found != expected:
            failures.append(f"after {place}: {found}, told {expected}")
    return failures


def test_nothing_that_was_written_is_lost(tmp_path: Path) -> None:
    assert lost(tmp_path, None) == []


@pytest.mark.parametrize("synchronous", ["OFF", "NORMAL"])
def test_a_log_that_does_not_wait_for_the_disk_is_found_out(tmp_path: Path, synchronous: str) -> None:
    assert lost(tmp_path, synchronous)
