"""What a live engine does while its log cannot be written."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence

import pytest

from engine.cli.engine import Engine
from engine.cli.settings import Settings
from engine.cli.signals import Signals
from engine.cli.submitting import submission
from engine.log.errors import FencedError, LogBusyError, LogError, LogUnavailableError
from engine.log.port import Commit, Partition, Position, ShardId, ShardLog
from engine.log.sqlite import SqliteLog

SETTINGS = Settings()
EVENTS = Partition("job-events", 0)
FULL = LogUnavailableError("lahar.db cannot be written: disk full; make room")


class _Shard:
    """The right to a shard of a log that fails as planned."""

    def __init__(self, held: ShardLog, failures: list[LogError]) -> None:
        self._held, self._failures = held, failures

    @property
    def position(self) -> Position:
        return self._held.position

    @property
    def marks_are_free(self) -> bool:
        return self._held.marks_are_free

    def mark(self, text: str) -> None:
        self._held.mark(text)

    def marked(self) -> str:
        return self._held.marked()

    def snapshot(self) -> Iterator[tuple[str, bytes]]:
        return self._held.snapshot()

    def commit(self, commit: Commit) -> Position:
        if self._failures:
            raise self._failures.pop(0)
        return self._held.commit(commit)

    def close(self) -> None:
        self._held.close()


class FailingLog(SqliteLog):
    """A log whose next commits and openings fail."""

    commits: list[LogError]
    openings: list[LogError]

    def open(self, shard: ShardId, inputs: Sequence[Partition]) -> ShardLog:  # type: ignore[override]  # all that the port promises
        if self.openings:
            raise self.openings.pop(0)
        return _Shard(super().open(shard, inputs), self.commits)


@pytest.fixture
def log(tmp_path):
    made = FailingLog(tmp_path / "lahar.db")
    made.commits, made.openings = [], []
    yield made
    made.close()


@pytest.fixture
def engine(log):
    """An engine that runs the log, in which a submitted job waits."""
    made = Engine(log, SETTINGS)
    made.open()
    log.append("jobs", [submission(SETTINGS, {"metadata": {"name": "train"}}, "first", recordedtime=1)])
    yield made
    made.close()


def nothing():
    return None


def test_it_goes_on_once_the_log_can_be_written(log, engine):
    """It waits longer and longer, says once why, and loses nothing."""
    log.commits += [FULL] * 2
    log.openings += [LogBusyError("lahar.db is busy")] * 6
    pauses: list[float] = []
    said: list[str] = []
    engine.run(lambda: log.end(EVENTS) > 0, nothing, pause=pauses.append, say=said.append)
    assert pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]
    assert said == [f"{FULL}; trying again until it works"]
    assert engine.lag() == 0


def test_every_outage_is_told_and_begins_with_short_pauses(log, engine):
    rounds: list[int] = []
    pauses: list[float] = []
    said: list[str] = []

    def after_commit():
        rounds.append(len(pauses))
        if len(rounds) in {1, 3}:
            raise FULL

    engine.run(lambda: len(rounds) == 4, after_commit, pause=pauses.append, say=said.append)
    assert (pauses, len(said)) == ([0.2, 0.2], 2)


def test_it_stops_when_told_to_while_it_waits(log, engine):
    log.commits += [FULL] * 9
    pauses: list[float] = []
    engine.run(lambda: len(pauses) == 3, nothing, pause=pauses.append, say=str)
    assert len(pauses) == 3
    assert log.end(EVENTS) == 0


def test_whoever_was_fenced_does_not_come_back(log, engine):
    log.commits.append(FencedError("lifecycle/0", 1, 2))
    with pytest.raises(FencedError):
        engine.run(lambda: False, nothing, pause=pytest.fail, say=pytest.fail)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_waiting_at_once(number):
    with Signals() as signals:
        signal.raise_signal(number)
        signals.wait(3600)
        assert (signals.stopped, signals.interrupted) == (True, number == signal.SIGINT)
