"""The example pays each job once, also where an end was taken back and came again."""

from __future__ import annotations

import asyncio
import runpy
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from job_history import History, opened
from lifecycle_inputs import inputs

from engine.events import Event, decode
from engine.events.jobs import JobPhaseChanged
from engine.lifecycle.stage import LifecycleStage
from engine.log.memory import MemoryLog
from engine.log.port import Partition
from engine.processor.processor import Processor
from statemachines.vocabulary import FINISHED_JOB_PHASES
from streams.agents import Agent, Received

EXAMPLE = Path(__file__).parents[2] / "examples" / "agents" / "paid.py"


def paid(capsys: pytest.CaptureFixture[str], *given: Received) -> list[str]:
    """Return which jobs the example pays for."""
    example: Agent = runpy.run_path(str(EXAMPLE))["paid"]
    for received in given:
        if example.wants(received):
            asyncio.run(example.handle(received))
    return [line.removeprefix("paid ") for line in capsys.readouterr().out.splitlines()]


def test_an_end_that_was_taken_back_and_came_again_is_paid_once(capsys: pytest.CaptureFixture[str]) -> None:
    history = History("a")
    inferred = JobPhaseChanged("Completed", "Running", inferred=True)
    life = [
        opened(),
        inferred,
        JobPhaseChanged("Running", "Completed"),
        inferred,
        JobPhaseChanged("Completed", "Completed", reason="CompletionsReached", object_version="7"),
    ]
    assert paid(capsys, *[history.received(data) for data in life]) == ["a"]


def test_an_end_that_nobody_states_is_not_paid(capsys: pytest.CaptureFixture[str]) -> None:
    history = History("a")
    life = [opened(), JobPhaseChanged("Completed", "Running", inferred=True)]
    assert paid(capsys, *[history.received(data) for data in life]) == []


def test_a_job_has_at_most_one_end_that_is_not_inferred() -> None:
    log = MemoryLog()
    for topic, message in inputs(300):
        log.append(topic, [message])
    processor = Processor(log, LifecycleStage())
    processor.open()
    processor.run_until_quiet()
    events: list[Event[Any]] = [decode(record.message) for record in log.read(Partition("job-events", 0), 0, 1_000_000)]
    ends = [event for event in events if isinstance(event.data, JobPhaseChanged) and event.data.phase in FINISHED_JOB_PHASES]
    stated = Counter(event.subject for event in ends if not event.data.inferred)
    inferred = Counter(event.subject for event in ends if event.data.inferred)
    assert set(stated.values()) == {1}
    assert max(inferred.values()) > 1, "no end was taken back: the workload shows nothing"
