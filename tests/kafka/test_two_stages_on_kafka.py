"""Two stages on Kafka: commands know both, workers of each are killed, and nothing is lost or doubled."""

from __future__ import annotations

import random
import select
import signal
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import second_stage
from lahar_command import Command
from lifecycle_inputs import inputs
from two_stages import BOTH, TOPICS, append, must_be_decided_rightly, take_the_rest, waits
from worker_process import Lahar, until

from engine.events import Message
from engine.history.export_lines import contents_of
from engine.history.transfer import export_log, import_log
from engine.log.memory import MemoryLog
from engine.log.port import Partition
from engine.log.sqlite import SqliteLog
from streams.log import KafkaLog
from streams.settings import KafkaSettings

Make = Callable[[int], KafkaLog]
PROGRAM = [sys.executable, second_stage.__file__]


@pytest.fixture
def lahar(settings: KafkaSettings, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setattr("engine.runtime.stages.STAGES", second_stage.with_second_stage())
    monkeypatch.setenv("LAHAR_BILLING", "0")  # it is tested for itself
    return Command.of(settings)


def contents(log: Any) -> dict[Partition, list[Message]]:
    found: dict[Partition, list[Message]] = {}
    for record in log.scan(TOPICS):
        found.setdefault(record.partition, []).append(record.message)
    return found


@pytest.mark.parametrize("partitions", [1, 3])
def test_the_commands_know_both(make_log: Make, lahar: Command, tmp_path: Path, partitions: int) -> None:
    log = make_log(partitions)
    append(log, inputs(40))
    (run,) = lahar.records("run", "--once")
    shards = [*(f"lifecycle/{number}" for number in range(partitions)), "scheduling/0"]
    statuses = lahar.records("status")
    # What the lifecycle stage took, what the second one said to it among that; not what the second one took of it.
    received = [found["received"] for found in statuses]
    assert sum(received) > run["processed"] >= sum(received[:-1]) > 700
    assert [(found["shard"], found["lag"]) for found in statuses] == [(shard, 0) for shard in shards]
    assert list(statuses[-1]["inputs"]) == ["cluster/0", *(f"job-events/{number}" for number in range(partitions))]
    assert statuses[-1]["outcomes"]["applied"] > 50
    assert [(found["shard"], found["ok"]) for found in lahar.records("verify")] == [(shard, True) for shard in shards]
    must_be_decided_rightly(log)
    # In a log of another kind everything stands as it did, and goes on where it stood.
    (tmp_path / "all.jsonl").write_text(lahar("export").out)
    there = f"sqlite:{tmp_path}/copy.db"
    lahar("import", tmp_path / "all.jsonl", "--log", there)
    assert lahar.records("run", "--once", "--log", there)[0]["processed"] == 0
    for first, again in zip(statuses, lahar.records("status", "--log", there), strict=True):
        assert (first["outcomes"], first["now"], again["lag"]) == (again["outcomes"], again["now"], 0)
    with closing(SqliteLog(tmp_path / "copy.db")) as copy:
        assert contents(copy) == contents(log)


def worker(settings: KafkaSettings, stage: str, *more: str) -> Lahar:
    return Lahar(settings, "worker", "--stage", stage, "--instance", f"{stage}-0", *more, program=PROGRAM)


def must_go_on(exported: list[bytes]) -> None:
    """Restore what was written of a log while both stages ran on it, and let them go on there."""
    log = MemoryLog(contents_of(exported[0]).partitions)
    import_log(log, lambda: exported, {stage.name: stage for stage in BOTH})
    take_the_rest(log)
    must_be_decided_rightly(log)


def survive(log: KafkaLog, settings: KafkaSettings, kills: int, jobs: int) -> None:
    dice = random.Random(20_170_807)  # noqa: S311  kills are to be random, not secret
    given = inputs(jobs)
    size = len(given) // kills + 1
    exported: list[bytes] = []
    cut_short = 0
    for start in range(0, len(given), size):
        with worker(settings, "lifecycle", "--ordinal", "0", "--workers", "1") as first, worker(settings, "scheduling") as second:
            if dice.random() < 0.8:
                until(lambda: first.is_ready and second.is_ready)
            append(log, given[start : start + size])
            if start + size >= len(given):
                # It takes a while, in which the last inputs may all be taken.
                exported = list(export_log(log))
            # Not a sleep: how far into the work the blow falls.
            for process in dice.sample([first, second], 2):
                select.select([], [], [], dice.uniform(0, 0.4))
                process.send(signal.SIGKILL)
        cut_short += waits(log)
    assert cut_short
    must_go_on(exported)
    with worker(settings, "lifecycle", "--ordinal", "0", "--workers", "1") as first, worker(settings, "scheduling") as second:
        until(lambda: first.is_ready and second.is_ready)
        until(lambda: not waits(log))
        assert 'lahar_shards{stage="scheduling"} 1.0' in second.page("/metrics")
        assert 'lahar_shard_open{shard="0",stage="scheduling"} 1.0' in second.page("/metrics")
        assert second.figure("lahar_inputs_received_total") > 0
        for process in (first, second):
            process.send(signal.SIGTERM)
        assert (first.wait(), second.wait()) == (0, 0)
    take_the_rest(log)
    must_be_decided_rightly(log)


def test_workers_of_both_are_killed_and_nothing_is_lost_or_doubled(make_log: Make, settings: KafkaSettings) -> None:
    survive(make_log(3), settings.model_copy(update={"session_seconds": 6.0}), 3, 30)


@pytest.mark.slow
def test_workers_of_both_are_killed_often(make_log: Make, settings: KafkaSettings) -> None:
    survive(make_log(4), settings.model_copy(update={"session_seconds": 6.0}), 20, 600)
