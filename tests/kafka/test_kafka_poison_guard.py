"""The poison guard on a real broker: marks survive the process, and the oracle agrees with what became of the input."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from counting_stage import CountingStage
from deadly_stage import EXIT, INNOCENTS, deadly
from oracle import judge

from engine.events import decode
from engine.events.outcomes import JobParked
from engine.log.port import Partition
from engine.processor.poison_guard import REASON
from engine.processor.processor import Processor
from engine.processor.watchdog import ENDED
from streams.log import KafkaLog
from streams.settings import KafkaSettings

_WORKER = Path(__file__).with_name("deadly_worker.py")


def run(settings: KafkaSettings) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, _WORKER, settings.bootstrap_servers, settings.topic_prefix, "0.5"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(("way", "code", "deaths"), [("exit", EXIT, 3), ("loop", ENDED, 2)])
def test_an_input_that_ends_processes_is_parked_without_loss_or_doubles(
    make_log: Callable[[int], KafkaLog], settings: KafkaSettings, way: str, code: int, deaths: int
) -> None:
    """A process that dies at once cannot name the input before the second death; one that ends itself can."""
    log = make_log(1)
    given = deadly(way)
    log.append("pods", given)
    runs = [run(settings) for _ in range(deaths + 1)]
    assert [found for found, _ in runs] == [code] * deaths + [0], runs
    assert "2 processes, one after the other, ended while they decided pods/0@41; it is dropped now" in runs[-1][1]
    found = [decode(record.message) for record in log.read(Partition("job-events", 0), 0, 1_000)]
    assert [(event.subject, event.data.error) for event in found if isinstance(event.data, JobParked)] == [("victim", REASON)]
    verdict = judge(log, CountingStage(), 0, ended_in={"pods/0@41"})
    assert (verdict.differences, verdict.inputs) == ([], len(given))
    assert judge(log, CountingStage(), 0).differences, "the oracle believes no shard that processes ended in something"
    processor = Processor(log, CountingStage())
    processor.open()
    assert sum(counter.total for counter in processor.state.counters.values()) == INNOCENTS + 1
    assert processor.accounts.outcomes["parked"] == 2
    processor.close()
