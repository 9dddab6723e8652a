"""What befalls files: full disks, torn ends, foreign and newer files, flipped bits. Each is named, nothing committed is lost."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from counting_stage import CountingStage, custom, inputs

from engine.log.errors import LayoutError, LogBusyError, LogDamagedError, LogUnavailableError, NotALogError
from engine.log.port import Commit, Output, Partition, Record, ShardId
from engine.log.rows import checksum
from engine.log.sqlite import SqliteLog
from engine.processor.processor import Processor

PODS = Partition("pods", 0)
EVENTS = Partition("job-events", 0)
SHARD = ShardId("counting", 0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lahar.db"


@pytest.fixture
def filled(path: Path) -> Path:
    """A closed log with 200 inputs, their outputs and a snapshot."""
    log = SqliteLog(path)
    for number in range(200):
        log.append("pods", [custom(f"key{number}", 1, "add", at=number, padding="x" * 200)])
    processor = Processor(log, CountingStage())
    processor.open()
    processor.run_until_quiet()
    log.close()
    return path


def read_everything(path: Path) -> list[Record]:
    log = SqliteLog(path)
    try:
        return [*log.read(PODS, 0, 10_000), *log.read(EVENTS, 0, 10_000)]
    finally:
        log.close()


class TestForeignFiles:
    def test_a_text_file(self, path: Path) -> None:
        path.write_text("apiVersion: batch/v1\n" * 100)
        with pytest.raises(NotALogError, match=r"lahar\.db is no Lahar log; name another file"):
            SqliteLog(path)
        assert path.read_text().startswith("apiVersion")

    def test_a_database_of_somebody_else(self, path: Path) -> None:
        with sqlite3.connect(path) as other:
            other.execute("CREATE TABLE t (a)")
        other.close()
        with pytest.raises(NotALogError, match="SQLite database but no Lahar log"):
            SqliteLog(path)

    def test_a_log_of_a_newer_release(self, filled: Path) -> None:
        with sqlite3.connect(filled) as other:
            other.execute("PRAGMA user_version = 99")
        other.close()
        with pytest.raises(NotALogError, match=r"newer Lahar \(format 99, this one reads 1\); install"):
            SqliteLog(filled)

    def test_an_empty_file(self, path: Path) -> None:
        """A new log is never empty, so this one was truncated; starting over silently would hide that."""
        path.touch()
        with pytest.raises(LogDamagedError, match=r"empty.*Restore a backup"):
            SqliteLog(path)

    def test_a_folder(self, tmp_path: Path) -> None:
        with pytest.raises(LogUnavailableError, match="directory"):
            SqliteLog(tmp_path)

    def test_a_folder_that_does_not_exist(self, tmp_path: Path) -> None:
        with pytest.raises(LogUnavailableError, match="check that the folder exists"):
            SqliteLog(tmp_path / "missing" / "lahar.db")

    def test_a_missing_log_that_is_not_to_be_made(self, path: Path) -> None:
        for options in ({"create": False}, {"readonly": True}):
            with pytest.raises(LogUnavailableError, match="does not exist"):
                SqliteLog(path, **options)
        assert list(path.parent.iterdir()) == []

    def test_another_number_of_partitions(self, filled: Path) -> None:
        with pytest.raises(LayoutError, match="has 1 partitions a topic, not 4"):
            SqliteLog(filled, 4)


class TestTornFiles:
    @pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 0.9])
    def test_a_truncated_file(self, filled: Path, share: float) -> None:
        os.truncate(filled, int(filled.stat().st_size * share))
        with pytest.raises(LogDamagedError, match="Restore a backup"):
            read_everything(filled)

    def test_a_torn_write_ahead_log_loses_nothing_committed(self, path: Path, tmp_path: Path) -> None:
        """A crash of the machine in the midst of a commit leaves any prefix of it, or garbage, behind the commits before."""
        log = SqliteLog(path)
        for number in range(20):
            log.append("pods", [custom("a", number, "add", at=number)])
        wal = path.with_name("lahar.db-wal")
        committed = wal.stat().st_size
        log.append("pods", [custom("a", number, "add", at=number) for number in range(20, 60)])
        whole = wal.read_bytes()
        last = whole[committed:]
        assert last
        for place, end in enumerate(
            (b"", last[:1], last[:100], last[: len(last) // 2], last[:-1], bytes(range(256)) * 20, b"\0" * 9_000)
        ):
            copy = tmp_path / f"copy{place}.db"
            shutil.copy(path, copy)
            copy.with_name(f"{copy.name}-wal").write_bytes(whole[:committed] + end)
            torn = SqliteLog(copy)
            assert [record.message.id for record in torn.read(PODS, 0, 100)] == [f"a-{number}" for number in range(20)]
            torn.append("pods", [custom("a", 99, "add", at=99)])
            assert torn.end(PODS) == 21
            torn.close()
        log.close()

    @pytest.mark.parametrize("page", range(1, 12))
    def test_an_overwritten_page_is_never_taken_for_data(self, filled: Path, page: int) -> None:
        """Whatever page is lost: the error is named, or the page held nothing that is read here."""
        before = read_everything(filled)
        with filled.open("r+b") as file:
            file.seek(page * 4096)
            file.write(bytes(range(255, -1, -1)) * 16)
        try:
            after = read_everything(filled)
        except LogDamagedError as error:
            assert "Restore a backup" in str(error)  # noqa: PT017  either outcome is right
        else:
            assert after == before


class TestFlippedBytes:
    def test_a_flipped_byte_in_a_row(self, filled: Path) -> None:
        content = bytearray(filled.read_bytes())
        place = content.index(b"padding")
        content[place + 40] ^= 1
        filled.write_bytes(content)
        log = SqliteLog(filled)
        with pytest.raises(LogDamagedError, match=r"pods/0 at \d+ does not match its checksum\. Restore a backup"):
            log.read(PODS, 0, 1_000)
        log.close()

    @pytest.mark.parametrize(
        "change",
        [
            "data = x'00'",
            "data = CAST(data AS TEXT)",
            "key = key || 'x'",
            "type = CAST(x'ff' AS TEXT)",
            "time = time + 1",
            "shardsequence = 7",
            "basis = '9,9,9'",
            "basis = NULL",
            "shard = NULL",
            "subject = 'other'",
            "position = position + 1",
            "crc = crc + 1",
        ],
    )
    def test_every_column_is_covered(self, filled: Path, change: str) -> None:
        with sqlite3.connect(filled) as other:
            other.execute(f'UPDATE "job-events/0" SET {change} WHERE "offset" = 5')  # noqa: S608  from the list above
        other.close()
        log = SqliteLog(filled)
        for read in (lambda: log.read(EVENTS, 0, 1_000), lambda: list(log.scan(["job-events"]))):
            with pytest.raises(LogDamagedError, match="lahar log backup"):
                read()
        log.close()

    def test_a_changed_position_of_a_shard(self, filled: Path) -> None:
        with sqlite3.connect(filled) as other:
            other.execute("UPDATE shards SET vector = '0,0,0'")
        other.close()
        log = SqliteLog(filled)
        with pytest.raises(LogDamagedError, match="shard counting/0"):
            reopen(log)
        log.close()

    def test_a_changed_snapshot(self, filled: Path) -> None:
        with sqlite3.connect(filled) as other:
            other.execute("UPDATE subjects SET state = x'00000001' || state WHERE subject = 'key7'")
        other.close()
        log = SqliteLog(filled)
        with pytest.raises(LogDamagedError, match="snapshot of key7"):
            reopen(log)
        log.close()

    def test_the_checksum_is_the_same_in_every_release(self) -> None:
        """Files are read by other releases of Python than wrote them."""
        row = (7, 1_000_000, None, None, "1,2", "schlüssel", "", -1, 2**62, b"\x00\xff", "a" * 300)
        assert checksum(row) == PINNED


PINNED = 4_141_860_537


def reopen(log: SqliteLog) -> None:
    Processor(log, CountingStage()).open()


class TestFullDisk:
    SCRIPT = """
import resource, sys
from counting_stage import CountingStage, custom
from engine.log.errors import LogUnavailableError
from engine.log.port import Partition
from engine.processor.processor import Processor
from engine.log.sqlite import SqliteLog

log = SqliteLog(sys.argv[1])
processor = Processor(log, CountingStage())
processor.open()
resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, resource.RLIM_INFINITY))
taken = appended = 0
try:
    for number in range(10_000):
        log.append("pods", [custom(f"key{number % 50}", number, "add", at=number, padding="x" * 400)])
        appended += 1
        taken += processor.step()
except LogUnavailableError as error:
    print(error)
    # Room again: the same process goes on.
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    processor.open()
    print(appended, log.end(Partition("pods", 0)), sum(processor.position.vector), processor.accounts.balanced)
    log.append("pods", [custom("after", 1, "add", at=99_999)])
    processor.run_until_quiet()
    print(sum(processor.position.vector), processor.state.counters["after"].total)
"""

    def test_a_full_disk_is_said_and_nothing_committed_is_lost(self, path: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
        ran = subprocess.run(
            [sys.executable, "-c", self.SCRIPT, str(path)], capture_output=True, text=True, env=environment, timeout=120, check=True
        )
        said, counts, after = ran.stdout.splitlines()
        assert "lahar.db" in said
        assert "start again" in said
        appended, end, taken, balanced = counts.split()
        assert int(appended) == int(end) > 50
        assert int(end) - int(taken) in (0, 1)
        assert balanced == "True"
        assert after == f"{int(end) + 1} 1"
        log = SqliteLog(path)
        assert [record.offset for record in log.read(PODS, 0, 100_000)] == list(range(int(end) + 1))
        log.close()


class TestSharing:
    def test_a_log_opened_for_reading_cannot_be_written(self, filled: Path) -> None:
        log = SqliteLog(filled, readonly=True)
        assert len(log.read(PODS, 0, 1_000)) == 200
        with pytest.raises(LogUnavailableError, match="reading only"):
            log.append("pods", [custom("a", 1, "add", at=1)])
        log.close()

    def test_who_waits_too_long_for_a_writer_is_told(self, filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("engine.log.schema.BUSY_SECONDS", 0.01)
        log, holder = SqliteLog(filled), sqlite3.connect(filled, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        with pytest.raises(LogBusyError, match="another process"):
            log.append("pods", [custom("a", 1, "add", at=1)])
        assert time.monotonic() - began < 4, "SQLite's own patience is 5 s"
        holder.execute("ROLLBACK")
        log.append("pods", [custom("a", 1, "add", at=1)])
        holder.close()
        log.close()

    @pytest.mark.parametrize("bad", [{"sequence": 2**63}, {"subject": "\ud800"}])
    def test_a_message_that_cannot_be_stored_is_refused_whole(self, filled: Path, bad: dict[str, object]) -> None:
        log = SqliteLog(filled)
        good = custom("a", 1, "add", at=1)
        with pytest.raises(ValueError, match="cannot be stored"):
            log.append("pods", [good, good._replace(**bad)])
        assert log.end(PODS) == 200
        log.close()

    def test_a_commit_whose_fate_is_unknown_is_not_repeated(self, path: Path) -> None:
        """Two holders with one epoch stand for a commit that was written though it failed."""
        log = SqliteLog(path)
        shard = log.open(SHARD, [PODS])
        before = shard.position
        shard.commit(Commit((1,), 1, [Output("job-events", custom("a", 1, "add", at=1), (1,))]))
        shard._position = before
        with pytest.raises(LogUnavailableError, match="open the shard again"):
            shard.commit(Commit((1,), 1, [Output("job-events", custom("a", 1, "add", at=1), (1,))]))
        assert log.end(EVENTS) == 1
        assert log.open(SHARD, [PODS]).position.vector == (1,)
        log.close()


class TestCopies:
    def test_a_backup_holds_everything_and_lives_on_its_own(self, filled: Path, tmp_path: Path) -> None:
        log = SqliteLog(filled)
        log.append("pods", [custom("late", 1, "add", at=999)])
        log.backup(tmp_path / "copy.db")
        log.append("pods", [custom("later", 1, "add", at=999)])
        copy = SqliteLog(tmp_path / "copy.db")
        assert copy.read(PODS, 0, 1_000) == log.read(PODS, 0, 201)
        processor = Processor(copy, CountingStage())
        processor.open()
        assert processor.run_until_quiet() == 1
        assert sorted(name.name for name in tmp_path.iterdir() if "new" in name.name) == []
        copy.close()
        log.close()

    @pytest.mark.parametrize(("mode", "umask", "meant"), [(0o600, 0o022, 0o600), (0o640, 0o022, 0o640), (0o644, 0o077, 0o600)])
    def test_a_backup_is_read_by_nobody_who_may_not_read_the_log(
        self, filled: Path, tmp_path: Path, mode: int, umask: int, meant: int
    ) -> None:
        filled.chmod(mode)
        before = os.umask(umask)
        try:
            log = SqliteLog(filled, readonly=True)
            (tmp_path / f"copy.db.new-{os.getpid()}").touch()
            log.backup(tmp_path / "copy.db")
            log.close()
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == meant

    @pytest.mark.parametrize("mode", [0o400, 0o444])
    def test_a_log_that_may_only_be_read_is_copied(
        self, filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
    ) -> None:
        """Also for whoever is not root, who may write everything."""
        connect, drafts = sqlite3.connect, []

        def looking(path: Any, **how: Any) -> sqlite3.Connection:
            if ".new-" in str(path):
                drafts.append(stat.S_IMODE(Path(path).stat().st_mode))
            return connect(path, **how)

        log = SqliteLog(filled, readonly=True)
        filled.chmod(mode)
        monkeypatch.setattr(sqlite3, "connect", looking)
        log.backup(tmp_path / "copy.db")
        log.close()
        assert [draft & 0o600 for draft in drafts] == [0o600]
        assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == mode

    def test_a_backup_never_overwrites(self, filled: Path, tmp_path: Path) -> None:
        (tmp_path / "copy.db").write_text("precious")
        log = SqliteLog(filled)
        with pytest.raises(LogUnavailableError, match="exists; name a new file"):
            log.backup(tmp_path / "copy.db")
        with pytest.raises(LogUnavailableError):
            log.backup(tmp_path / "missing" / "copy.db")
        log.close()
        assert (tmp_path / "copy.db").read_text() == "precious"

    def test_compacting_gives_space_back_and_changes_nothing(self, filled: Path) -> None:
        log = SqliteLog(filled)
        processor = Processor(log, CountingStage())
        processor.open()
        log.append("pods", [custom(f"key{number}", 2, "many", at=500, times=9) for number in range(200)])
        processor.run_until_quiet()
        log.append("pods", [custom(f"key{number}", 3, "forget", at=999) for number in range(200)])
        processor.run_until_quiet()
        log.close()
        before, size = read_everything(filled), filled.stat().st_size
        log = SqliteLog(filled)
        log.compact()
        assert filled.stat().st_size < size
        assert filled.with_name("lahar.db-wal").stat().st_size == 0
        log.append("pods", [custom("a", 1, "add", at=1_000)])
        log.close()
        assert [record for record in read_everything(filled) if record.message.key != "a"] == before


def test_a_log_that_lost_its_snapshot_is_whole(path: Path) -> None:
    """Snapshots are never needed."""
    log = SqliteLog(path)
    for topic, message in inputs(500):
        log.append(topic, [message])
    processor = Processor(log, CountingStage())
    processor.open()
    processor.run_until_quiet()
    with sqlite3.connect(path) as other:
        other.execute("DELETE FROM subjects")
    other.close()
    again = Processor(log, CountingStage())
    again.open()
    assert again.state.counters == processor.state.counters
    log.close()
