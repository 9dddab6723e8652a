"""What operators see of the processors."""

from __future__ import annotations

from threading import Thread, get_ident

import pytest
from counting_stage import CountingStage, Shard, command, custom, node
from prometheus_client import CollectorRegistry, generate_latest

from engine.events import raw_message
from engine.log.errors import FencedError
from engine.log.memory import MemoryLog
from engine.log.metrics import ProcessorMetrics
from engine.log.processor import Processor

SHARD = {"stage": "counting", "shard": "0"}


def test_every_input_is_counted_once_it_is_committed() -> None:
    log, registry = MemoryLog(), CollectorRegistry()
    processor = Processor(log, CountingStage(), observer=ProcessorMetrics(registry))
    processor.open()
    log.append("pods", [custom("a", 1, "add", at=1), custom("a", 1, "add", at=2), custom("b", 1, "fail", at=3)])
    log.append("pods", [raw_message("c", b"?", 4), custom("a", 2, "timer", at=4, delays=[2_000_000])])

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, {**SHARD, **labels})

    assert (value("lahar_lag_records"), value("lahar_inputs_received_total")) == (5, 0)
    processor.run_until_quiet()
    assert (value("lahar_lag_records"), value("lahar_inputs_received_total")) == (0, 5)
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
    Processor(log, CountingStage()).open()
    log.append("pods", [custom("a", 1, "add", at=1)])
    with pytest.raises(FencedError):
        processor.step()
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
