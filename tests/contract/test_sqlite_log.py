"""The SQLite log passes the suite of all logs, and keeps what it was given when it is closed and opened again."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from log_contract import EVENTS, INPUTS, PODS, SHARD, LogContract, SearchableContract, message, output, read_all

from engine.log.errors import LogDamagedError
from engine.log.port import Commit, Position
from engine.log.sqlite import SqliteLog


class TestSqliteLog(LogContract, SearchableContract):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> None:
        self.path = tmp_path / "lahar.db"

    def make(self, partitions: int) -> SqliteLog:
        return SqliteLog(self.path, partitions)

    def test_what_is_committed_outlives_the_process(self) -> None:
        with_first = self.make(1)
        with_first.append("pods", [message("a", number) for number in range(3)])
        with_first.open(SHARD, INPUTS).commit(Commit((3, 0), 42, [output(1)], [("a", b"state")]))
        with_first.close()
        log = SqliteLog(self.path)
        shard = log.open(SHARD, INPUTS)
        assert shard.position == Position((3, 0), 42, 1)
        assert list(shard.snapshot()) == [("a", b"state")]
        assert (len(read_all(log, PODS)), len(read_all(log, EVENTS))) == (3, 1)
        log.close()

    def test_a_cursor_outlives_the_process_and_is_seen_by_others(self) -> None:
        mine, other = self.make(1), self.make(1)
        mine.move_cursor("bell", {EVENTS: 5})
        assert other.cursor("bell") == {EVENTS: 5}
        mine.close()
        other.close()
        log = SqliteLog(self.path, readonly=True)
        assert log.cursor("bell") == {EVENTS: 5}
        log.close()

    def test_a_cursor_that_was_tampered_with_is_damage(self) -> None:
        log = self.make(1)
        log.move_cursor("bell", {EVENTS: 5})
        with closing(sqlite3.connect(self.path)) as connection, connection:
            connection.execute('UPDATE cursors SET "offset" = 6')
        with pytest.raises(LogDamagedError, match="cursor of bell"):
            log.cursor("bell")
        log.close()

    def test_another_connection_fences_and_appends_beside(self) -> None:
        mine, other = self.make(1), self.make(1)
        shard = mine.open(SHARD, INPUTS)
        other.append("pods", [message("a")])
        mine.wait(0)
        other.append("pods", [message("b")])
        mine.wait(60)
        assert len(read_all(mine, PODS)) == 2
        shard.commit(Commit((2, 0), 1, [output(1)]))
        assert len(read_all(other, EVENTS)) == 1
        mine.close()
        other.close()
