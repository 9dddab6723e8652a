"""The processor: order, timers, poison, parking, accounts, transactions."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import pytest
from counting_stage import BrokenError, CountingStage, Shard, command, custom, node
from prometheus_client import CollectorRegistry

from engine.events import TYPES, Event, Message, NotKeptError, Topic, decode, raw_message
from engine.events.actions import EventRaised, TimerFired
from engine.events.inputs import NodeObserved
from engine.events.outcomes import Accounted, InputReleased, JobParked
from engine.log.errors import FencedError, LogDamagedError, LogError, LogUnavailableError
from engine.log.memory import MemoryLog, MemoryShard
from engine.log.partitioner import partition_of
from engine.log.port import Commit, Partition, Position, Record, ShardId, ShardView
from engine.log.sqlite import SqliteLog
from engine.processor.dead_letters import original
from engine.processor.observer import Batch
from engine.processor.processor import Processor
from engine.processor.recovery import recover
from engine.processor.shard_run import OUTPUT_LIMIT, BrokenStageError
from engine.processor.snapshots import state_hash
from engine.processor.stage import Decision
from engine.runtime.metrics import ProcessorMetrics


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog()


def started(log: MemoryLog | SqliteLog, stage: CountingStage | None = None, **options: Any) -> Processor[Shard]:
    processor = Processor(log, stage or CountingStage(), **options)
    processor.open()
    return processor


def written(log: MemoryLog | SqliteLog, topic: Topic = "job-events") -> list[Event[Any]]:
    return [decode(record.message) for record in log.read(Partition(topic, 0), 0, 1_000_000)]


def told(log: MemoryLog, *, accounts: bool = False) -> list[tuple[str, str]]:
    """Return (key, what) of each event."""
    found = []
    for event in written(log):
        if isinstance(event.data, Accounted) and not accounts:
            continue
        found.append((event.subject, event.data.event if isinstance(event.data, EventRaised) else type(event.data).__name__))
    return found


class TestOrder:
    def test_cluster_is_taken_before_whatever_else_waits(self, log: MemoryLog) -> None:
        log.append("pods", [custom("a", 1, "add", at=10)])
        log.append("cluster", [node("n", 1, 64, at=99)])
        started(log).run_until_quiet()
        assert [event.data.data for event in written(log) if isinstance(event.data, EventRaised)] == [{"by": 1, "cpu": 64}]

    def test_inputs_are_merged_by_recorded_time_then_by_topic(self, log: MemoryLog) -> None:
        log.append("pods", [custom("p", 1, "add", at=10), custom("p", 2, "add", at=30)])
        log.append("jobs", [custom("j", 1, "add", at=10), custom("j", 2, "add", at=20), custom("j", 3, "add", at=40)])
        started(log).run_until_quiet()
        assert [event.causationid for event in written(log)] == ["j-1", "p-1", "j-2", "p-2", "j-3"]

    def test_a_partition_keeps_its_order_whatever_the_times_say(self, log: MemoryLog) -> None:
        log.append("pods", [custom("p", 1, "add", at=50), custom("p", 2, "add", at=10)])
        log.append("jobs", [custom("j", 1, "add", at=20)])
        started(log).run_until_quiet()
        assert [event.causationid for event in written(log)] == ["j-1", "p-1", "p-2"]

    def test_recorded_time_never_falls(self, log: MemoryLog) -> None:
        log.append("pods", [custom("p", 1, "add", at=50), custom("p", 2, "add", at=10)])
        processor = started(log)
        processor.run_until_quiet()
        assert [event.recordedtime for event in written(log)] == [50, 50]
        assert processor.position.now == 50

    def test_a_batch_takes_no_more_than_its_size(self, log: MemoryLog) -> None:
        log.append("pods", [custom("p", number, "add", at=number) for number in range(10)])
        processor = started(log, batch=4)
        assert [processor.step() for _ in range(4)] == [4, 4, 2, 0]

    def test_outputs_carry_the_vector_they_were_decided_on(self, log: MemoryLog) -> None:
        log.append("pods", [custom("p", 1, "add", at=1), custom("p", 2, "nothing", at=2), custom("p", 3, "many", at=3, times=2)])
        started(log).run_until_quiet()
        assert [record.basis for record in log.read(Partition("job-events", 0), 0, 10)] == [
            (0, 0, 1),
            (0, 0, 3),
            (0, 0, 3),
            (0, 0, 3),
        ]

    def test_the_outputs_of_one_input_are_never_split(self, log: MemoryLog) -> None:
        log.append("pods", [custom("p", number, "many", at=number, times=700) for number in range(4)])
        processor = started(log)
        steps = []
        while done := processor.step():
            steps.append((done, processor.position.shardsequence))
        assert steps == [(2, 1_400), (2, 2_800)]
        assert 1_400 > OUTPUT_LIMIT > 700


class TestTimers:
    def test_timers_fire_before_the_input_by_whose_time_they_are_due(self, log: MemoryLog) -> None:
        log.append(
            "pods", [custom("a", 1, "timer", at=10, delays=[30, 5]), custom("b", 1, "add", at=39), custom("b", 2, "add", at=40)]
        )
        started(log).run_until_quiet()
        assert told(log) == [
            ("a", "TimerSet"),
            ("a", "TimerSet"),
            ("a", "TimerFired"),
            ("a", "rang"),
            ("b", "added"),
            ("a", "TimerFired"),
            ("a", "rang"),
            ("b", "added"),
        ]
        fired = [(event.time, event.recordedtime) for event in written(log) if isinstance(event.data, TimerFired)]
        assert fired == [(15, 15), (40, 40)]

    def test_a_timer_that_is_due_at_once_fires_before_the_next_input(self, log: MemoryLog) -> None:
        """Also if that input's producer has a slow clock: the order does not depend on how inputs fall into steps."""
        given = [custom("a", 1, "timer", at=10, delays=[0]), custom("b", 1, "add", at=3)]
        log.append("pods", given)
        started(log).run_until_quiet()
        slow = MemoryLog()
        processor = started(slow)
        for message in given:
            slow.append("pods", [message])
            processor.run_until_quiet()
        assert told(log) == told(slow) == [("a", "TimerSet"), ("a", "TimerFired"), ("a", "rang"), ("b", "added")]

    def test_nothing_fires_in_an_idle_shard_without_a_clock(self, log: MemoryLog) -> None:
        log.append("pods", [custom("a", 1, "timer", at=10, delays=[30])])
        processor = started(log)
        processor.run_until_quiet()
        assert (told(log), processor.timer_due) == ([("a", "TimerSet")], 40)

    def test_in_live_mode_timers_fire_from_the_clock(self, log: MemoryLog) -> None:
        time = [0]
        log.append("pods", [custom("a", 1, "timer", at=10, delays=[30, 50])])
        processor = started(log, clock=lambda: time[0])
        assert (processor.step(), processor.step()) == (1, 0)
        time[0] = 59
        assert (processor.step(), processor.step()) == (1, 0)
        assert processor.position.now == 40
        time[0] = 60
        assert (processor.step(), processor.step()) == (1, 0)
        assert processor.accounts.balanced
        assert processor.accounts.outcomes["applied"] == processor.accounts.received == 1

    def test_a_shard_rests_until_its_earliest_timer(self, log: MemoryLog) -> None:
        live, by_inputs = started(log, clock=lambda: 1_500_000), started(MemoryLog())
        assert (live.rest(9.0), by_inputs.rest(9.0)) == (9.0, 9.0)
        log.append("pods", [custom("a", 1, "timer", at=1_000_000, delays=[1_000_000])])
        live.run_until_quiet()
        assert (live.rest(9.0), live.rest(0.1)) == (0.5, 0.1)

    def test_many_timers_due_at_once_are_fired_in_several_commits(self, log: MemoryLog) -> None:
        log.append("pods", [custom("a", 1, "timer", at=10, delays=[5] * 1_900), custom("b", 1, "add", at=100)])
        processor = started(log)
        sizes = []
        while processor.step():
            sizes.append(processor.position.shardsequence)
        assert len(sizes) > 2
        assert told(log)[-1] == ("b", "added")
        assert processor.accounts.balanced


class TestPoison:
    BAD = (
        raw_message("k", b"\xff\xfe", 5),
        raw_message("k", b'{"specversion": "1.0"}', 6),
        Message("k", "i", "s", "lahar.unknown.v9", "k", 7, 7, 0, "k", "", "c", b"{}"),
        Message("k", "i", "s", "lahar.custom.raised.v1", "k", 8, 8, 3, "k", "cause", "c", b'{"event": 5}'),
    )
    OUTPUT = Message("k", "i", "s", "lahar.job.parked.v1", "k", 7, 7, 0, "k", "", "c", b'{"error": "forged"}')

    @pytest.mark.parametrize("name", ["id", "subject", "source", "clusterid"])
    def test_names_that_every_event_repeats_have_a_bound(self, log: MemoryLog, name: str) -> None:
        """The uid of one pod, three megabytes long, made a file of 57."""
        given = custom("a", 1, "add", at=1)
        longest = given._replace(**{name: "x" * 1_024})
        log.append("pods", [longest, given._replace(**{name: "x" * 1_025}), custom("b", 1, "add", at=2)])
        processor = started(log)
        processor.run_until_quiet()
        assert (processor.accounts.outcomes["dead"], processor.accounts.outcomes["applied"]) == (1, 2)
        (letter,) = written(log, "dead-letters")
        assert letter.data.reason == "its id, subject, source or clusterid is longer than 1,024 characters"

    def test_what_only_the_engine_says_is_no_input(self, log: MemoryLog) -> None:
        log.append("jobs", [self.OUTPUT])
        started(log).run_until_quiet()
        assert [letter.data.reason for letter in written(log, "dead-letters")] == [
            "lahar.job.parked.v1 is not an input: it belongs on the topic job-events"
        ]

    def test_what_cannot_be_read_goes_to_the_dead_letters_with_its_origin(self, log: MemoryLog) -> None:
        log.append("pods", [custom("k", 1, "add", at=1), *self.BAD, custom("k", 2, "add", at=9)])
        processor = started(log)
        processor.run_until_quiet()
        letters = written(log, "dead-letters")
        assert [letter.sequence for letter in letters] == [1, 2, 3, 4]
        assert [(letter.data.topic, letter.data.partition, letter.data.offset) for letter in letters] == [
            ("pods", 0, offset) for offset in range(1, 5)
        ]
        assert [base64.b64decode(letter.data.content) for letter in letters] == [bad.data for bad in self.BAD]
        assert len({letter.id for letter in letters}) == 4
        assert {letter.subject for letter in letters} == {"counting/0"}
        assert "lahar.unknown.v9" in letters[2].data.reason
        assert "event" in letters[3].data.reason
        assert processor.state.counters["k"].total == 2
        assert processor.accounts.outcomes["dead"] == 4

    def test_a_dead_letter_gives_back_what_came(self, log: MemoryLog) -> None:
        log.append("jobs", list(self.BAD))
        started(log).run_until_quiet()
        assert [original(letter.data) for letter in written(log, "dead-letters")] == list(self.BAD)

    def test_a_dead_letter_keeps_the_key(self, log: MemoryLog) -> None:
        log.append("jobs", list(self.BAD))
        started(log).run_until_quiet()
        assert [record.message.key for record in log.read(Partition("dead-letters", 0), 0, 9)] == ["k"] * 4

    def test_an_unreadable_absorbed_input_is_not_absorbed_by_a_later_release(
        self, log: MemoryLog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A type that becomes known must not rewrite what followed when it was not."""
        log.append("cluster", [node("n", 1, 64, at=1)])
        live = started(log)
        with monkeypatch.context() as patch:
            patch.setattr("engine.events.envelope.TYPES", {name: cls for name, cls in TYPES.items() if cls is not NodeObserved})
            live.run_until_quiet()
        log.append("cluster", [node("m", 1, 32, at=2)])
        live.run_until_quiet()
        fresh = started(log, Reversioned())
        assert fresh.state.nodes == live.state.nodes == {"m": 32}


class Reversioned(CountingStage):
    """Cannot read the snapshots of the other one."""

    state_version = 2


class TestParking:
    def test_an_input_that_decide_fails_on_is_parked_and_the_rest_goes_on(self, log: MemoryLog) -> None:
        log.append("pods", [custom("a", 1, "add", at=1), custom("a", 2, "fail", at=2), custom("a", 3, "add", at=3)])
        log.append("pods", [custom("b", 1, "add", at=4)])
        processor = started(log)
        processor.run_until_quiet()
        assert told(log) == [("a", "added"), ("a", "JobParked"), ("a", "InputParked"), ("a", "InputParked"), ("b", "added")]
        assert [event.data.error for event in written(log) if isinstance(event.data, JobParked)] == ["BrokenError: a-2"]
        assert (processor.accounts.outcomes["parked"], processor.accounts.balanced) == (2, True)

    def test_nothing_of_the_failed_attempt_remains(self, log: MemoryLog) -> None:
        log.append("pods", [custom("a", 1, "add", at=1), custom("a", 2, "fail", at=2)])
        processor = started(log)
        processor.run_until_quiet()
        assert "half done" not in {what for _, what in told(log)}
        assert state_hash(processor.stage, processor.state) == state_hash(CountingStage(), started(log).state)

    def test_several_failures_of_a_batch_are_all_parked(self, log: MemoryLog) -> None:
        log.append("pods", [custom(key, 1, "fail", at=1) for key in "abc"])
        processor = started(log)
        processor.run_until_quiet()
        assert [key for key, what in told(log) if what == "JobParked"] == ["a", "b", "c"]

    def test_an_input_that_cannot_even_be_parked_is_a_dead_letter(self, log: MemoryLog) -> None:
        log.append("pods", [custom("a", 1, "fail", at=1, unparkable=True), custom("a", 2, "add", at=2)])
        processor = started(log)
        processor.run_until_quiet()
        assert [letter.data.reason for letter in written(log, "dead-letters")] == ["BrokenError: cannot be parked either"]
        assert (processor.state.counters["a"].total, processor.accounts.balanced) == (1, True)

    def test_an_input_of_which_a_part_cannot_be_kept_leaves_nothing_but_that(self, log: MemoryLog) -> None:
        class Full(CountingStage):
            def decide(self, state: Shard, event: Event[Any], now: int) -> Decision:
                yield from super().decide(state, event, now)
                raise NotKeptError("no room")

        log.append("pods", [custom("a", 1, "add", at=1)])
        started(log, Full()).run_until_quiet()
        assert told(log) == [("a", "JobParked"), ("a", "InputParked")]

    def test_a_timer_that_fails_in_the_stage_parks_its_job_and_others_go_on(self, log: MemoryLog) -> None:
        log.append("pods", [custom("a", 1, "timer", at=1, delays=[10]), custom("b", 1, "add", at=2)])
        log.append("cluster", [node("silencer", 1, 1, at=3)])
        log.append("pods", [custom("b", 2, "add", at=20)])
        processor = started(log)
        processor.run_until_quiet()
        assert [what for key, what in told(log) if key == "a"] == ["TimerSet", "TimerFired", "JobParked"]
        assert processor.state.counters["b"].total == 2
        assert processor.accounts.balanced
        assert state_hash(processor.stage, processor.state) == state_hash(CountingStage(), started(log).state)

    def test_a_timer_that_the_stage_fails_on_while_nothing_waits_parks_its_job(self, log: MemoryLog) -> None:
        log.append("pods", [custom("a", 1, "timer", at=1, delays=[10])])
        log.append("cluster", [node("silencer", 1, 1, at=3)])
        processor = started(log)
        processor.run_until_quiet()
        assert processor.fire_due(100) == 1
        assert [what for key, what in told(log) if key == "a"] == ["TimerSet", "TimerFired", "JobParked"]

    def test_a_timer_of_an_unparkable_job_is_dropped_and_others_go_on(self, log: MemoryLog) -> None:
        """Otherwise no process could ever get beyond it."""
        log.append("pods", [custom("a", 1, "timer", at=1, delays=[10, 30]), custom("b", 1, "add", at=2)])
        log.append("cluster", [node("silencer", 1, 1, at=3), node("mute", 2, 1, at=3)])
        log.append("pods", [custom("b", 2, "nothing", at=3), custom("b", 3, "add", at=20), custom("a", 2, "add", at=21)])
        processor = started(log)
        processor.run_until_quiet()
        assert [what for key, what in told(log) if key == "a"] == ["TimerSet", "TimerSet", "TimerFired", "dropped", "added"]
        (dropped,) = [event.data for event in written(log) if isinstance(event.data, EventRaised) and event.data.event == "dropped"]
        assert dropped.data == {"error": "BrokenError: a job that cannot be parked"}
        assert processor.state.counters["b"].total == 2
        assert (processor.timer_due, processor.accounts.balanced) == (31, True)
        assert state_hash(processor.stage, processor.state) == state_hash(CountingStage(), started(log).state)

    def test_a_timer_that_cannot_be_dropped_either_stops_the_shard(self, log: MemoryLog) -> None:
        class Helpless(CountingStage):
            def drop(self, state: Shard, now: int, error: str) -> Any:
                raise BrokenError(f"not dropped after {error}")

        log.append("cluster", [node("silencer", 1, 1, at=3), node("mute", 2, 1, at=3)])
        log.append("pods", [custom("a", 1, "timer", at=1, delays=[10]), custom("b", 3, "add", at=20)])
        with pytest.raises(BrokenError, match="not dropped after BrokenError: a job that cannot be parked"):
            started(log, Helpless()).run_until_quiet()

    def test_released_inputs_move_on_in_the_accounts(self, log: MemoryLog) -> None:
        log.append("pods", [custom("a", 1, "fail", at=1), custom("a", 2, "add", at=2)])
        processor = started(log)
        processor.run_until_quiet()
        log.append("cluster", [node("fixed", 1, 1, at=3)])
        log.append("jobs", [command("a", 9, at=4)])
        processor.run_until_quiet()
        assert [event.data.outcome for event in written(log) if isinstance(event.data, InputReleased)] == ["applied", "applied"]
        assert (processor.accounts.outcomes["parked"], processor.accounts.outcomes["applied"]) == (0, 3)
        assert processor.accounts.balanced

    def test_an_outcome_without_an_event_parks_the_input(self, log: MemoryLog) -> None:
        class Silent(CountingStage):
            def _act(self, make: Any, state: Shard, event: Event[Any], now: int) -> Any:
                yield from ()
                return "applied"

        log.append("pods", [custom("a", 1, "add", at=1)])
        started(log, Silent()).run_until_quiet()
        assert [event.data.error for event in written(log) if isinstance(event.data, JobParked)] == [
            "BrokenStageError: outcome 'applied' without an event"
        ]

    def test_an_error_of_the_log_is_nobodys_fault_but_the_logs(self, log: MemoryLog) -> None:
        class Unlucky(CountingStage):
            def _act(self, make: Any, state: Shard, event: Event[Any], now: int) -> Any:
                raise LogUnavailableError("the disk is full")
                yield

        log.append("pods", [custom("a", 1, "add", at=1)])
        processor = started(log, Unlucky())
        with pytest.raises(LogUnavailableError):
            processor.step()
        assert (written(log), processor.is_open) == ([], False)

    def test_a_timer_that_fires_without_an_event_stops_the_shard(self, log: MemoryLog) -> None:
        class Endless(CountingStage):
            def fire(self, state: Shard, now: int, error: str | None = None) -> Iterator[Any]:
                yield from ()

            def drop(self, state: Shard, now: int, error: str) -> Iterator[Any]:
                yield from ()

        log.append("pods", [custom("a", 1, "timer", at=1, delays=[0])])
        processor = started(log, Endless())
        with pytest.raises(BrokenStageError, match="due at 1"):
            processor.run_until_quiet()
        assert not processor.is_open


class TestAccounts:
    def test_inputs_without_events_are_counted_in_one_event_a_commit(self, log: MemoryLog) -> None:
        log.append("pods", [custom("a", 1, "add", at=1)] * 3 + [custom("a", number, "nothing", at=2) for number in range(2, 6)])
        processor = started(log)
        processor.run_until_quiet()
        [accounted] = [event for event in written(log) if isinstance(event.data, Accounted)]
        assert accounted.data == Accounted(2, duplicate=2, unchanged=4)
        assert (accounted.subject, accounted.sequence, accounted.clusterid) == ("counting/0", 1, "")
        assert processor.accounts.outcomes | {"applied": 1, "duplicate": 2, "unchanged": 4} == processor.accounts.outcomes
        assert processor.accounts.received == 7

    def test_accounts_come_back_with_the_shard(self, log: MemoryLog) -> None:
        log.append("pods", [custom("a", number % 4, "add", at=number) for number in range(20)])
        processor = started(log, batch=3)
        processor.run_until_quiet()
        again = started(log)
        assert (again.accounts.outcomes, again.accounts.received) == (processor.accounts.outcomes, 20)
        log.append("pods", [custom("a", 0, "add", at=99)])
        again.run_until_quiet()
        assert (again.accounts.outcomes["duplicate"], again.accounts.balanced) == (17, True)


class Flaky(MemoryLog):
    """Its disk may be full."""

    failing = False

    def open(self, shard: ShardId, inputs: Any) -> Any:
        held = super().open(shard, inputs)
        commit = held.commit

        def fails(what: Commit) -> Position:
            if self.failing:
                raise LogUnavailableError("the disk is full")
            return commit(what)

        held.commit = fails  # type: ignore[method-assign]
        return held


class TestTransactions:
    def test_a_fenced_processor_stops_and_leaves_nothing(self, log: MemoryLog) -> None:
        log.append("pods", [custom("a", 1, "add", at=1)])
        first, second = started(log), started(log)
        with pytest.raises(FencedError):
            first.step()
        with pytest.raises(LogError, match="not open"):
            first.step()
        second.run_until_quiet()
        assert told(log) == [("a", "added")]

    def test_after_a_failed_commit_the_shard_is_opened_again_and_goes_on(self) -> None:
        flaky = Flaky()
        flaky.append("pods", [custom("a", 1, "add", at=1)])
        processor = started(flaky)
        flaky.failing = True
        with pytest.raises(LogUnavailableError):
            processor.step()
        assert not processor.is_open
        flaky.failing = False
        processor.open()
        processor.run_until_quiet()
        assert told(flaky) == [("a", "added")]

    def test_after_a_snapshot_that_failed_to_write_the_shard_is_reopened(self) -> None:
        flaky = Flaky()
        flaky.append("pods", [custom("a", 1, "add", at=1)])
        processor = started(flaky)
        processor.step()
        flaky.failing = True
        with pytest.raises(LogUnavailableError):
            processor.run_until_quiet()
        assert not processor.is_open
        flaky.failing = False
        processor.open()
        processor.run_until_quiet()
        flaky.append("pods", [custom("a", number, "add", at=1) for number in range(2, 22)])
        assert processor.step() == 20, "a failed snapshot says nothing about how much a commit may hold"
        processor.run_until_quiet()
        assert state_hash(processor.stage, started(flaky).state) == state_hash(processor.stage, processor.state)

    def test_a_snapshot_is_written_in_parts_of_bounded_size(self, log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("engine.processor.snapshots._CYCLE_BYTES", 1)
        log.append("pods", [custom(key, 1, "add", at=1) for key in "abc"])
        processor = started(log, snapshot_every=1_000_000)
        left = []
        while processor.step() or processor.snapshot_dirty:
            left.append(processor.snapshot_dirty)
        assert left == [3, 2, 1]

    def test_a_processor_that_was_never_open_is_closed(self, log: MemoryLog) -> None:
        Processor(log, CountingStage()).close()

    def test_a_commit_observer_receives_the_counts_of_inputs_and_timers(self, log: MemoryLog) -> None:
        class Told(ProcessorMetrics):
            batches: ClassVar[list[tuple[int, int, int]]] = []

            def committed(self, batch: Batch) -> None:
                self.batches.append((batch.inputs, batch.timers, batch.outputs))

        log.append("pods", [custom("a", 1, "timer", at=1, delays=[5, 6]), custom("a", 2, "add", at=9)])
        started(log, observer=Told(CollectorRegistry())).run_until_quiet()
        assert Told.batches == [(2, 2, log.end(Partition("job-events", 0))), (0, 0, 0)]

    def test_what_was_recovered_stays_unwritten_until_it_is_written(self, log: MemoryLog) -> None:
        """Else a snapshot of a part of it would say that it is all there."""
        log.append("pods", [custom(key, 1, "add", at=1) for key in "abc"])
        started(log, snapshot_every=1_000_000).step()
        processor = started(log, snapshot_every=2)
        log.append("pods", [custom("d", 1, "add", at=2)])
        processor.step()
        assert processor.snapshot_dirty == 2, "the snapshot holds a part of it"
        assert state_hash(processor.stage, started(log).state) == state_hash(processor.stage, processor.state)

    def test_missing_output_is_damage(self) -> None:
        class Lossy(MemoryLog):
            def read(self, partition: Partition, start: int, limit: int) -> list[Record]:
                return [record for record in super().read(partition, start, limit) if record.shardsequence != 2]

        lossy = Lossy()
        lossy.append("pods", [custom("a", number, "add", at=1) for number in range(4)])
        started(lossy).step()
        with pytest.raises(LogDamagedError, match=r"output 2 of shard counting/0 is missing \(job-events/0 continues after it\)"):
            started(lossy, Reversioned())

    def test_a_missing_end_of_the_output_is_damage(self) -> None:
        class Cut(MemoryLog):
            def read(self, partition: Partition, start: int, limit: int) -> list[Record]:
                return [record for record in super().read(partition, start, limit) if record.shardsequence < 3]

        cut = Cut()
        cut.append("pods", [custom("a", number, "add", at=1) for number in range(4)])
        started(cut).step()
        with pytest.raises(LogDamagedError, match=r"output 3 of shard counting/0 is missing \(the topics end before it\)"):
            started(cut, Reversioned())

    def test_a_fact_taken_before_and_unreadable_now_stops_the_recovery(self) -> None:
        class Newer(MemoryLog):
            newer = False

            def read(self, partition: Partition, start: int, limit: int) -> list[Record]:
                found = super().read(partition, start, limit)
                if not self.newer or partition.topic != "cluster":
                    return found
                return [record._replace(message=record.message._replace(type="lahar.node.observed.v9")) for record in found]

        log = Newer()
        log.append("cluster", [node("n", 1, 64, at=1)])
        log.append("pods", [custom("a", 1, "add", at=2)])
        started(log).step()
        log.newer = True
        with pytest.raises(LogError, match="cluster/0 at 0 was read by another release"):
            started(log, Reversioned())

    def test_facts_behind_a_gap_are_absorbed_when_their_turn_comes(self) -> None:
        """Kafka lets facts go that later ones replace."""

        class Compacted(MemoryLog):
            gone: frozenset[int] = frozenset()

            def read(self, partition: Partition, start: int, limit: int) -> list[Record]:
                if partition.topic != "cluster":
                    return super().read(partition, start, limit)
                return [record for record in super().read(partition, start, 1_000) if record.offset not in self.gone][:limit]

        log = Compacted()
        processor = started(log)
        for number in range(5):
            log.append("cluster", [node(f"n{number}", number, 1, at=number)])
            log.append("pods", [custom("a", number, "add", at=number)])
            processor.run_until_quiet()
        log.gone = frozenset({1, 2})
        again = started(log, Reversioned())
        assert list(again.state.nodes) == ["n0", "n3", "n4"]

    def test_two_shards_share_the_partitions_of_a_wide_log(self) -> None:
        log = MemoryLog(2)
        log.append("pods", [custom(f"key{number}", 1, "add", at=number) for number in range(20)])
        log.append("cluster", [node("n", 1, 8, at=0)])
        processors = [Processor(log, CountingStage(), number) for number in range(2)]
        for processor in processors:
            processor.open()
            processor.run_until_quiet()
        assert sum(len(processor.state.counters) for processor in processors) == 20
        assert all(processor.state.nodes == {"n": 8} for processor in processors)
        assert all(len(processor.state.counters) > 3 for processor in processors)

    def test_inputs_appended_by_another_connection_are_taken(self, tmp_path: Path) -> None:
        log, beside = SqliteLog(tmp_path / "lahar.db"), SqliteLog(tmp_path / "lahar.db")
        processor = started(log)
        for number in range(3):
            beside.append("pods", [custom("a", number, "add", at=number)])
            assert processor.step() == 1
        assert processor.state.counters["a"].total == 3
        log.close()
        beside.close()


def test_log_that_fails_while_a_commit_is_made_closes_the_shard() -> None:
    """Whatever fails between deciding and the end of the commit, the memory is ahead of the log."""

    class Endless(MemoryLog):
        def end(self, partition: Partition) -> int:
            if partition.topic == "job-events":
                raise LogError("gone")
            return super().end(partition)

    log = Endless()
    processor = Processor(log, CountingStage(), snapshot_every=1)
    processor.open()
    log.append("pods", [custom("a", number, "add", at=1, times=1_999) for number in range(1, 4)])
    with pytest.raises(LogError, match="gone"):
        processor.run_until_quiet()
    assert not processor.is_open


class Slow(MemoryLog):
    """Too slow for a commit of more than `fits` outputs."""

    def __init__(self, fits: int) -> None:
        super().__init__()
        self.fits = fits
        self.sizes: list[int] = []

    def open(self, shard: ShardId, inputs: Sequence[Partition]) -> MemoryShard:
        held = super().open(shard, inputs)
        write = held.commit

        def commit(commit: Commit) -> Position:
            self.sizes.append(len(commit.outputs))
            if self.sizes[-1] > self.fits:
                raise LogUnavailableError("no answer within 10 s")
            return write(commit)

        held.commit = commit  # type: ignore[method-assign]
        return held


@pytest.mark.parametrize("asked", ["add", "timer"])
def test_a_log_that_is_too_slow_for_a_whole_commit_is_given_less_at_once(asked: str) -> None:
    """A broker that holds its answers back would be asked for the same again and again, and the shard would stand still."""

    def work(steps: int) -> int:
        """Return how many commits failed."""
        failures = 0
        for _ in range(steps):
            try:
                if not processor.is_open:
                    processor.open()
                if not (processor.step() or processor.fire_due(2_000)):
                    break
            except LogUnavailableError:
                failures += 1
        return failures

    def inputs(first: int, end: int) -> list[Message]:
        return [custom("a", number, asked, at=number, delays=[1_000]) for number in range(first, end)]

    log = Slow(0)
    log.append("pods", inputs(0, 200))
    processor = Processor(log, CountingStage(), batch=64)
    assert work(20) == 20
    assert log.sizes[0] >= 64
    assert max(log.sizes[10:]) <= 3, "an input, what it leads to, and the accounts"
    assert log.read(Partition("job-events", 0), 0, 1) == []
    log.fits = 20
    log.sizes.clear()
    failed = work(1_000)
    assert processor.step() == processor.fire_due(2_000) == 0
    assert processor.received == 200
    assert 0 < failed < len(log.sizes) / 4
    log.fits = 1_000
    log.sizes.clear()
    log.append("pods", inputs(200, 2_000))
    assert work(1_000) == 0
    assert processor.received == 2_000
    assert max(log.sizes) >= 64, "with time a commit is as large as before"


def test_a_large_input_behind_small_ones_does_not_hold_them_up() -> None:
    """Together they are more than the log can write in time; each for itself is not."""
    log = Slow(20)
    small = [custom("a", number, "add", at=number) for number in range(5)]
    log.append("pods", [*small, custom("a", 9, "add", at=9, times=18)])
    processor = Processor(log, CountingStage())
    for _ in range(20):
        with suppress(LogUnavailableError):
            if not processor.is_open:
                processor.open()
            processor.step()
    assert processor.received == 6


def test_a_shard_whose_inputs_end_before_what_it_has_taken_is_not_opened() -> None:
    """What is appended to a topic that was made anew would never be read."""
    log = MemoryLog()
    log.append("jobs", [custom("a", number, "add", at=10) for number in range(3)])
    started(log).run_until_quiet()
    log.records[Partition("jobs", 0)].clear()
    with pytest.raises(LogDamagedError, match=r"jobs/0 ends at 0, but shard counting/0 has read up to 3"):
        started(log)


def test_absorbed_inputs_missing_in_a_log_are_not_taken_for_never_read() -> None:
    """What was decided followed from them: without them another state is built."""
    log = MemoryLog()
    log.append("cluster", [node("n", 1, 64, at=1)])
    live = started(log)
    live.run_until_quiet()
    log.append("jobs", [custom("a", 1, "add", at=2)])
    live.run_until_quiet()
    view = log.look(live.shard)
    assert view is not None
    log.records[Partition("cluster", 0)].clear()
    with pytest.raises(LogDamagedError, match=r"cluster/0 ends at 0, but shard counting/0 has read up to 1"):
        recover(log, CountingStage(), live.shard, ShardView(view.position, []), 1)


def dead_reasons(log: MemoryLog) -> list[str]:
    numbers = range(log.partitions("dead-letters"))
    return [decode(found.message).data.reason for n in numbers for found in log.read(Partition("dead-letters", n), 0, 100)]  # type: ignore[attr-defined]


@pytest.mark.parametrize(("topic", "right"), [("cluster", "jobs"), ("pods", "cluster")])
def test_an_input_on_a_topic_of_another_reach_is_a_dead_letter(topic: Topic, right: Topic) -> None:
    """What every shard takes would be decided by each of them, and a fact that one shard takes would be unknown to the others."""
    log = MemoryLog(3)
    log.append(topic, [custom("a", 1, "add", at=1) if topic == "cluster" else node("n", 1, 1, at=1)._replace(key="n", subject="n")])
    for number in range(3):
        processor = Processor(log, CountingStage(), number)
        processor.open()
        processor.run_until_quiet()
        assert processor.state.counters == processor.state.nodes == {}
    assert {reason.partition(" ")[2] for reason in dead_reasons(log)} == {f"belongs on the topic {right}, not on {topic}"}


def test_an_input_of_which_not_even_a_letter_can_be_written_ends_the_work(log: MemoryLog) -> None:
    """It would be taken again and again without an end."""
    log.append("pods", [raw_message("a", b"x", 1)._replace(source="\ud800")])
    processor = started(log)
    with pytest.raises(Exception, match="surrogates not allowed"):
        processor.step()
    assert not processor.is_open


def test_an_input_under_a_foreign_key_is_a_dead_letter() -> None:
    """Its subject is another shard's: two shards would have a state of it, with the same sequences."""
    log = MemoryLog(3)
    keys = {partition_of(key, 3): key for key in "abcdefgh"}
    log.append("pods", [custom(keys[0], 1, "add", at=1), custom(keys[0], 2, "add", at=2)._replace(key=keys[1])])
    processors = [Processor(log, CountingStage(), number) for number in range(3)]
    for processor in processors:
        processor.open()
        processor.run_until_quiet()
    assert [list(processor.state.counters) for processor in processors] == [[keys[0]], [], []]
    assert dead_reasons(log) == [f"its subject {keys[0]!r} belongs to partition 0: use the subject as the key"]


def test_outputs_that_change_no_subject_do_not_lengthen_the_tail(log: MemoryLog) -> None:
    """A shard that is fed nothing but garbage is as quick to recover as any."""
    processor = started(log, snapshot_every=20, batch=5)
    log.append("pods", [custom("a", 1, "add", at=1), *(raw_message("b", b"\xff", 2) for _ in range(200))])
    while processor.step():
        assert processor.position.shardsequence - processor.snapshot_low.shardsequence < 20 + 5
    again = started(log)
    assert again.accounts.outcomes == processor.accounts.outcomes
    assert state_hash(again.stage, again.state) == state_hash(processor.stage, processor.state)
