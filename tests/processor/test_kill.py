"""`kill -9` at random points under load: the events and the state equal those of a run that nobody disturbed.

Another stage joins by a line in `STAGES`: a factory of the stage and one of its inputs, both as `module:callable`.
"""

from __future__ import annotations

import os
import random
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kill_worker import made_by

from engine.events import Message, Topic
from engine.events.outcomes import Accounted
from engine.log.memory import MemoryLog
from engine.log.port import Searchable
from engine.log.sqlite import SqliteLog
from engine.processor.processor import Processor
from engine.processor.snapshots import state_hash

STAGES = {
    "counting": ("counting_stage:CountingStage", "counting_stage:inputs"),
    "lifecycle": ("engine.lifecycle.stage:LifecycleStage", "lifecycle_inputs:inputs"),
}
"""Name → factory of the stage, factory of a list of (topic, message)."""

_HERE = Path(__file__).parent
_SEED = 20_170_807


def events(log: Searchable, stage: Any) -> list[Message]:
    """Return everything written, without what depends on how inputs fall into commits."""
    topics: list[Topic] = list(dict.fromkeys((*stage.outputs, "dead-letters")))
    return [record.message for record in log.scan(topics) if record.message.type != Accounted.TYPE]


def undisturbed(stage: Any, given: list[tuple[Topic, Message]]) -> tuple[list[Message], str, dict[str, int]]:
    log = MemoryLog()
    for topic, message in given:
        log.append(topic, [message])
    processor: Processor[Any] = Processor(log, stage)
    processor.open()
    processor.run_until_quiet()
    return events(log, stage), state_hash(stage, processor.state), processor.accounts.outcomes


def kill_once(path: Path, factory: str, dice: random.Random) -> str:
    """Run the worker and kill it after some steps and some time more; return the last thing that it said."""
    command = [sys.executable, str(_HERE / "kill_worker.py"), str(path), factory, str(dice.choice((20, 50, 120))), "2000"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(_HERE), *sys.path])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, bufsize=0) as worker:
        assert worker.stdout is not None
        said = b""
        for _ in range(dice.randint(1, 6)):
            line = worker.stdout.readline()
            if not line:
                break
            said = line
        # Not a sleep: how far into the next transaction the blow falls.
        select.select([], [], [], dice.uniform(0, 0.008))
        worker.kill()
        said = (worker.stdout.read() or said).splitlines()[-1] if said else b""
    return said.decode().strip()


def survive(path: Path, name: str, kills: int) -> None:
    stage_factory, inputs_factory = STAGES[name]
    given: list[tuple[Topic, Message]] = made_by(inputs_factory)
    stage = made_by(stage_factory)
    expected = undisturbed(stage, given)
    dice = random.Random(_SEED)  # noqa: S311  kills are to be random, not secret
    killed, runs = 0, 0
    while killed < kills:
        # One log takes many kills; when it is done, the next one begins.
        runs += 1
        file = path / f"{runs}.db"
        log = SqliteLog(file)
        for topic in dict.fromkeys(topic for topic, _ in given):
            log.append(topic, [message for found, message in given if found == topic])
        log.close()
        while killed < kills and kill_once(file, stage_factory, dice) != "done":
            killed += 1
        log = SqliteLog(file)
        processor: Processor[Any] = Processor(log, stage)
        processor.open()
        processor.run_until_quiet()
        assert events(log, stage) == expected[0]
        assert state_hash(stage, processor.state) == expected[1]
        assert processor.accounts.outcomes == expected[2]
        assert processor.accounts.balanced
        assert processor.accounts.received == len(given) == sum(processor.position.vector)
        log.close()
        again: Processor[Any] = Processor(SqliteLog(file), stage)
        again.open()
        assert state_hash(stage, again.state) == expected[1]
        again.log.close()


@pytest.mark.parametrize("name", STAGES)
def test_twenty_kills_change_nothing(tmp_path: Path, name: str) -> None:
    survive(tmp_path, name, 20)


@pytest.mark.slow
@pytest.mark.parametrize("name", STAGES)
def test_two_hundred_kills_change_nothing(tmp_path: Path, name: str) -> None:
    survive(tmp_path, name, 200)
