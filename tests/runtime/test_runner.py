"""Shards in threads of their own: none waits for another, each ends in order, and the owner hears what became of them."""

from __future__ import annotations

import gc
import logging
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any

import pytest
from counting_stage import CountingStage, custom
from prometheus_client import CollectorRegistry

from engine.events.back_off import BackOff
from engine.log.errors import FencedError, LayoutError, LogDamagedError, LogUnavailableError
from engine.log.memory import MemoryLog
from engine.log.partitioner import partition_of
from engine.log.port import Commit, Partition, Position, Record, ShardId, ShardLog
from engine.processor.membership import StaticMembership
from engine.processor.processor import Processor
from engine.processor.watchdog import Watchdog
from engine.runtime.engine import Engine
from engine.runtime.metrics import ProcessorMetrics
from engine.runtime.runner import Runner
from engine.runtime.shard_thread import BACK_OFF, ShardThread

SHARDS = 4
KEYS = [next(key for key in map(str, range(100)) if partition_of(key, SHARDS) == number) for number in range(SHARDS)]
"""A key of each shard."""
AWAY = LogUnavailableError("no broker answers")
PATIENCE = 30.0


class Gate:
    """Where a thread waits until it is let through, or fails."""

    def __init__(self, error: Exception | None = None) -> None:
        self.reached = threading.Event()
        self._open = threading.Event()
        self._error = error

    def __call__(self) -> None:
        self.reached.set()
        assert self._open.wait(PATIENCE)
        if self._error is not None:
            raise self._error

    def open(self) -> None:
        self._open.set()


class _Shard:
    def __init__(self, log: PlannedLog, number: int, held: ShardLog) -> None:
        self._log, self._number, self._held = log, number, held

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
        self._log.act(self._log.commits, self._number)
        return self._held.commit(commit)

    def close(self) -> None:
        self._log.given_back.append(self._number)
        self._held.close()


class PlannedLog(MemoryLog):
    """A log on which openings and commits of shards go as planned: they fail, or wait at a gate."""

    def __init__(self) -> None:
        super().__init__(SHARDS)
        self.openings: dict[int, list[Exception | Gate]] = {}
        self.commits: dict[int, list[Exception | Gate]] = {}
        self.reads: dict[int, list[Exception | Gate]] = {}
        self.opened: list[int] = []
        self.given_back: list[int] = []

    def act(self, plan: dict[int, list[Exception | Gate]], number: int) -> None:
        if steps := plan.get(number):
            step = steps.pop(0)
            if isinstance(step, Exception):
                raise step
            step()

    def open(self, shard: ShardId, inputs: Sequence[Partition]) -> ShardLog:  # type: ignore[override]  # all that the port promises
        self.act(self.openings, shard.number)
        held = super().open(shard, inputs)
        self.opened.append(shard.number)
        return _Shard(self, shard.number, held)

    def read(self, partition: Partition, start: int, limit: int) -> list[Record]:
        if partition.topic == "jobs":
            self.act(self.reads, partition.number)
        return super().read(partition, start, limit)

    def add(self, number: int, count: int = 1) -> None:
        """Append inputs of a shard."""
        end = self.end(Partition("jobs", number))
        self.append("jobs", [custom(KEYS[number], end + place, "add", at=1_000) for place in range(count)])

    def outputs(self, number: int) -> int:
        return self.end(Partition("job-events", number))

    def until(self, true: Callable[[], bool]) -> None:
        """Return as soon as a condition holds, which threads bring about."""
        deadline = time.monotonic() + PATIENCE
        while not true():
            assert time.monotonic() < deadline
            self.wait(0.01)


def processor(log: MemoryLog, number: int) -> Processor[Any]:
    return Processor(log, CountingStage(), number, batch=10)


def heard(runner: Runner, fenced: list[tuple[int, FencedError]]) -> bool:
    """Collect what has ended; tell whether some were fenced."""
    fenced += runner.collect()
    return bool(fenced)


@pytest.fixture
def log() -> PlannedLog:
    return PlannedLog()


@pytest.fixture
def runner(log: PlannedLog) -> Iterator[Runner]:
    with Runner(log, partial(processor, log), back_off=BackOff(0, 0)) as made:
        yield made


# --- at work -----------------------------------------------------------------------------------------------------------------


def test_every_shard_takes_what_is_appended(log: PlannedLog, runner: Runner) -> None:
    runner.assign(range(SHARDS))
    log.until(lambda: runner.open == frozenset(range(SHARDS)))
    for number in range(SHARDS):
        log.add(number, 25)
    log.until(lambda: all(log.outputs(number) == 25 for number in range(SHARDS)))
    assert runner.collect() == []
    assert runner.waiting == {}


def test_a_shard_decides_while_another_one_commits(log: PlannedLog, runner: Runner) -> None:
    log.commits[0] = [gate := Gate()]
    log.add(0)
    runner.assign([0, 1])
    assert gate.reached.wait(PATIENCE)
    log.add(1, 50)
    log.until(lambda: log.outputs(1) == 50)
    assert log.outputs(0) == 0
    gate.open()
    log.until(lambda: log.outputs(0) == 1)


def test_a_slow_opening_stops_nobody_else(log: PlannedLog, runner: Runner) -> None:
    log.openings[0] = [gate := Gate()]
    runner.assign([0, 1])
    assert gate.reached.wait(PATIENCE)
    log.add(1)
    log.until(lambda: log.outputs(1) == 1)
    assert runner.open == {1}
    assert runner.waiting == {0: "it is being opened"}
    gate.open()
    log.until(lambda: runner.open == {0, 1})


def test_a_shard_is_reopened_after_an_unavailable_log_without_loss(log: PlannedLog, runner: Runner) -> None:
    log.commits[0] = [AWAY]
    log.openings[0] = [AWAY, AWAY, gate := Gate()]
    log.add(0, 3)
    runner.assign([0])
    # First it cannot be opened, then it is, and cannot commit.
    assert gate.reached.wait(PATIENCE)
    assert runner.waiting == {0: str(AWAY)}
    gate.open()
    log.until(lambda: log.outputs(0) == 3)
    log.until(lambda: runner.waiting == {})
    assert log.opened == [0, 0]
    assert runner.collect() == []


def test_a_shard_whose_inputs_cannot_be_read_for_a_while_stays_open(log: PlannedLog, runner: Runner) -> None:
    log.reads[0] = [AWAY, AWAY, gate := Gate()]
    runner.assign([0])
    assert gate.reached.wait(PATIENCE)
    assert runner.waiting == {0: str(AWAY)}
    gate.open()
    log.until(lambda: runner.open == {0})
    assert log.opened == [0]
    log.add(0)
    log.until(lambda: log.outputs(0) == 1)


def test_what_a_lost_shard_has_left_is_collected_when_it_is_open_again(log: PlannedLog) -> None:
    """Its connections have cycles, and were set aside with the rest."""

    class Cycle:
        def __init__(self) -> None:
            self.itself = self

    kept = [Cycle()]
    lost = weakref.ref(kept[0])
    with Runner(log, partial(processor, log), back_off=BackOff(0, 0)) as runner:
        log.commits[0] = [AWAY]
        runner.assign([0])
        log.until(lambda: log.opened == [0])
        gc.freeze()
        kept.clear()
        log.add(0)
        log.until(lambda: log.outputs(0) == 1)
        assert log.opened == [0, 0]
        assert lost() is None


def test_a_shard_with_unreadable_inputs_is_shown_closed_until_readable(log: PlannedLog) -> None:
    log.reads[0] = [AWAY, AWAY, gate := Gate()]
    registry = CollectorRegistry()
    make = partial(Processor[Any], log, CountingStage(), observer=ProcessorMetrics(registry))

    def shown() -> float | None:
        return registry.get_sample_value("lahar_shard_open", {"stage": "counting", "shard": "0"})

    with Runner(log, make, back_off=BackOff(0, 0)) as runner:
        runner.assign([0])
        assert gate.reached.wait(PATIENCE)
        assert shown() == 0
        gate.open()
        log.until(lambda: shown() == 1)
        assert log.opened == [0]


def test_transactions_of_a_shard_with_little_to_do_keep_a_distance(log: PlannedLog, runner: Runner) -> None:
    """What a transaction costs is shared by the inputs that come within 20 ms (kafka.md, Transactions)."""
    began, inputs = time.monotonic(), 8
    runner.assign([0])
    for number in range(inputs):
        log.add(0)
        log.until(lambda found=number: log.outputs(0) == found + 1)  # type: ignore[misc]
    # One input a transaction: each waits for its turn.
    assert time.monotonic() - began >= (inputs - 1) * 0.02


def test_a_shard_that_is_opened_again_was_given_back(log: PlannedLog) -> None:
    made = processor(log, 0)
    made.open()
    made.open()
    assert (log.opened, log.given_back) == ([0, 0], [0])


def test_a_shard_that_rests_is_woken_and_is_at_work_then(log: PlannedLog) -> None:
    class Patient(Processor[Any]):
        def rest(self, longest: float) -> float:
            return PATIENCE

    make = partial(Patient, log, CountingStage())
    thread = ShardThread(0, make, after_commit=lambda: None, after_loss=lambda: None, changed=lambda: None, back_off=BACK_OFF)
    log.until(lambda: thread.rests)
    log.commits[0] = [gate := Gate()]
    log.add(0)
    thread.wake()
    assert gate.reached.wait(PATIENCE / 3)
    assert not thread.rests
    gate.open()
    log.until(lambda: thread.rests)
    thread.stop()
    thread.join(PATIENCE / 3)
    assert thread.ended


class AskedLog(PlannedLog):
    """Knows of which partitions somebody looks out for news."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Collection[Partition]] = []

    def wait(self, timeout: float, partitions: Collection[Partition] = ()) -> Collection[Partition]:
        if threading.current_thread().name == "lahar-watch":
            self.asked.append(partitions)
        return super().wait(timeout, partitions)


class TellingLog(PlannedLog):
    """Knows in which partitions something was appended, as brokers do, and how often each shard looks for inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = [0] * SHARDS
        self._ends: dict[Partition, int] = {}

    def wait(self, timeout: float, partitions: Collection[Partition] = ()) -> Collection[Partition]:
        if threading.current_thread().name != "lahar-watch":
            return super().wait(timeout, partitions)
        super().wait(timeout, partitions)
        before, self._ends = self._ends, {partition: self.end(partition) for partition in partitions}
        return [partition for partition, end in self._ends.items() if before.get(partition) != end]

    def read(self, partition: Partition, start: int, limit: int) -> list[Record]:
        if partition.topic == "jobs":
            self.looks[partition.number] += 1
        return super().read(partition, start, limit)


class UnwatchedLog(PlannedLog):
    """Has a defect in what the watcher calls."""

    def wait(self, timeout: float, partitions: Collection[Partition] = ()) -> Collection[Partition]:
        if threading.current_thread().name == "lahar-watch":
            raise ZeroDivisionError
        return super().wait(timeout, partitions)


def test_shards_fall_back_to_polling_when_the_input_watcher_stops(caplog: pytest.LogCaptureFixture) -> None:
    log = UnwatchedLog()
    with Runner(log, partial(processor, log)) as runner:
        runner.assign([0])
        log.until(lambda: "input watcher stopped; shards fall back to polling" in caplog.messages)
        log.add(0)
        log.until(lambda: log.outputs(0) == 1)


def test_a_shard_is_not_woken_by_the_inputs_of_others() -> None:
    log = TellingLog()
    with Runner(log, partial(processor, log)) as runner:
        runner.assign([0, 1])
        for number in range(30):
            log.add(1)
            log.until(lambda found=number: log.outputs(1) == found + 1)  # type: ignore[misc]
        looks = list(log.looks)
    # It looks for itself every now and then.
    assert looks[0] < looks[1] / 2


def test_nobody_looks_out_for_what_no_shard_reads() -> None:
    log = AskedLog()
    with Runner(log, partial(processor, log)) as runner:
        runner.assign([0])
        log.until(lambda: any(log.asked))
    assert {partition.number for partitions in log.asked for partition in partitions} == {0}
    assert all(log.asked), "without partitions it would be all there are"


def test_threads_have_longer_turns_while_shards_run(log: PlannedLog) -> None:
    before = sys.getswitchinterval()
    with Runner(log, partial(processor, log)):
        assert sys.getswitchinterval() > before
    assert sys.getswitchinterval() == before


def test_the_collector_is_taken_over_once_and_given_back(log: PlannedLog) -> None:
    with Runner(log, partial(processor, log)) as runner:
        runner.assign(range(SHARDS))
        log.until(lambda: len(runner.open) == SHARDS)
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


# --- what ends a shard -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [LayoutError("grown"), LogDamagedError("torn"), RuntimeError("a defect")])
def test_what_waiting_does_not_mend_reaches_the_owner(log: PlannedLog, error: Exception) -> None:
    changed = threading.Event()
    log.openings[1] = [error]
    with Runner(log, partial(processor, log), changed=changed.set) as runner:
        runner.assign([0, 1])

        log.until(changed.is_set)
        with pytest.raises(type(error), match=str(error)):
            log.until(lambda: bool(runner.collect()))


def test_a_shard_opened_by_another_process_is_dropped_and_reassignable(log: PlannedLog, runner: Runner) -> None:
    runner.assign([0, 1])
    log.until(lambda: runner.open == {0, 1})
    other = processor(log, 0)
    other.open()
    log.add(0)
    fenced: list[tuple[int, FencedError]] = []
    log.until(lambda: heard(runner, fenced))
    assert [number for number, _ in fenced] == [0]
    assert runner.open == {1}
    assert log.outputs(0) == 0
    runner.assign([0, 1])
    log.until(lambda: log.outputs(0) == 1)
    with pytest.raises(FencedError):
        other.step()


def test_an_unassigned_shard_finishes_its_transaction_and_is_returned(
    log: PlannedLog, runner: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "engine.runtime.runner")
    log.commits[0] = [gate := Gate()]
    log.add(0, 25)
    runner.assign([0, 1])
    assert gate.reached.wait(PATIENCE)
    runner.assign([1])
    assert 0 not in log.given_back
    assert caplog.messages == ["shard counting/0 is stopped"]
    gate.open()
    log.until(lambda: runner.open == {1})
    runner.collect()
    # A batch of ten: what was at hand, and no more.
    assert log.outputs(0) == 10
    assert log.given_back == [0]


def test_a_shard_that_is_taken_back_before_it_has_ended_is_not_run_twice(log: PlannedLog, runner: Runner) -> None:
    log.commits[0] = [gate := Gate()]
    log.add(0, 25)
    runner.assign([0])
    assert gate.reached.wait(PATIENCE)
    for shards in ((), (0,)):
        runner.assign(shards)
    assert log.opened == [0]
    gate.open()

    def all_taken() -> bool:
        assert runner.collect() == []
        runner.assign([0])
        return log.outputs(0) == 25

    log.until(all_taken)
    assert log.opened == [0, 0]


def test_that_a_shard_which_is_to_end_was_taken_over_is_no_news(log: PlannedLog, runner: Runner) -> None:
    log.commits[0] = [gate := Gate(), FencedError("counting/0", 1, 2)]
    log.add(0, 25)
    runner.assign([0])
    assert gate.reached.wait(PATIENCE)
    other = processor(log, 0)
    other.open()
    runner.assign([])
    gate.open()
    log.until(lambda: log.given_back == [0])
    log.until(lambda: runner.collect() == [] and runner.open == frozenset())


# --- closing -----------------------------------------------------------------------------------------------------------------


def test_closing_lets_transactions_end_and_gives_all_shards_back(log: PlannedLog) -> None:
    log.commits[0] = [gate := Gate()]
    log.add(0, 25)
    with Runner(log, partial(processor, log)) as runner:
        runner.assign(range(SHARDS))
        log.until(lambda: runner.open == frozenset(range(SHARDS)))
        assert gate.reached.wait(PATIENCE)
        closing = threading.Thread(target=runner.close)
        closing.start()
        gate.open()
        closing.join(PATIENCE)
        assert sorted(log.given_back) == list(range(SHARDS))
        assert log.outputs(0) == 10
        assert runner.close() == []


def test_closing_does_not_wait_for_ever(log: PlannedLog) -> None:
    log.openings[2] = [gate := Gate()]
    with Runner(log, partial(processor, log)) as runner:
        runner.assign([1, 2])
        assert gate.reached.wait(PATIENCE)
        assert 2 in runner.close(seconds=0.01)
        gate.open()
        assert runner.close() == []
    assert 2 not in log.opened or log.given_back.count(2) == 1


def test_who_was_left_behind_is_not_waited_for_again(log: PlannedLog, caplog: pytest.LogCaptureFixture) -> None:
    log.openings[2] = [gate := Gate()]
    with Runner(log, partial(processor, log)) as runner:
        runner.assign([2])
        assert gate.reached.wait(PATIENCE)
        runner.close(seconds=0.01)
    gate.open()
    assert [record.message for record in caplog.records] == ["shards counting/2 have not ended in time and are left behind"]


def test_a_shard_that_is_being_opened_is_not_waited_for_as_one_at_work(log: PlannedLog) -> None:
    log.openings[2] = [gate := Gate()]
    with Runner(log, partial(processor, log)) as runner:
        runner.assign([2])
        assert gate.reached.wait(PATIENCE)
        begun = time.monotonic()
        assert runner.close() == [2]
        assert time.monotonic() - begun < 5
        gate.open()


def test_a_recovery_that_nobody_wants_ends_at_its_next_record(log: PlannedLog) -> None:
    log.add(0, 200)
    before = processor(log, 0)
    before.open()
    before.step()
    before.close()
    gate, folded = Gate(), []

    class Slow(CountingStage):
        state_version = CountingStage.state_version + 1  # no snapshot

        def evolve(self, state: Any, event: Any) -> None:
            folded.append(event)
            gate()

    with Runner(log, lambda number: Processor(log, Slow(), number)) as runner:
        runner.assign([0])
        assert gate.reached.wait(PATIENCE)
        runner.assign([])
        gate.open()
        assert runner.close(PATIENCE) == []
        assert runner.collect() == []
    assert len(folded) == 1
    assert log.outputs(0) > 1
    assert log.open(ShardId("counting", 0), before.reads).marked() == "", "no process has ended in it"


def test_what_goes_wrong_while_closing_is_told(log: PlannedLog, runner: Runner, caplog: pytest.LogCaptureFixture) -> None:
    gates = {0: Gate(LogDamagedError("torn")), 1: Gate(FencedError("counting/1", 1, 2))}
    for number, gate in gates.items():
        log.commits[number] = [gate]
        log.add(number)
    runner.assign([0, 1])
    assert all(gate.reached.wait(PATIENCE) for gate in gates.values())
    closing = threading.Thread(target=runner.close)
    closing.start()
    for gate in gates.values():
        gate.open()
    closing.join(PATIENCE)
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == [
        "shard counting/0 could not be closed cleanly: torn"
    ]


# --- until quiet -------------------------------------------------------------------------------------------------------------


def run_until_quiet(make: Callable[[int], Processor[Any]], shards: Collection[int]) -> int:
    return Engine([[make(number) for number in shards]], Watchdog(PATIENCE), threads=True).run_until_quiet()


def test_all_shards_run_until_nothing_is_left(log: PlannedLog) -> None:
    for number in range(SHARDS):
        log.add(number, 12 + number)
    assert run_until_quiet(partial(processor, log), range(SHARDS)) == 4 * 12 + 6
    assert [log.outputs(number) for number in range(SHARDS)] == [12, 13, 14, 15]
    assert sorted(log.given_back) == list(range(SHARDS))


def test_a_shard_that_fails_ends_the_others(log: PlannedLog) -> None:
    log.openings[1] = [AWAY]
    for number in range(SHARDS):
        log.add(number)
    with pytest.raises(LogUnavailableError):
        run_until_quiet(partial(processor, log), range(SHARDS))
    assert sorted(log.given_back) == sorted(log.opened)


class Endless(Processor[Any]):
    """There is always more to do; its first step is the moment of something else."""

    at_first: Callable[[], object] | None = None
    until = 0.0

    def step(self) -> int:
        if self.at_first is not None:
            self.at_first()
            self.at_first, self.until = None, time.monotonic() + PATIENCE / 3
        assert not self.until or time.monotonic() < self.until, "it was not ended"
        return 1


def endless(log: MemoryLog, at_first: Callable[[], object], number: int) -> Processor[Any]:
    if number:
        return processor(log, number)
    made = Endless(log, CountingStage(), number)
    made.at_first = at_first
    return made


def test_a_shard_that_fails_ends_the_others_however_much_they_have_to_do(log: PlannedLog) -> None:
    log.openings[1] = [gate := Gate(AWAY)]
    with pytest.raises(LogUnavailableError):
        run_until_quiet(partial(endless, log, gate.open), [0, 1])
    assert log.given_back == [0]


def test_an_interrupt_ends_all_shards(log: PlannedLog) -> None:
    def interrupt() -> None:
        log.until(lambda: log.given_back == [1])
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    before, began = signal.signal(signal.SIGINT, signal.default_int_handler), time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            run_until_quiet(partial(endless, log, interrupt), [0, 1])
    finally:
        signal.signal(signal.SIGINT, before)
    assert log.given_back == [1, 0]
    assert time.monotonic() - began < PATIENCE / 3, "it ended of itself"


# --- by ordinal --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_ordinals_spread_all_shards_and_none_twice(workers: int) -> None:
    shares = [StaticMembership(ordinal, workers, SHARDS).shards() for ordinal in range(workers)]
    assert sorted(shard for share in shares for shard in share) == list(range(SHARDS))
    assert all(shard % workers == ordinal for ordinal, share in enumerate(shares) for shard in share)


@pytest.mark.parametrize(("ordinal", "workers"), [(2, 2), (-1, 2), (4, 5)])
def test_a_worker_that_has_no_shard_is_none(ordinal: int, workers: int) -> None:
    with pytest.raises(ValueError, match=r"does not exist among|has no shard to run"):
        StaticMembership(ordinal, workers, SHARDS)


def test_an_ordinal_that_was_taken_over_gives_up() -> None:
    membership = StaticMembership(0, 2, SHARDS)
    assert membership.is_settled()
    with pytest.raises(FencedError):
        membership.fenced(0, FencedError("counting/0", 1, 2))
