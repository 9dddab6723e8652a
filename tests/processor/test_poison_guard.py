"""The poison guard: what processes end in is not decided for ever, and what they only happened to decide is not set aside."""

from __future__ import annotations

import errno
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from counting_stage import CountingStage, Shard, command, custom
from deadly_stage import EXIT, INNOCENTS, deadly

from engine.events import Event, Topic, decode
from engine.events.actions import EventRaised, TimerFired
from engine.events.outcomes import DeadLettered, JobParked
from engine.log.errors import LogUnavailableError
from engine.log.mark_file import MarkFile
from engine.log.memory import MemoryLog, MemoryShard
from engine.log.port import Commit, Log, Partition, Position, ShardId
from engine.log.sqlite import SqliteLog
from engine.processor import shard_run as run
from engine.processor.poison_guard import REASON, PoisonGuard
from engine.processor.processor import Processor
from engine.processor.stage import Decision
from engine.processor.watchdog import ENDED, Watchdog

WORKER = Path(__file__).with_name("deadly_stage.py")
SHARD = ShardId("counting", 0)


def written(log: Log, topic: Topic = "job-events") -> list[Event[Any]]:
    return [decode(record.message) for record in log.read(Partition(topic, 0), 0, 1_000_000)]


def parked(log: Log) -> list[tuple[str, str]]:
    return [(event.subject, event.data.error) for event in written(log) if isinstance(event.data, JobParked)]


def totals(state: Shard) -> dict[str, int]:
    return {key: counter.total for key, counter in state.counters.items()}


class TestProcesses:
    """Real processes on a SQLite log."""

    def run(self, path: Path, seconds: float) -> tuple[int, str]:
        done = subprocess.run([sys.executable, WORKER, path, str(seconds)], capture_output=True, text=True, check=False, timeout=60)
        return done.returncode, done.stderr

    @pytest.mark.parametrize(("way", "code"), [("exit", EXIT), ("loop", ENDED), ("hold", -signal.SIGVTALRM)])
    def test_the_input_is_decided_twice_and_everything_else_once(self, tmp_path: Path, way: str, code: int) -> None:
        path = tmp_path / "lahar.db"
        given = deadly(way)
        log = SqliteLog(path)
        log.append("pods", given)
        runs = [self.run(path, 0.3) for _ in range(3)]
        assert [found for found, _ in runs] == [code, code, 0], runs
        assert "a process ended while it decided pods/0@41" in runs[1][1]
        assert "2 processes, one after the other, ended while they decided pods/0@41; it is dropped now" in runs[2][1]
        if way == "loop":
            assert "pods/0@41 is not decided after 0.3 s of processor time: this process ends" in runs[0][1]
        if way == "hold":
            assert "deadly_stage.py" in runs[0][1], "where the interpreter was held"
        assert parked(log) == [("victim", REASON)]
        processor = Processor(log, CountingStage())
        processor.open()
        assert sum(totals(processor.state).values()) == INNOCENTS + 1
        assert [kept["id"] for kept in processor.state.counters["victim"].parked] == ["victim-2", "victim-3"]
        assert processor.accounts.outcomes["parked"] == 2
        assert (processor.accounts.balanced, processor.received) == (True, len(given))
        log.append("jobs", [command("victim", 4, at=INNOCENTS)])
        processor.run_until_quiet()
        assert totals(processor.state)["victim"] == 3, "what was mended is released, here by a stage that survives it"
        processor.close()
        log.close()


class DiedError(BaseException):
    """The process is gone: nothing of it writes any more."""


class MortalLog(MemoryLog):
    """A log that a process has until it dies, and another one after it."""

    def __init__(self, *, free: bool) -> None:
        super().__init__()
        self.free, self.alive = free, True
        self.marks: list[str] = []

    def open(self, shard: ShardId, inputs: Sequence[Partition]) -> MortalShard:  # type: ignore[override]  # all that the port promises
        return MortalShard(self, super().open(shard, inputs))


class MortalShard:
    def __init__(self, log: MortalLog, held: MemoryShard) -> None:
        self._log, self._held = log, held

    @property
    def position(self) -> Position:
        return self._held.position

    def snapshot(self) -> Iterator[tuple[str, bytes]]:
        return self._held.snapshot()

    def commit(self, commit: Commit) -> Position:
        return self._held.commit(commit)

    @property
    def marks_are_free(self) -> bool:
        return self._log.free

    def mark(self, text: str) -> None:
        if self._log.alive:
            self._log.marks.append(text)
            self._held.mark(text)

    def marked(self) -> str:
        return self._held.marked()

    def close(self) -> None:
        self._held.close()


class MortalStage(CountingStage):
    """Dies in inputs named `exit`, in those of the ids given, and on timers of the key `exit`."""

    def __init__(self, log: MortalLog, *deadly: str) -> None:
        self._log, self._deadly = log, deadly

    def _die(self) -> None:
        self._log.alive = False
        raise DiedError

    def decide(self, state: Shard, event: Event[Any], now: int) -> Decision:
        if event.id in self._deadly:
            self._die()
        return (yield from super().decide(state, event, now))

    def park(self, state: Shard, event: Event[Any], now: int, error: str) -> Decision:
        if event.data.data.get("unparkable"):
            self._die()
        return (yield from super().park(state, event, now, error))

    def fire(self, state: Shard, now: int, error: str | None = None) -> Any:
        _, _, key = state.heap[0]
        if key in self._deadly and (error is None or key == "unparkable"):
            self._die()
        yield from super().fire(state, now, error)


def live(log: MortalLog, *deadly: str, batch: int = 10) -> Shard | None:
    """Let a process work until it is done or dies; return the state that it has reached, if it has not died."""
    log.alive = True
    processor = Processor(log, MortalStage(log, *deadly), batch=batch)
    try:
        processor.open()
        processor.run_until_quiet()
    except DiedError:
        return None
    state = processor.state
    processor.close()
    return state


def survivor(log: MortalLog, *deadly: str) -> tuple[Shard, int]:
    """Start processes until one is done; return its state and how many have died before it."""
    for died in range(10):
        if (state := live(log, *deadly)) is not None:
            return state, died
    raise AssertionError(log.marks[-9:])


class FailingStage(MortalStage):
    """Fails where the other one dies while it parks."""

    def park(self, state: Shard, event: Event[Any], now: int, error: str) -> Decision:
        return (yield from CountingStage.park(self, state, event, now, error))


def after_two_deaths(log: MortalLog, stage: type[MortalStage] = MortalStage) -> Processor[Shard]:
    """Open a shard of which two processes have died in the input a-1."""
    assert (live(log, "a-1"), live(log, "a-1")) == (None, None)
    log.alive = True
    processor = Processor(log, stage(log, "a-1"))
    processor.open()
    return processor


@pytest.fixture(params=[True, False], ids=["free", "costly"])
def log(request: pytest.FixtureRequest) -> MortalLog:
    return MortalLog(free=request.param)


def adds(count: int) -> list[Any]:
    return [custom("a", number, "add", at=number) for number in range(count)]


class TestDeaths:
    def test_how_often_an_input_is_decided(self, log: MortalLog) -> None:
        """Where marks are costly the first process has not named it."""
        log.append("pods", adds(30))
        state, died = survivor(log, "a-13")
        assert died == (2 if log.free else 3)
        assert parked(log) == [("a", REASON)]
        assert totals(state) == {"a": 13}
        assert len(state.counters["a"].parked) == 17

    def test_a_process_that_dies_while_it_parks_leaves_a_dead_letter(self, log: MortalLog) -> None:
        log.append("pods", [custom("a", 0, "add", at=1), custom("b", 0, "add", at=2, unparkable=True), custom("c", 0, "add", at=3)])
        state, _ = survivor(log, "b-0")
        assert totals(state) == {"a": 1, "c": 1}
        (letter,) = written(log, "dead-letters")
        assert isinstance(letter.data, DeadLettered)
        assert (letter.data.offset, letter.data.reason) == (1, REASON)

    def test_what_is_set_aside_is_committed_before_anything_else_is_decided(self) -> None:
        log = MortalLog(free=True)
        log.append("pods", adds(4))
        processor = after_two_deaths(log)
        assert (processor.step(), len(parked(log))) == (2, 1)

    def test_an_input_that_ends_processes_unparkably_is_a_dead_letter(self) -> None:
        log = MortalLog(free=True)
        log.append("pods", [custom("a", 1, "fail", at=1, unparkable=True)])
        assert after_two_deaths(log, FailingStage).step() == 1
        assert [type(event.data) for event in written(log, "dead-letters")] == [DeadLettered]

    def test_a_timer_parks_its_job_and_no_other_timer_of_that_moment(self, log: MortalLog) -> None:
        log.append("pods", [custom(key, 1, "timer", at=10, delays=[5, 5, 5]) for key in ("a", "exit", "b")])
        log.append("pods", [custom("late", 1, "add", at=99)])
        state, _ = survivor(log, "exit")
        assert {subject for subject, _ in parked(log)} == {"exit"}
        fired = [event.subject for event in written(log) if isinstance(event.data, TimerFired)]
        assert sorted(fired) == sorted(["a", "exit", "b"] * 3)
        assert totals(state)["late"] == 1

    def test_a_timer_of_an_unparkable_job_is_dropped_by_the_next_process(self, log: MortalLog) -> None:
        log.append("pods", [custom(key, 1, "timer", at=10, delays=[5, 40]) for key in ("a", "unparkable", "b")])
        log.append("pods", [custom("late", 1, "add", at=49), custom("later", 1, "add", at=99)])
        state, died = survivor(log, "unparkable")
        # Three for each of the two timers; where marks are costly one more, before which no input was marked.
        assert died == (6 if log.free else 7)
        dropped = [event for event in written(log) if isinstance(event.data, EventRaised) and event.data.event == "dropped"]
        assert [(event.subject, event.data.data) for event in dropped] == [("unparkable", {"error": REASON})] * 2
        assert parked(log) == []
        fired = [event.subject for event in written(log) if isinstance(event.data, TimerFired)]
        assert sorted(fired) == sorted(["a", "unparkable", "b"] * 2)
        assert (totals(state)["late"], totals(state)["later"]) == (1, 1)

    def test_processes_that_are_killed_elsewhere_set_nothing_aside(self, log: MortalLog) -> None:
        """As an operator or the system does: each time in another input."""
        log.append("pods", adds(60))
        for number in (3, 7, 12, 13, 25, 26, 27, 40, 59):
            assert live(log, f"a-{number}", batch=1) is None
        state = live(log)
        assert state is not None
        assert (totals(state), parked(log)) == ({"a": 60}, [])

    def test_repeated_kills_in_one_input_set_nothing_aside(self, log: MortalLog, caplog: pytest.LogCaptureFixture) -> None:
        """A machine that starts anew every few seconds ends them all at the same moment; no input is to blame."""
        log.append("pods", adds(10))
        for _ in range(2 if log.free else 3):
            assert live(log, "a-5") is None
        state = live(log)
        assert state is not None
        assert (totals(state), parked(log)) == ({"a": 10}, [])
        assert "shard counting/0: a child process survives pods/0@5: something else ended the others" in caplog.text

    @pytest.mark.parametrize("kills", range(4))
    def test_what_takes_the_process_with_its_child_three_times_is_set_aside(
        self, log: MortalLog, monkeypatch: pytest.MonkeyPatch, kills: int
    ) -> None:
        """As where a system for want of memory ends all processes of a container. Fewer may be kills that came meanwhile."""
        rehearsed, trials = run.child_survives, 0

        def child_survives(attempt: Callable[[], object], seconds: float) -> bool:
            nonlocal trials
            trials += 1
            if trials <= kills:
                log.alive = False
                raise DiedError
            return rehearsed(attempt, seconds)

        log.append("pods", adds(10))
        monkeypatch.setattr(run, "child_survives", child_survives)
        before = 2 if log.free else 3  # in the input itself, which is innocent from then on
        assert [live(log, "a-5") for _ in range(before)] == [None] * before
        assert [live(log) for _ in range(kills)] == [None] * kills
        state = live(log)
        assert state is not None
        assert trials == min(kills + 1, 3)
        assert parked(log) == ([("a", REASON)] if kills == 3 else [])
        assert totals(state) == {"a": 5 if kills == 3 else 10}

    def test_a_child_that_ended_is_not_started_again(self, log: MortalLog) -> None:
        asked: list[bool] = []

        def end() -> bool:
            asked.append(True)
            return False

        log.append("pods", adds(3))
        held = log.open(SHARD, Processor(log, CountingStage()).reads)
        held.mark("1 pods/0@1")
        poison_guard = PoisonGuard(SHARD, held, 10)
        poison_guard.rehearse = end
        assert [poison_guard.begin(("pods/0", 1)) for _ in range(3)] == [(REASON,)] * 3
        assert len(asked) == 1

    def test_timers_in_which_processes_were_killed_fire(self, log: MortalLog) -> None:
        log.append("pods", [custom("a", 1, "timer", at=10, delays=[5]), custom("late", 1, "add", at=99)])
        for _ in range(2 if log.free else 3):
            assert live(log, "a") is None
        assert live(log) is not None
        assert parked(log) == []
        assert [event.subject for event in written(log) if isinstance(event.data, TimerFired)] == ["a"]

    def test_a_second_death_elsewhere_clears_the_first(self, log: MortalLog) -> None:
        log.append("pods", adds(10))
        for number in (5, 2, 5, 2, 5):
            live(log, f"a-{number}")
        assert parked(log) == []

    def test_a_process_that_dies_at_its_commit_blames_no_input(self, log: MortalLog, monkeypatch: pytest.MonkeyPatch) -> None:
        def die(_self: MortalShard, _commit: Commit) -> Position:
            log.alive = False
            raise DiedError

        log.append("pods", adds(10))
        with monkeypatch.context() as patch:
            patch.setattr(MortalShard, "commit", die)
            assert [live(log) for _ in range(5)] == [None] * 5
        assert live(log) is not None
        assert parked(log) == []

    def test_a_process_that_dies_while_it_recovers_keeps_what_is_known(
        self, log: MortalLog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def die(_self: MortalShard) -> Iterator[tuple[str, bytes]]:
            log.alive = False
            raise DiedError

        log.append("pods", adds(10))
        for _ in range(1 if log.free else 2):
            live(log, "a-5")
        with monkeypatch.context() as patch:
            patch.setattr(MortalShard, "snapshot", die)
            for _ in range(3):
                live(log)
        live(log, "a-5")
        assert parked(log) == [], "three processes died, but not in this input"
        live(log, "a-5")
        assert parked(log) == [("a", REASON)]
        caplog.clear()
        with monkeypatch.context() as patch:
            patch.setattr(MortalShard, "snapshot", die)
            for _ in range(3):
                live(log)
        assert "2 processes, one after the other, ended while they recovered the shard" in caplog.text

    def test_a_log_that_cannot_be_opened_at_first_hides_no_death(self, log: MortalLog, monkeypatch: pytest.MonkeyPatch) -> None:
        log.append("pods", adds(3))

        def unavailable(*_: object) -> MortalShard:
            raise LogUnavailableError("not yet")

        for _ in range(5):
            log.alive = True
            processor = Processor(log, MortalStage(log, "a-1"))
            with monkeypatch.context() as patch:
                patch.setattr(log, "open", unavailable)
                with pytest.raises(LogUnavailableError):
                    processor.open()
            with suppress(DiedError):
                processor.open()
                processor.run_until_quiet()
        assert [subject for subject, _ in parked(log)] == ["a"]

    def test_an_interrupted_process_has_not_died(self, log: MortalLog) -> None:
        class Interrupted(CountingStage):
            def decide(self, state: Shard, event: Event[Any], now: int) -> Decision:
                raise KeyboardInterrupt
                yield

        log.append("pods", adds(1))
        for _ in range(3):
            with pytest.raises(KeyboardInterrupt):
                _run(Processor(log, Interrupted()))
            assert log.marks[-1] == ""
        assert live(log) is not None
        assert parked(log) == []

    @pytest.mark.parametrize("end", [SystemExit(3), GeneratorExit(), BaseException("a panic")], ids=["exit", "close", "panic"])
    def test_an_error_outside_the_stage_ends_processes_no_longer_than_a_crash(self, log: MortalLog, end: BaseException) -> None:
        """It goes past all who catch errors, so the process ends in good order."""

        class Ended(CountingStage):
            def decide(self, state: Shard, event: Event[Any], now: int) -> Decision:
                if event.id == "a-1":
                    raise end
                return (yield from super().decide(state, event, now))

        log.append("pods", adds(3))
        for _ in range(2 if log.free else 3):
            with pytest.raises(type(end)):
                _run(Processor(log, Ended()))
        _run(Processor(log, Ended()))
        assert parked(log) == [("a", REASON)]


def _run(processor: Processor[Any]) -> None:
    processor.open()
    processor.run_until_quiet()


class TestCost:
    def test_costly_marks_are_made_when_a_shard_is_opened_and_closed(self) -> None:
        log = MortalLog(free=False)
        log.append("pods", adds(500))
        live(log)
        assert log.marks == ["0 recovery", "0 open", ""]

    def test_after_a_death_inputs_are_marked_for_one_batch(self) -> None:
        log = MortalLog(free=False)
        log.append("pods", adds(500))
        live(log, "a-117")
        log.marks.clear()
        live(log)
        named = [mark for mark in log.marks if "@" in mark]
        assert named == [f"0 pods/0@{number}" for number in range(110, 120)]

    def test_a_shard_reopened_by_this_process_is_not_one_a_process_died_in(self) -> None:
        log = MortalLog(free=False)
        log.append("pods", adds(5))
        processor = Processor(log, CountingStage())
        processor.open()
        processor.open()
        log.marks.clear()
        processor.run_until_quiet()
        assert log.marks == []


class TestMarks:
    @pytest.mark.parametrize("text", ["x", "open", "0 open", "-1 pods/0@0", "1.5 pods/0@0", "² pods/0@0", "\x00", " ", "9" * 150])
    def test_what_is_no_mark_sets_nothing_aside(self, text: str) -> None:
        log = MortalLog(free=True)
        log.append("pods", adds(3))
        log.open(SHARD, Processor(log, CountingStage()).reads).mark(text)
        assert live(log) is not None
        assert parked(log) == []

    def test_the_marks_of_a_log_that_was_replaced_are_not_this_ones(self, tmp_path: Path) -> None:
        old = MarkFile(tmp_path / "lahar.db", 1, 7)
        old.write("1 pods/0@0")
        assert MarkFile(tmp_path / "lahar.db", 1, 8).read() == "1 pods/0@0"
        assert MarkFile(tmp_path / "lahar.db", 1, 1).read() == ""
        assert MarkFile(tmp_path / "lahar.db", 2, 8).read() == ""
        old.close()

    def test_a_file_that_cannot_be_written_is_the_logs_trouble(self, tmp_path: Path) -> None:
        (tmp_path / "lahar.db-marks").mkdir()
        for act in (MarkFile(tmp_path / "lahar.db", 1, 1).read, lambda: MarkFile(tmp_path / "lahar.db", 1, 1).write("0 open")):
            with pytest.raises(LogUnavailableError, match=r"lahar\.db-marks cannot be opened: Is a directory; check that you may"):
                act()

    @pytest.mark.parametrize(("call", "told"), [("pread", "read: Input/output error"), ("pwrite", "written: Input/output error")])
    def test_what_failed_is_said(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, told: str) -> None:
        def fail(*_: object) -> None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        monkeypatch.setattr(os, call, fail)
        file = MarkFile(tmp_path / "lahar.db", 1, 1)
        with pytest.raises(LogUnavailableError, match=f"lahar.db-marks cannot be {told}"):
            file.write("0 open") if call == "pwrite" else file.read()
        file.close()

    def test_a_log_has_one_mark_by_whatever_name_it_is_reached(self, tmp_path: Path) -> None:
        (tmp_path / "data").mkdir()
        (tmp_path / "link.db").symlink_to(tmp_path / "data" / "lahar.db")
        by_link, by_name = MarkFile(tmp_path / "link.db", 1, 1), MarkFile(tmp_path / "data" / "lahar.db", 1, 2)
        by_link.write("1 pods/0@0")
        assert by_name.read() == "1 pods/0@0"
        by_link.close()
        by_name.close()


class TestWatchdog:
    def poison_guard(self, log: MortalLog) -> PoisonGuard:
        return PoisonGuard(SHARD, log.open(SHARD, Processor(log, CountingStage()).reads), 10)

    def test_only_one_decision_that_goes_on_is_too_long(self, log: MortalLog, caplog: pytest.LogCaptureFixture) -> None:
        ends: list[int] = []
        spent = iter([0.0, 9.0, 18.0, 27.0, 36.0, 37.5])
        poison_guard = self.poison_guard(log)
        poison_guard.processor_seconds = lambda: next(spent)  # type: ignore[misc]  # a clock that obeys
        dog = Watchdog(10, ends.append)
        dog.watch(poison_guard)
        for number in range(2):
            poison_guard.begin(("pods/0", number))
            dog.check()
        poison_guard.rest()
        dog.check()
        poison_guard.begin(("pods/0", 2))
        dog.check()
        dog.check()
        assert ends == []
        dog.check()
        assert ends == [ENDED]
        assert "counting/0: pods/0@2 is not decided after 10 s" in caplog.text
        assert log.marks[-1] == "0 pods/0@2", "the next process knows it, also where marks are costly"

    def test_a_shard_that_was_given_back_is_not_looked_at(self, log: MortalLog) -> None:
        dog = Watchdog(10, lambda code: pytest.fail(f"ended with {code}"))
        poison_guard = self.poison_guard(log)
        dog.watch(poison_guard)
        poison_guard.begin(("pods/0", 2))
        poison_guard.close()
        dog.check()
        del poison_guard
        dog.check()

    def test_a_thread_that_has_ended_decides_nothing(self, log: MortalLog) -> None:
        dog = Watchdog(10, lambda code: pytest.fail(f"ended with {code}"))
        with ThreadPoolExecutor(1) as thread:
            poison_guard = thread.submit(self.poison_guard, log).result()
            poison_guard.begin(("pods/0", 2))
        dog.watch(poison_guard)
        dog.check()
        dog.check()


def test_the_log_names_what_is_set_aside(caplog: pytest.LogCaptureFixture) -> None:
    log = MortalLog(free=True)
    log.append("pods", adds(3))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            live(log, "a-1")
    assert "shard counting/0: a process ended while it decided pods/0@1\n" in caplog.text
    assert "shard counting/0: 2 processes, one after the other, ended while they decided pods/0@1; it is dropped now" in caplog.text
