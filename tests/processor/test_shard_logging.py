"""What operators read of a shard in the logs: once it is committed, and never more than they can read."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest
from counting_stage import CountingStage, command, custom, node

from engine.events import raw_message
from engine.log.errors import FencedError
from engine.log.memory import MemoryLog
from engine.log.port import Output, Partition, ShardId
from engine.processor.processor import Processor
from engine.processor.shard_logging import ShardLogger


@pytest.fixture(autouse=True)
def _all_levels(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "engine")


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.getMessage() for record in caplog.records]
    caplog.clear()
    return found


REMARK = """
from engine.log.errors import LogError
from engine.log.port import ShardId
from engine.processor.shard_logging import ShardLogger
ShardLogger(ShardId("lifecycle", 0)).given_up(LogError("away"))
"""


def test_where_nobody_has_asked_for_logs_nothing_is_printed() -> None:
    done = subprocess.run([sys.executable, "-c", REMARK], check=True, capture_output=True, text=True, timeout=20)
    assert (done.stdout, done.stderr) == ("", "")


def test_a_shard_logs_its_opening_and_closing_and_no_ordinary_events(caplog: pytest.LogCaptureFixture) -> None:
    log = MemoryLog()
    processor = Processor(log, CountingStage())
    processor.open()
    (opened,) = caplog.records
    assert (opened.__dict__["shard"], opened.__dict__["events"]) == ("counting/0", 0)
    caplog.clear()
    log.append("pods", [custom(f"key{number}", 1, "add", at=1) for number in range(100)])
    processor.run_until_quiet()
    assert told(caplog) == []
    processor.close()
    processor.close()
    assert told(caplog) == ["shard counting/0 is closed"]


def test_dead_letters_and_parked_jobs_are_named(caplog: pytest.LogCaptureFixture) -> None:
    log = MemoryLog()
    processor = Processor(log, CountingStage())
    processor.open()
    caplog.clear()
    log.append("pods", [raw_message("c", b"?", 4), custom("a", 1, "fail", at=5)])
    processor.run_until_quiet()
    dead, parked = caplog.records
    assert dead.getMessage().startswith("dead letter: pods/0 at 0: ")
    assert [dead.__dict__[name] for name in ("shard", "topic", "partition", "offset")] == ["counting/0", "pods", 0, 0]
    assert dead.__dict__["event_id"]
    assert parked.getMessage() == "job a is parked: BrokenError: a-1"
    assert [parked.__dict__[name] for name in ("job", "cause", "correlation_id")] == ["a", "a-1", "a"]
    caplog.clear()
    log.append("cluster", [node("fixed", 1, 1, at=6)])
    log.append("jobs", [command("a", 2, at=7)])
    processor.run_until_quiet()
    assert told(caplog) == ["job a is unparked, 1 inputs released"]


def test_what_was_not_committed_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    log = MemoryLog()
    processor = Processor(log, CountingStage())
    processor.open()
    Processor(log, CountingStage()).open()
    caplog.clear()
    log.append("pods", [raw_message("c", b"?", 4)])
    with pytest.raises(FencedError):
        processor.step()
    (fenced,) = caplog.records
    assert fenced.getMessage().startswith("shard counting/0 gave up a commit: shard counting/0 was taken over by another process")
    assert (fenced.levelno, fenced.__dict__["error"]) == (logging.WARNING, "FencedError")


def letters(count: int) -> list[Output]:
    """The outputs of a commit that sets so many inputs aside."""
    log = MemoryLog()
    processor = Processor(log, CountingStage(), batch=count)
    processor.open()
    log.append("pods", [raw_message("c", b"? %d" % number, 4) for number in range(count)])
    processor.step()
    return [Output("dead-letters", record.message, record.basis) for record in log.read(Partition("dead-letters", 0), 0, count)]


def test_of_a_flood_some_are_told_with_the_number_of_the_others(caplog: pytest.LogCaptureFixture) -> None:
    outputs = letters(100)
    caplog.clear()
    now = [1_000.0]
    logger = ShardLogger(ShardId("counting", 0), clock=lambda: now[0])
    logger.committed(outputs)
    assert len(told(caplog)) == 20
    now[0] += 2
    logger.committed(outputs)
    assert [line.partition("(")[2] for line in told(caplog)] == ["80 more like it since the last one logged)", ""]
