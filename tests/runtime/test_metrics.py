"""What operators see of the processors."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from threading import Event, Thread, get_ident

import pytest
from counting_stage import CountingStage, Shard, command, custom, node
from prometheus_client import CollectorRegistry, generate_latest

from engine.events import raw_message
from engine.log.errors import FencedError, LogUnavailableError
from engine.log.memory import MemoryLog
from engine.log.port import Partition, Record
from engine.processor.observer import Observers
from engine.processor.processor import Processor
from engine.runtime.metrics import ProcessorMetrics

SHARD = {"stage": "counting", "shard": "0"}


def test_every_input_is_counted_once_it_is_committed() -> None:
    log, registry = MemoryLog(), CollectorRegistry()
    processor = Processor(log, CountingStage(), observer=ProcessorMetrics(registry))
    processor.open()
    log.append("pods", [custom("a", 1, "add", at=1), custom("a", 1, "add", at=2), custom("b", 1, "fail", at=3)])
    log.append("pods", [raw_message("c", b"?", 4), custom("a", 2, "timer", at=4, delays=[2_000_000])])

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, {**SHARD, **labels})

    assert (value("lahar_lag_records"), processor.lag(), value("lahar_inputs_received_total")) == (5, 5, 0)
    processor.run_until_quiet()
    assert (value("lahar_lag_records"), processor.lag(), value("lahar_inputs_received_total")) == (0, 0, 5)
    assert [value("lahar_inputs_total", outcome=outcome) for outcome in ("applied", "duplicate", "dead")] == [2, 1, 1]
    assert value("lahar_inputs_held", outcome="parked") == 1
    assert value("lahar_timer_due_timestamp_seconds") == pytest.approx(2.000004)
    assert (value("lahar_snapshot_tail_records"), value("lahar_snapshot_dirty_subjects")) == (0, 0)
    assert value("lahar_commit_records_sum") == value("lahar_outputs_total") == processor.position.shardsequence
    log.append("cluster", [node("fixed", 1, 1, at=5)])
    log.append("jobs", [command("b", 9, at=6)])
    processor.run_until_quiet()
    assert (value("lahar_inputs_held", outcome="parked"), value("lahar_inputs_total", outcome="applied")) == (0, 4)


def test_counters_go_on_after_a_restart() -> None:
    log = MemoryLog()
    for number in range(3):
        log.append("pods", [custom("a", number, "add", at=number)])
        registry = CollectorRegistry()
        processor = Processor(log, CountingStage(), observer=ProcessorMetrics(registry))
        processor.open()
        processor.run_until_quiet()
        assert registry.get_sample_value("lahar_inputs_total", {**SHARD, "outcome": "applied"}) == number + 1


def test_refused_commits_are_counted_and_a_closed_shard_is_not_shown() -> None:
    log, registry = MemoryLog(), CollectorRegistry()
    processor = Processor(log, CountingStage(), observer=ProcessorMetrics(registry))
    processor.open()
    assert registry.get_sample_value("lahar_shard_open", SHARD) == 1
    Processor(log, CountingStage()).open()
    log.append("pods", [custom("a", 1, "add", at=1)])
    with pytest.raises(FencedError):
        processor.step()
    assert registry.get_sample_value("lahar_shard_open", SHARD) == 0
    assert registry.get_sample_value("lahar_commit_failures_total", {**SHARD, "error": "FencedError"}) == 1
    assert registry.get_sample_value("lahar_inputs_received_total", SHARD) is None


def test_labels_are_bounded() -> None:
    log, registry = MemoryLog(), CollectorRegistry()
    processor = Processor(log, CountingStage(), observer=ProcessorMetrics(registry))
    processor.open()
    log.append("pods", [custom(f"key{number}", 1, "add", at=1) for number in range(100)])
    processor.run_until_quiet()
    assert b"key1" not in generate_latest(registry)


class GuardedStage(CountingStage):
    """Knows which threads ask it when its earliest timer fires: the answer drops what no longer holds from the state."""

    def __init__(self) -> None:
        self.asked_by: set[int] = set()

    def due(self, state: Shard) -> int | None:
        self.asked_by.add(get_ident())
        return super().due(state)


def test_who_scrapes_does_not_touch_the_state() -> None:
    """A scrape comes from another thread, in the middle of a batch: asking the stage there could lose a timer."""
    log, registry, stage = MemoryLog(), CollectorRegistry(), GuardedStage()
    processor = Processor(log, stage, observer=ProcessorMetrics(registry))
    processor.open()
    log.append("pods", [custom("a", 1, "timer", at=4, delays=[2_000_000])])
    processor.run_until_quiet()
    texts: list[bytes] = []
    scraper = Thread(target=lambda: texts.append(generate_latest(registry)))
    scraper.start()
    scraper.join()
    assert b"lahar_timer_due_timestamp_seconds" in texts[0]
    assert stage.asked_by == {get_ident()}


def test_shard_that_closes_during_a_scrape_hides_no_other() -> None:
    class Closing(Processor[Shard]):
        @property
        def received(self) -> int:
            self.close()
            return super().received

    log, registry = MemoryLog(2), CollectorRegistry()
    metrics = ProcessorMetrics(registry)
    for processor in (Closing(log, CountingStage(), 0, observer=metrics), Processor(log, CountingStage(), 1, observer=metrics)):
        processor.open()
    assert registry.get_sample_value("lahar_inputs_received_total", SHARD) is None
    Closing(log, CountingStage(), 0, observer=metrics).open()
    assert registry.get_sample_value("lahar_inputs_received_total", {**SHARD, "shard": "1"}) == 0


def test_lag_is_told_by_partition_and_as_an_age() -> None:
    log, registry = MemoryLog(), CollectorRegistry()
    processor = Processor(log, CountingStage(), batch=2, observer=ProcessorMetrics(registry, clock=lambda: 100.0))
    processor.open()
    log.append("pods", [custom("a", number, "add", at=number * 10_000_000) for number in (3, 4, 5, 6)])
    log.append("jobs", [custom("a", 9, "add", at=90_000_000)])

    def lag(topic: str) -> tuple[float | None, float | None]:
        place = {**SHARD, "topic": topic, "partition": "0"}
        return (
            registry.get_sample_value("lahar_partition_lag_records", place),
            registry.get_sample_value("lahar_partition_lag_seconds", place),
        )

    assert lag("pods") == (4, 0), "nothing is at hand yet: how long it waits is not known"
    processor.step()
    assert (lag("pods"), lag("jobs"), lag("cluster")) == ((2, 50), (1, 10), (0, 0))
    assert registry.get_sample_value("lahar_lag_seconds", SHARD) == 50
    assert registry.get_sample_value("lahar_lag_records", SHARD) == 3
    assert registry.get_sample_value("lahar_lso_lag_records", {"topic": "pods", "partition": "0"}) is None
    processor.run_until_quiet()
    assert (lag("pods"), lag("jobs"), registry.get_sample_value("lahar_lag_seconds", SHARD)) == ((0, 0), (0, 0), 0)


def test_an_input_from_a_clock_that_is_ahead_has_waited_for_no_time() -> None:
    log, registry = MemoryLog(), CollectorRegistry()
    processor = Processor(log, CountingStage(), batch=1, observer=ProcessorMetrics(registry, clock=lambda: 1.0))
    processor.open()
    log.append("pods", [custom("a", number, "add", at=5_000_000) for number in (1, 2)])
    processor.step()
    assert registry.get_sample_value("lahar_lag_seconds", SHARD) == 0
    assert registry.get_sample_value("lahar_lag_records", SHARD) == 1


def test_the_size_of_the_state_counts_what_has_a_record_or_will_have_one() -> None:
    log = MemoryLog()

    def opened(every: int) -> tuple[Processor[Shard], CollectorRegistry]:
        registry = CollectorRegistry()
        processor = Processor(log, CountingStage(), observer=ProcessorMetrics(registry), snapshot_every=every)
        processor.open()
        return processor, registry

    def subjects(registry: CollectorRegistry) -> float | None:
        return registry.get_sample_value("lahar_state_subjects", SHARD)

    processor, registry = opened(100_000)
    log.append("pods", [custom(f"key{number}", 1, "add", at=1) for number in range(7)])
    processor.step()
    assert (subjects(registry), registry.get_sample_value("lahar_snapshot_dirty_subjects", SHARD)) == (7, 7)
    processor.run_until_quiet()
    assert (subjects(registry), registry.get_sample_value("lahar_snapshot_dirty_subjects", SHARD)) == (7, 0)
    log.append("pods", [custom("key1", 2, "forget", at=2), custom("key2", 2, "forget", at=2)])
    processor.run_until_quiet()
    assert subjects(registry) == 6, "five keys, and the list of those forgotten"
    assert subjects(opened(100_000)[1]) == 6


def test_parked_jobs_and_dead_letters_are_shown_and_go_on_after_a_restart() -> None:
    log = MemoryLog()

    def opened() -> tuple[Processor[Shard], CollectorRegistry]:
        registry = CollectorRegistry()
        processor = Processor(log, CountingStage(), observer=ProcessorMetrics(registry))
        processor.open()
        return processor, registry

    def shown(registry: CollectorRegistry) -> list[float | None]:
        return [registry.get_sample_value(name, SHARD) for name in ("lahar_parked_jobs", "lahar_dead_letters_total")]

    processor, registry = opened()
    log.append("pods", [custom("a", 1, "fail", at=1), custom("a", 2, "add", at=2), custom("b", 1, "fail", at=3)])
    log.append("pods", [raw_message("c", b"?", 4)])
    assert shown(registry) == [0, 0]
    processor.run_until_quiet()
    assert shown(registry) == [2, 1]
    log.append("cluster", [node("fixed", 1, 1, at=5)])
    log.append("jobs", [command("b", 9, at=6)])
    processor.run_until_quiet()
    assert shown(registry) == [1, 1]
    assert shown(opened()[1]) == [1, 1]


def test_what_recovery_folded_is_told() -> None:
    log = MemoryLog()
    first = Processor(log, CountingStage(), snapshot_every=1_000_000)
    first.open()
    log.append("pods", [custom("a", number, "add", at=number) for number in range(20)])
    first.step()
    registry = CollectorRegistry()
    Processor(log, CountingStage(), observer=ProcessorMetrics(registry)).open()
    assert registry.get_sample_value("lahar_recovery_events", SHARD) == first.position.shardsequence == 20
    assert registry.get_sample_value("lahar_recovery_seconds_count", SHARD) == 1


def test_a_shard_that_is_lost_is_shown_as_not_open_until_it_is_given_back() -> None:
    log, registry = MemoryLog(), CollectorRegistry()
    turned = [10.0]
    processor = Processor(log, CountingStage(), observer=ProcessorMetrics(registry, monotonic=lambda: turned[0]))

    def shown(*names: str) -> list[float | None]:
        return [registry.get_sample_value(name, SHARD) for name in names]

    assert shown("lahar_shard_open", "lahar_aborts_total", "lahar_fences_total") == [None, None, None]
    processor.open()
    assert shown("lahar_shard_open", "lahar_aborts_total", "lahar_fences_total") == [1, 0, 0]
    Processor(log, CountingStage()).open()
    log.append("pods", [custom("a", 1, "add", at=1)])
    with pytest.raises(FencedError):
        processor.step()
    turned[0] = (processor.moved or 0.0) + 30
    assert shown("lahar_shard_open", "lahar_aborts_total", "lahar_fences_total", "lahar_loop_age_seconds") == [0, 1, 1, 30]
    assert shown("lahar_recovery_events") == [0]
    processor.close()
    assert shown("lahar_shard_open", "lahar_loop_age_seconds", "lahar_recovery_events") == [None, None, None]
    assert shown("lahar_recovery_seconds_count") == [1], "what this process has done stays counted"
    assert shown("lahar_aborts_total", "lahar_fences_total") == [1, 1]


class SlowLog(MemoryLog):
    """Its ends are told only when somebody says so."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = Event()
        self.answers.set()
        self.asked = 0

    def end(self, partition: Partition) -> int:
        self.asked += 1
        assert self.answers.wait(60)
        return super().end(partition)


def test_a_log_that_does_not_answer_holds_up_no_scrape() -> None:
    log, registry = SlowLog(), CollectorRegistry()
    processor = Processor(log, CountingStage(), observer=ProcessorMetrics(registry))
    processor.open()
    log.append("pods", [custom("a", 1, "add", at=1)])
    assert registry.get_sample_value("lahar_lag_records", SHARD) == 1
    log.answers.clear()
    asked = log.asked
    log.append("pods", [custom("a", 2, "add", at=1)])
    for _ in range(2):
        page = generate_latest(registry).decode().splitlines()
        assert 'lahar_lag_records{shard="0",stage="counting"} 1.0' in page, "the last answer"
        assert 'lahar_inputs_received_total{shard="0",stage="counting"} 0.0' in page
    assert log.asked == asked + 1, "there is one question at a time"
    log.answers.set()


SCRAPE = """
import threading
from types import SimpleNamespace
from engine.runtime.end_offsets import Ends
from engine.log.port import Partition
log = SimpleNamespace(end=lambda partition: threading.Event().wait())
assert Ends().ask([SimpleNamespace(log=log, reads=[Partition("pods", 0)], writes=[])]) == {}
"""


def test_a_log_that_does_not_answer_keeps_no_process_from_ending() -> None:
    subprocess.run([sys.executable, "-c", SCRAPE], check=True, timeout=20)


def test_what_stands_behind_an_open_transaction_is_told_by_partition() -> None:
    class Transactions(MemoryLog):
        open_ones = 0

        def stable_ends(self, partitions: Sequence[Partition]) -> dict[Partition, tuple[int, int]]:
            return {partition: (self.end(partition), self.end(partition) + self.open_ones) for partition in partitions}

    log, registry = Transactions(), CollectorRegistry()
    Processor(log, CountingStage(), observer=ProcessorMetrics(registry)).open()

    def shown() -> float | None:
        return registry.get_sample_value("lahar_lso_lag_records", {"topic": "pods", "partition": "0"})

    assert shown() == 0
    log.open_ones = 3
    assert shown() == 3


def test_a_log_that_never_answered_leaves_only_the_lag_out() -> None:
    class Gone(MemoryLog):
        def end(self, partition: Partition) -> int:
            raise LogUnavailableError("gone")

    registry = CollectorRegistry()
    processor = Processor(Gone(), CountingStage(), observer=ProcessorMetrics(registry))
    processor.open()
    assert registry.get_sample_value("lahar_lag_records", SHARD) is None
    assert registry.get_sample_value("lahar_inputs_received_total", SHARD) == 0


def test_an_open_shard_with_unreadable_inputs_is_shown_closed_without_lag() -> None:
    class Away(MemoryLog):
        away = False

        def read(self, partition: Partition, start: int, limit: int) -> list[Record]:
            self._must_answer()
            return super().read(partition, start, limit)

        def end(self, partition: Partition) -> int:
            self._must_answer()
            return super().end(partition)

        def _must_answer(self) -> None:
            if self.away:
                raise LogUnavailableError("no broker answers")

    log, registry = Away(), CollectorRegistry()
    processor = Processor(log, CountingStage(), observer=ProcessorMetrics(registry))
    place = {**SHARD, "topic": "pods", "partition": "0"}

    def shown() -> list[float | None]:
        names = ("lahar_shard_open", "lahar_inputs_received_total", "lahar_lag_records", "lahar_lag_seconds")
        partition = ("lahar_partition_lag_records", "lahar_partition_lag_seconds")
        return [registry.get_sample_value(name, SHARD) for name in names] + [
            registry.get_sample_value(name, place) for name in partition
        ]

    processor.open()
    log.append("pods", [custom("a", 1, "add", at=1)])
    processor.step()
    assert shown() == [1, 1, 0, 0, 0, 0]
    log.append("pods", [custom("a", 2, "add", at=1)])
    log.away = True
    for _ in range(2):
        with pytest.raises(LogUnavailableError):
            processor.step()
        assert processor.is_open
        assert shown() == [0, 1, None, None, None, None]
    log.away = False
    processor.step()
    assert shown() == [1, 2, 0, 0, 0, 0]


def test_a_worker_without_shards_tells_how_many_there_are() -> None:
    registry = CollectorRegistry()
    ProcessorMetrics(registry).sized("counting", 8)
    assert registry.get_sample_value("lahar_shards", {"stage": "counting"}) == 8
    assert registry.get_sample_value("lahar_shard_open", SHARD) is None


def test_observers_are_all_told() -> None:
    registries = CollectorRegistry(), CollectorRegistry()
    log = MemoryLog()
    processor = Processor(log, CountingStage(), observer=Observers(*map(ProcessorMetrics, registries)))
    processor.open()
    Processor(log, CountingStage()).open()
    log.append("pods", [custom("a", 1, "add", at=1)])
    with pytest.raises(FencedError):
        processor.step()
    processor.open()
    processor.step()
    for registry in registries:
        assert registry.get_sample_value("lahar_fences_total", SHARD) == 1
        assert registry.get_sample_value("lahar_commit_records_count", SHARD) == 1
    processor.close()
    assert [registry.get_sample_value("lahar_shard_open", SHARD) for registry in registries] == [None, None]
