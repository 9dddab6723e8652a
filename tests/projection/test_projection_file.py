"""Where the projection lies, who may read it, and that it is made anew whenever it is not this log's."""

from __future__ import annotations

import os
import sqlite3
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from stat import S_IMODE

import pytest
from answers import folded, projected, write

from engine.events import Data, Event
from engine.events.attempts import AttemptBound, AttemptChanged, AttemptRunning, AttemptStarted
from engine.events.jobs import JobForgotten, JobOpened
from engine.log.errors import LogDamagedError, LogUnavailableError
from engine.log.memory import MemoryLog
from engine.log.sqlite import SqliteLog
from engine.projection import projection as module
from engine.projection.file import place_of
from engine.projection.follower import Follower
from engine.projection.job_tables import JobTables
from engine.projection.projection import Projection
from statemachines.spec import JobSpec


def opened(*numbers: int, name: str = "train") -> list[Event[Data]]:
    """Events that open jobs, one a number."""
    jobs = {f"job{n}": (n, JobOpened("Job", f"{name}-{n}", False, JobSpec())) for n in numbers}
    return [Event(f"{name}{n}", "t", data.TYPE, job, n, n, 1, job, "", "c", data) for job, (n, data) in jobs.items()]


def names(projection: Projection, log: MemoryLog | SqliteLog) -> list[str]:
    return projection.ask(log, JobTables, lambda jobs: [line.name for line in jobs.lines()])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lahar.db-projection"


@pytest.fixture
def log(tmp_path: Path) -> SqliteLog:
    made = SqliteLog(tmp_path / "lahar.db")
    write(made, opened(1, 2))
    return made


# --- where --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644])
def test_it_may_be_read_by_whoever_may_read_the_log(log: SqliteLog, path: Path, mode: int) -> None:
    log.path.chmod(mode)
    with Projection(path) as projection:
        assert names(projection, log) == ["train-1", "train-2"]
        kept = [path, *(path.with_name(path.name + ending) for ending in ("-wal", "-shm"))]
        assert [S_IMODE(one.stat().st_mode) for one in kept] == [mode] * 3


def test_it_lies_beside_the_file_itself_where_the_log_is_a_link(tmp_path: Path, log: SqliteLog) -> None:
    link = tmp_path / "elsewhere" / "link.db"
    link.parent.mkdir()
    link.symlink_to(log.path)
    assert place_of(f"sqlite:{link}", {}) == log.path.with_name("lahar.db-projection")


@pytest.mark.parametrize("environment", [{"XDG_CACHE_HOME": "/c"}, {"HOME": "/home/ann"}])
def test_that_of_a_log_on_kafka_lies_in_the_cache_of_its_user(environment: dict[str, str]) -> None:
    places = [
        place_of("kafka://one:9092", environment),
        place_of("kafka://two:9092", environment),
        place_of("kafka://", {**environment, "KAFKA_BOOTSTRAP_SERVERS": "one:9092"}),
        place_of("kafka://one:9092", {**environment, "KAFKA_TOPIC_PREFIX": "a-"}),
        place_of("kafka://one:9092", {**environment, "KAFKA_SASL_PASSWORD": "secret"}),
    ]
    assert all(place is not None and place.parent.name == "lahar" for place in places)
    assert len(set(places)) == 3
    assert places[0] == places[2] == places[4]


def test_in_memory_nothing_is_left(tmp_path: Path) -> None:
    assert place_of("memory:", {"HOME": str(tmp_path)}) is place_of("kafka://one:9092", {}) is None
    log = MemoryLog()
    write(log, opened(1))
    with Projection() as projection:
        assert names(projection, log) == ["train-1"]
    assert list(tmp_path.iterdir()) == []


def test_in_a_cache_it_is_private(tmp_path: Path, log: SqliteLog) -> None:
    place = place_of("kafka://one:9092", {"XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert place is not None
    with Projection(place) as projection:
        assert names(projection, log) == ["train-1", "train-2"]
    assert (S_IMODE(place.stat().st_mode), S_IMODE(place.parent.stat().st_mode)) == (0o600, 0o700)


def test_where_no_file_can_be_made_the_answer_is_the_same(tmp_path: Path, log: SqliteLog) -> None:
    with Projection(tmp_path / "nothing" / "lahar.db-projection") as projection:
        assert not projection.is_kept
        assert projected(projection, log) == folded(log)


@pytest.mark.parametrize("ending", ["", "-wal", "-shm"])
@pytest.mark.parametrize("there", [True, False])
def test_a_link_is_not_followed(tmp_path: Path, path: Path, log: SqliteLog, ending: str, *, there: bool) -> None:
    """Else whoever may write the folder could have the owner of the log write anywhere."""
    victim = tmp_path / "victim"
    if there:
        victim.write_bytes(b"what somebody needs")
    path.with_name(path.name + ending).symlink_to(victim)
    with Projection(path) as projection:
        assert not projection.is_kept
        assert names(projection, log) == ["train-1", "train-2"]
    assert (victim.read_bytes() == b"what somebody needs") if there else not victim.exists()


@pytest.mark.parametrize("link", ["symlink_to", "hardlink_to"])
def test_a_database_that_a_link_names_stays_as_it_is(path: Path, log: SqliteLog, link: str) -> None:
    """What is no projection is emptied: that of another log, of anything, or the log itself."""
    getattr(path, link)(log.path)
    for _ in range(2):
        with Projection(path) as projection:
            assert names(projection, log) == ["train-1", "train-2"]
            assert not projection.is_kept


@pytest.mark.parametrize(
    ("mode", "group", "kept"), [(0o644, 77, False), (0o664, 77, False), (0o664, None, True), (0o666, 77, True)]
)
def test_only_those_who_may_write_the_log_are_believed(
    path: Path, log: SqliteLog, monkeypatch: pytest.MonkeyPatch, mode: int, group: int | None, *, kept: bool
) -> None:
    with Projection(path) as projection:
        names(projection, log)
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE jobs SET name = 'forged'")
    log.path.chmod(mode)
    real = Path.lstat

    def of_somebody_else(self: Path) -> os.stat_result:
        found = list(real(self))
        found[4:6] = 12_345, found[5] if group is None else group
        return os.stat_result(found)

    monkeypatch.setattr(Path, "lstat", of_somebody_else)
    with Projection(path) as projection:
        assert projection.is_kept == kept
        assert names(projection, log) == (["forged"] * 2 if kept else ["train-1", "train-2"])


# --- made anew ----------------------------------------------------------------------------------------------------------------


def spoilt(path: Path, log: SqliteLog, statement: str) -> None:
    """Make the projection of a log, and alter it."""
    with Projection(path) as projection:
        names(projection, log)
    with sqlite3.connect(path) as connection:
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE form SET digest = 'older'",
        "DROP TABLE form",
        "DROP TABLE jobs",
        "DROP TABLE places",
        "UPDATE places SET next = next + 5",
        "UPDATE places SET mark = 'another'",
        "UPDATE places SET number = 7",
    ],
)
def test_what_is_of_another_release_or_log_is_made_anew(path: Path, log: SqliteLog, statement: str) -> None:
    spoilt(path, log, statement)
    write(log, opened(3))
    with Projection(path) as projection:
        assert projected(projection, log) == folded(log)
        assert projection.is_kept


@pytest.mark.parametrize("content", [b"", b"no database at all" * 500])
def test_a_file_that_is_something_else_is_replaced(path: Path, log: SqliteLog, content: bytes) -> None:
    path.write_bytes(content)
    with Projection(path) as projection:
        assert projected(projection, log) == folded(log)
        assert projection.is_kept


def test_a_torn_file_is_replaced(path: Path, log: SqliteLog) -> None:
    write(log, opened(*range(10, 200)))
    with Projection(path) as projection:
        names(projection, log)
    whole, expected = path.read_bytes(), folded(log)
    for place in (0, 100, 5000, 13000, 21000):
        content = bytearray(whole)
        content[place : place + 3000] = b"\xff" * len(content[place : place + 3000])
        path.write_bytes(content)
        with Projection(path) as projection:
            assert projected(projection, log) == expected, place


def test_another_log_under_the_same_name(tmp_path: Path, path: Path, log: SqliteLog) -> None:
    with Projection(path) as projection:
        names(projection, log)
    log.close()
    for file in tmp_path.glob("lahar.db*"):
        if "projection" not in file.name:
            file.unlink()
    other = SqliteLog(tmp_path / "lahar.db")
    write(other, opened(1, 2, 3, name="other"))
    with Projection(path) as projection:
        assert names(projection, other) == ["other-1", "other-2", "other-3"]


def test_a_log_that_ends_before_what_was_taken() -> None:
    """A backup was restored."""
    whole, older = MemoryLog(), MemoryLog()
    write(whole, opened(1, 2))
    write(older, opened(1))
    with Projection() as projection:
        assert names(projection, whole) == ["train-1", "train-2"]
        assert names(projection, older) == ["train-1"]


class Expired(MemoryLog):
    """A log that has let its first records go."""

    first = 0

    def read(self, partition, start, limit):
        return super().read(partition, max(start, self.first), limit)


def test_what_is_behind_retention_is_made_anew(tmp_path: Path) -> None:
    log = Expired()
    write(log, opened(1, 2))
    with Projection(tmp_path / "p") as projection:
        names(projection, log)
    write(log, opened(3, 4))
    log.first = 3
    with Projection(tmp_path / "p") as projection:
        projection.follow(log, 1)
        assert projection.positions() == {("job-events", 0): (1, 0, module.digest_of("train1"))}


# --- following ----------------------------------------------------------------------------------------------------------------


def test_events_that_no_table_wants_are_passed_over_once(path: Path, log: SqliteLog) -> None:
    told = Event("a", "t", JobForgotten.TYPE, "job9", 9, 9, 1, "job9", "", "", JobForgotten(9))
    write(log, [told])
    with Projection(path) as projection:
        assert names(projection, log) == ["train-1", "train-2"]
        assert projection.positions() == {("job-events", 0): (3, 1, module.digest_of("train2"))}
        with sqlite3.connect(path, timeout=0, isolation_level=None) as other:
            other.execute("BEGIN IMMEDIATE")
            assert names(projection, log) == ["train-1", "train-2"], "what has caught up asks for no lock"
        other.close()


def test_a_reader_of_the_file_is_answered_from_it_if_it_has_caught_up(
    path: Path, log: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Projection(path) as follower:
        follower.follow(log)
        monkeypatch.setattr("os.access", lambda *_: False)
        with Projection(path) as reader:
            assert names(reader, log) == ["train-1", "train-2"]
            assert reader.is_kept
            write(log, opened(3))
            assert names(reader, log) == ["train-1", "train-2", "train-3"]
            assert not reader.is_kept, "what is behind, it reads from the log"


def test_an_answer_from_a_partly_unreadable_log_says_how_far_it_goes(log: SqliteLog, path: Path) -> None:
    told: list[tuple[int, str]] = []

    class Torn(SqliteLog):
        def scan(self, *given, **options):
            for record in super().scan(*given, **options):
                if record.offset:
                    raise LogDamagedError("torn")
                yield record

    torn = Torn(log.path)
    with Projection(path) as projection:
        with pytest.raises(LogDamagedError):
            names(projection, torn)
        said = projection.ask(torn, JobTables, lambda jobs: len(jobs.lines()), behind=lambda at, why: told.append((at, str(why))))
    assert (said, told) == (1, [(1, "torn")])


ByHand = Callable[[Follower], Follower]


@pytest.fixture
def by_hand() -> Iterator[ByHand]:
    """Steps of a follower without its thread; the file is closed at the end."""
    with ExitStack() as stack:
        yield stack.push


def test_a_follower_keeps_the_file_near_the_end_or_leaves_it_to_others(
    log: SqliteLog, path: Path, by_hand: ByHand, caplog: pytest.LogCaptureFixture
) -> None:
    follower = by_hand(Follower(path, log, most=1))
    assert [follower.step() < 1 for _ in range(3)] == [True, True, False], "soon again, until it has caught up"
    write(log, opened(3))
    with sqlite3.connect(path, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        assert follower.step() == 1, "another one is at it"
        other.execute("COMMIT")
    other.close()
    with Projection(path) as projection:
        assert projection.follow(log) == 1
    write(log, opened(4))
    with sqlite3.connect(path, isolation_level=None) as other:
        other.execute("CREATE TRIGGER full BEFORE INSERT ON jobs BEGIN SELECT raise(ABORT, 'full'); END")
    other.close()
    assert follower.step() is None
    assert caplog.messages == ["the projection is no longer followed: full; queries catch it up"]


def test_a_follower_takes_what_is_new_once_more_before_it_ends(log: SqliteLog, path: Path) -> None:
    with Follower(path, log):
        pass
    with Projection(path) as projection:
        assert projection.follow(log) == 0


def test_a_follower_waits_longer_each_time_for_an_absent_log_and_resumes(
    log: SqliteLog, path: Path, by_hand: ByHand, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> int:
        raise LogUnavailableError("no broker answers")

    follower = by_hand(Follower(path, log, most=1))
    with monkeypatch.context() as patch:
        patch.setattr(log, "end", away)
        assert [follower.step() for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    assert [follower.step() < 1 for _ in range(3)] == [True, True, False]
    with monkeypatch.context() as patch:
        patch.setattr(log, "end", away)
        assert follower.step() == 1, "counted anew"
    assert caplog.messages == []


def test_following_takes_a_tenth_of_a_core(log: SqliteLog, path: Path, by_hand: ByHand, monkeypatch: pytest.MonkeyPatch) -> None:
    spent = iter([5.0, 5.25])
    monkeypatch.setattr("engine.projection.follower.thread_time", lambda: next(spent))
    assert by_hand(Follower(path, log, most=1)).step() == pytest.approx(2.25)


def test_a_follower_without_a_file_follows_nothing(tmp_path: Path, log: SqliteLog) -> None:
    with Follower(tmp_path / "nothing" / "p", log):
        assert all(thread.name != "lahar-projection" for thread in threading.enumerate())


def test_a_job_that_moves_from_node_to_node_fills_no_memory() -> None:
    """Of what it grows to, no earlier state is kept."""
    log, moves = MemoryLog(), []
    for number in range(1, 801):
        data = AttemptBound("main", 0, 1, node=f"node-{number}"), AttemptRunning("main", 0, 1), AttemptChanged("main", 0, 1)
        moves += [Event(f"{number} {d.TYPE}", "t", d.TYPE, "job1", 1, 1, 1, "job1", "", "c", d) for d in data]
    start = AttemptStarted("main", 0, 1)
    write(log, [*opened(1), Event("s", "t", start.TYPE, "job1", 1, 1, 1, "job1", "", "c", start), *moves])
    with Projection() as projection:
        tracemalloc.start()
        try:
            while projection.follow(log, 4):
                pass
            assert names(projection, log) == ["train-1"]
            kept, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert kept < 2 << 20
