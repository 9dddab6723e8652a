"""The commands run, ask, check, write and restore a log of two stages as they do one of one, and survive `kill -9`."""

from __future__ import annotations

import os
import random
import re
import select
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Self
from urllib.request import urlopen

import pytest
import second_stage
from lifecycle_inputs import inputs
from two_stages import TOPICS, append, must_be_decided_rightly, take_the_rest, waits

from engine.events import Message, Topic, raw_message, to_cloudevent
from engine.history.export_lines import contents_of
from engine.log.port import Record
from engine.log.sqlite import SqliteLog

SCRIPT = [sys.executable, second_stage.__file__]
SHARDS = ["lifecycle/0", "lifecycle/1", "lifecycle/2", "scheduling/0"]


@pytest.fixture(autouse=True)
def _two_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.runtime.stages.STAGES", second_stage.with_second_stage())
    monkeypatch.setenv("LAHAR_BILLING", "0")  # it is tested for itself


def records(path: Path) -> list[Record]:
    with closing(SqliteLog(path, readonly=True)) as log:
        return list(log.scan(TOPICS))


def as_cloudevents(parts: list[tuple[Topic, Message]]) -> bytes:
    return b"\n".join(to_cloudevent(message) for _, message in parts if message.type)


def must_be_right(path: Path) -> None:
    with closing(SqliteLog(path)) as log:
        must_be_decided_rightly(log)


class TestCommands:
    def test_they_know_both(self, lahar, folder):
        SqliteLog(folder / "lahar.db", 3).close()
        fed = lahar("ingest", "--no-process", "--json", given=as_cloudevents(inputs(40))).records[-1]
        assert (fed["taken"] > 700, fed["unreadable"], fed["processed"]) == (True, 0, 0)
        processed = lahar("run", "--once", "--json").record["processed"]
        statuses = lahar("status", "--json").records
        # What the lifecycle stage took, what the second one said to it among that; not what the second one took of it.
        assert processed >= sum(found["received"] for found in statuses[:3]) > fed["taken"]
        assert processed < sum(found["received"] for found in statuses)
        assert [found["shard"] for found in statuses] == SHARDS
        assert [found["lag"] for found in statuses] == [0, 0, 0, 0]
        second = statuses[-1]
        assert list(second["inputs"]) == ["cluster/0", "job-events/0", "job-events/1", "job-events/2"]
        assert (second["received"], second["dead_letters"]) == (sum(second["outcomes"].values()), 0)
        assert second["outcomes"]["applied"] > 50
        assert second["snapshot_records"] > 10
        assert "scheduling/0" in lahar("status").out
        verdicts = lahar("verify", "--json").records
        assert [(found["shard"], found["ok"]) for found in verdicts] == [(shard, True) for shard in SHARDS]
        must_be_right(folder / "lahar.db")

    def test_a_log_is_written_and_restored_whole(self, lahar, folder):
        """The same records at the same offsets; nothing is left to do there, and both go on where they stood."""
        with closing(SqliteLog(folder / "lahar.db", 3)) as log:
            append(log, inputs(40))
        lahar("run", "--once")
        exported = lahar("export").out
        (folder / "all.jsonl").write_text(exported)
        assert contents_of(exported.splitlines()[0].encode()).partitions == 3
        restored = "sqlite:restored.db"
        lahar("import", "all.jsonl", "--log", restored)
        assert records(folder / "restored.db") == records(folder / "lahar.db")
        assert lahar("run", "--once", "--json", "--log", restored).record["processed"] == 0
        before, after = lahar("status", "--json").records, lahar("status", "--json", "--log", restored).records
        for first, again in zip(before, after, strict=True):
            assert (first["inputs"], first["outcomes"], first["now"]) == (again["inputs"], again["outcomes"], again["now"])
        assert all(found["ok"] for found in lahar("verify", "--json", "--log", restored).records)
        assert lahar("export", "--log", restored).out == exported
        must_be_right(folder / "restored.db")

    def test_what_the_second_says_is_an_event_of_the_job(self, lahar, files, folder):
        files["job"].write_text(files["job"].read_text().replace("Checkpointed", second_stage.EVENT))
        lahar("apply", files["queue"], files["job"])
        lahar("job", "command", "ml/train", "AbortJob")
        raised = [event for event in lahar("events", "--json").records if event.get("type") == "lahar.event.raised.v1"]
        assert [(event["data"]["event"], event["data"]["by"]) for event in raised] == [(second_stage.EVENT, "scheduling")]
        assert second_stage.EVENT in lahar("history", "ml/train").out
        (folder / "job.jsonl").write_text(lahar("export", "--job", "ml/train").out)
        lahar("import", "job.jsonl", "--log", "sqlite:job.db")
        # What left no event of the job is taken again, and leaves none.
        lahar("run", "--once", "--log", "sqlite:job.db")
        assert lahar("history", "ml/train", "--log", "sqlite:job.db").out == lahar("history", "ml/train").out

    def test_what_the_second_stage_cannot_read_stays_and_is_not_redriven(self, lahar, folder):
        """It is a record of the history, which subscribers have seen: nobody may append it once more."""
        with closing(SqliteLog(folder / "lahar.db", 3)) as log:
            log.append("job-events", [raw_message("job", b"\xff", 1_000_000)])
            log.append("cluster", [raw_message("c1", b"\xff", 1_000_000)])
            append(log, inputs(10))
        lahar("run", "--once")
        must_be_right(folder / "lahar.db")
        letters = [found for found in lahar("dead-letters", "list", "--json").records if found["topic"] != "pods"]
        assert sorted(found["topic"] for found in letters) == ["cluster", "job-events"]
        (truth,) = [found for found in letters if found["topic"] == "job-events"]
        done = lahar("dead-letters", "redrive", truth["id"], "--json")
        assert done.record == {"redriven": 0}
        assert f"job-events/{truth['partition']} @{truth['offset']} is no input: stages write job-events" in done.err
        assert all(found["ok"] for found in lahar("verify", "--json").records)


class Running:
    """`lahar run` of both stages as a process, which ends with the `with` block."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen([*SCRIPT, "run", "--metrics", "0"], env=environment, text=True, stderr=subprocess.PIPE)
        self.said: list[str] = []

    def until_it_says(self, text: str) -> str:
        """Return the first line, from now on, with a text."""
        assert self.process.stderr is not None
        while text not in (line := self.process.stderr.readline()):
            assert line, self.said
            self.said.append(line)
        return line

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def is_behind(path: Path) -> bool:
    with closing(SqliteLog(path, readonly=True)) as log:
        return waits(log)


def survive(path: Path, kills: int, jobs: int) -> None:
    dice = random.Random(20_170_807)  # noqa: S311  kills are to be random, not secret
    given = inputs(jobs)
    SqliteLog(path, 3).close()
    size = len(given) // kills + 1
    cut_short = 0
    for start in range(0, len(given), size):
        with Running() as engine:
            if dice.random() < 0.8:
                engine.until_it_says("shard scheduling/0 is open")
            with closing(SqliteLog(path)) as log:
                append(log, given[start : start + size])
            # Not a sleep: how far into the work the blow falls.
            select.select([], [], [], dice.uniform(0, 0.4))
        cut_short += is_behind(path)
    assert cut_short
    with Running() as engine:
        address = engine.until_it_says("metrics: ").split()[-1]
        for _ in range(4):
            engine.until_it_says(" is open")
        while is_behind(path):
            assert engine.process.poll() is None
        with urlopen(address) as answer:  # noqa: S310  the address was just read
            page = answer.read().decode()
        assert 'lahar_shards{stage="scheduling"} 1.0' in page
        assert 'lahar_shards{stage="lifecycle"} 3.0' in page
        assert 'lahar_shard_open{shard="0",stage="scheduling"} 1.0' in page
        assert re.search(r'^lahar_inputs_received_total\{shard="0",stage="scheduling"\} [1-9]', page, re.MULTILINE), page
        engine.process.terminate()
        assert engine.process.wait(60) == 0
    with closing(SqliteLog(path)) as log:
        take_the_rest(log)
    must_be_right(path)


def test_kills_lose_nothing_and_double_nothing(folder):
    survive(folder / "lahar.db", 3, 60)


@pytest.mark.slow
def test_many_kills_lose_nothing_and_double_nothing(folder):
    survive(folder / "lahar.db", 40, 600)
