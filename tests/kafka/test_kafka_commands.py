"""The command works on a log on Kafka as it does on a file: some append, workers process, others ask."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from lahar_command import Command
from topics_of_tests import alter

from engine.log.port import Partition, Record
from streams import log as kafka_log
from streams.settings import KafkaSettings

ROWS = 3_000


@pytest.fixture
def lahar(settings: KafkaSettings) -> Command:
    return Command.of(settings)


@pytest.fixture
def topics() -> tuple[str, ...]:
    return ("--partitions", "2", "--replication", "1")


def test_topics_are_planned_made_and_then_as_declared(lahar: Command, topics: tuple[str, ...]) -> None:
    assert "pods: missing (partitions=2, replication=1, cleanup=delete)" in lahar("topics", "plan", *topics, code=1).out
    assert "snapshots: missing" in lahar("topics", "apply", *topics).out
    assert lahar("topics", "plan", *topics).out == "the topics are as declared\n"
    assert lahar("topics", "apply", *topics).out == "nothing to change\n"
    assert "cannot" not in lahar("topics", "plan", "--partitions", "4", "--replication", "1", code=1).out
    assert "jobs has partitions 2, declared is 4" in lahar("topics", "apply", "--partitions", "4", "--replication", "1", code=4).err


@pytest.mark.parametrize(("number", "remedy"), [("partitions", "`lahar export`"), ("replication", "kafka-reassign-partitions")])
def test_another_number_is_refused_with_what_to_do_about_it(
    lahar: Command, topics: tuple[str, ...], number: str, remedy: str
) -> None:
    lahar("topics", "apply", *topics)
    said = lahar("topics", "apply", *topics, f"--{number}", "3", code=4).err
    assert f"pass that number (--{number})" in said
    assert remedy in said
    assert said.count("pass that number") == 1


def test_more_copies_than_brokers_are_refused_with_what_to_do_about_it(lahar: Command) -> None:
    said = lahar("topics", "apply", "--replication", "9", code=4).err
    assert "pods: Unable to replicate the partition 9 time(s)" in said
    assert said.count("InvalidReplicationFactorError") == 1
    assert said.endswith("; there are fewer brokers than copies: name fewer with --replication\n")


def test_topics_are_for_kafka(lahar: Command) -> None:
    assert "sqlite:x.db has no topics" in lahar("topics", "plan", "--log", "sqlite:x.db", code=2).err


def test_a_log_without_topics_says_what_to_do(lahar: Command) -> None:
    assert "`lahar topics apply`" in lahar("summary", code=4).err


def test_what_is_imported_is_processed_by_workers_and_asked_about(
    lahar: Command, topics: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAHAR_BILLING", "0")  # 200,000 hours of use, which are another test's
    monkeypatch.setenv("LAHAR_SCHEDULING", "0")
    lahar("topics", "apply", *topics)
    done = lahar("--json", "import-trace")
    (imported,) = done.records
    assert imported["processed"] == 0
    assert done.err == "appended; the workers of this log process it\n"
    assert lahar.records("summary")[0]["jobs"] == 0
    assert [found["lag"] > 0 for found in lahar.records("status")] == [True, True]
    (run,) = lahar.records("run", "--once")
    assert run["processed"] >= imported["facts"] == 12_314
    assert lahar.records("summary")[0]["jobs"] == ROWS
    assert [found["ok"] for found in lahar.records("verify")] == [True, True]
    again = lahar.records("import-trace")[0]["facts"]
    assert lahar.records("run", "--once")[0]["processed"] >= again
    assert lahar.records("summary")[0]["jobs"] == ROWS
    assert sum(found["outcomes"]["duplicate"] + found["outcomes"]["late"] for found in lahar.records("status")) == again


MANIFEST = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: train, namespace: ml}
lahar: {customEvents: {Checkpointed: null}}
spec:
  minAvailable: 1
  tasks:
  - {name: worker, replicas: 2, template: {spec: {containers: [{name: main, image: train}]}}}
"""
NOTE = "appended; the workers of this log process it\n"


def test_commands_about_jobs_append_and_say_so(lahar: Command, topics: tuple[str, ...]) -> None:
    lahar("topics", "apply", *topics)
    done = lahar("apply", "-", given=MANIFEST)
    assert (done.out, done.err) == ("ml/train: appended\n", NOTE)
    assert "no job 'ml/train'" in lahar("job", "command", "ml/train", "AbortJob", code=3).err
    lahar("run", "--once")
    before = lahar("history", "ml/train").out
    lahar("apply", "-", given=MANIFEST)
    lahar("run", "--once")
    assert lahar("history", "ml/train").out == before
    done = lahar("job", "submit", "-", given=MANIFEST.replace("train,", "other,"))
    assert (done.out, done.err) == ("ml/other: appended\n", NOTE)
    assert lahar("job", "raise", "ml/train", "Checkpointed").out == "ml/train: appended\n"
    assert lahar("job", "command", "ml/train", "AbortJob", "--by", "ann").out == "ml/train: appended\n"
    lahar("run", "--once")
    # Aborting until a minute has shown that no pod comes of what was asked for.
    assert {job["name"]: job["phase"] for job in lahar.records("job", "list")} == {"train": "Aborting", "other": "Pending"}
    assert "AbortJob by ann" in lahar("history", "ml/train").out
    assert "Checkpointed" in lahar("history", "ml/train").out


def test_an_input_rejected_or_refused_later_is_appended_with_its_answer(lahar: Command, topics: tuple[str, ...]) -> None:
    lahar("topics", "apply", *topics)
    bad = MANIFEST.replace("train,", "bad,").replace("minAvailable: 1", "minAvailable: 7")
    assert lahar("apply", "-", given=f"{MANIFEST}\n---\n{bad}").out == "ml/train: appended\nml/bad: appended\n"
    lahar("run", "--once")
    assert lahar("job", "command", "ml/train", "ResumeJob").out == "ml/train: appended\n"
    lahar("run", "--once")
    said = lahar("events", "--type", "lahar.job.rejected*", "--type", "lahar.command.refused*").out.splitlines()
    assert ["minAvailable" in said[0], "ResumeJob was refused" in said[1], len(said)] == [True, True, 2]


def test_a_job_that_waits_for_a_worker_is_updated(lahar: Command, topics: tuple[str, ...]) -> None:
    lahar("topics", "apply", *topics)
    changed = MANIFEST.replace("minAvailable: 1", "minAvailable: 2")
    lahar("apply", "-", given=MANIFEST)
    lahar("apply", "-", given=changed)
    both = "\n---\n".join(text.replace("train,", "other,") for text in (MANIFEST, changed))
    lahar("apply", "-", given=both)
    lahar("run", "--once")
    assert sorted(job["name"] for job in lahar.records("job", "list")) == ["other", "train"]
    for name in ("train", "other"):
        assert lahar.records("job", "show", f"ml/{name}")[0]["min_available"] == 2


def test_a_job_that_was_too_large_for_the_log_leaves_its_name_free(
    lahar: Command, topics: tuple[str, ...], settings: KafkaSettings
) -> None:
    lahar("topics", "apply", *topics)
    for topic in ("job-events", "dead-letters"):
        alter(settings, topic, {"max.message.bytes": "20000", "message.timestamp.type": "LogAppendTime"})
    noise = random.Random(1).randbytes(50_000).hex()  # noqa: S311  what cannot be compressed
    lahar("apply", "-", given=MANIFEST.replace("containers: [{name: main", f"containers: [{{args: [{noise}], name: main"))
    lahar("run", "--once")
    assert lahar.records("job", "list") == []
    assert len(lahar.records("dead-letters", "list")) == 1
    lahar("apply", "-", given=MANIFEST)
    lahar("run", "--once")
    assert [job["name"] for job in lahar.records("job", "list")] == ["train"]


def test_an_appending_command_reads_the_log_once_and_twice_if_set_aside(
    lahar: Command, topics: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lahar("topics", "apply", *topics)
    file = tmp_path / "jobs.yaml"
    file.write_text("\n---\n".join(MANIFEST.replace("train,", f"train-{number},") for number in range(4)))
    read: list[str] = []
    whole = kafka_log.scan

    def scan(reader: Any, places: Sequence[Partition], *more: Any) -> Iterator[Record]:
        read.extend(sorted({place.topic for place in places}))
        return whole(reader, places, *more)

    monkeypatch.setattr(kafka_log, "scan", scan)
    lahar("job", "submit", file)
    assert len(read) == len(set(read)), "once, for the names of live jobs"
    read.clear()
    for _ in range(2):  # four are known to wait, then to be open
        lahar("apply", file)
        assert read == ["dead-letters", "cluster", "job-events", "dead-letters", "jobs"]
        monkeypatch.undo()
        lahar("run", "--once")
        monkeypatch.setattr(kafka_log, "scan", scan)
        read.clear()


def test_what_cannot_be_read_is_a_dead_letter_that_can_be_put_in_again(lahar: Command, topics: tuple[str, ...]) -> None:
    lahar("topics", "apply", *topics)
    none = lahar("dead-letters", "redrive")
    assert (none.out, none.err) == ("0 dead letter(s) redriven\n", "")
    done = lahar("ingest", "-", given="garbage {{{\n", code=1)
    assert done.out == "0 taken, 1 unreadable; 0 processed\n"
    assert done.err.endswith(
        f"kept as a dead letter\n{NOTE}lahar: 1 of 1 objects could not be read; the first: line 1: text is no object\n"
    )
    assert lahar.records("dead-letters", "list") == []
    lahar("run", "--once")
    (letter,) = lahar.records("dead-letters", "list")
    assert lahar("dead-letters", "redrive", letter["id"][:8]).out == "1 dead letter(s) redriven\n"
    lahar("run", "--once")
    assert [letter["tries"] for letter in lahar.records("dead-letters", "list")] == [2]
    assert lahar("dead-letters", "redrive", "zzz", code=3).out == ""


CALLBACK = """\
from engine.effects import Disable, callback

@callback(level="job")
def announce(notice):
    {body}
"""


def test_a_disabled_callback_is_resumed(
    lahar: Command, topics: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "kafka_test_callbacks", raising=False)
    (tmp_path / "lahar.toml").write_text('callbacks = ["kafka_test_callbacks"]\n')
    monkeypatch.setenv("LAHAR_CONFIG", "lahar.toml")
    module = tmp_path / "kafka_test_callbacks.py"
    module.write_text(CALLBACK.format(body='raise Disable("no pager")'))
    lahar("topics", "apply", *topics)
    lahar("apply", "-", given=MANIFEST)
    assert "callback announce is disabled" in lahar("run", "--once").err
    lahar("run", "--once")  # takes the report of it
    (standing,) = lahar.records("callbacks", "list")
    assert (standing["state"], standing["last_failure"]["message"]) == ("disabled", "no pager")
    module.write_text(CALLBACK.format(body='print(f"told {notice.name} {notice.phase}")') + "\n# the cause is mended\n")
    monkeypatch.delitem(sys.modules, "kafka_test_callbacks")
    done = lahar("callbacks", "resume", "announce")
    assert (done.out, done.err) == ("announce: resumed\n", NOTE)
    assert "told train Pending\n" in lahar("run", "--once").out
    assert lahar.records("callbacks", "list")[0]["state"] == "live"
    assert "is not disabled" in lahar("callbacks", "resume", "announce", code=2).err


def test_a_dead_letter_is_discarded_by_the_shard_that_its_id_belongs_to(lahar: Command, topics: tuple[str, ...]) -> None:
    lahar("topics", "apply", *topics)
    for text in ("garbage {{{", "more {{{", "most {{{"):
        lahar("ingest", given=text, code=1)
    lahar("run", "--once")
    first, *others = [letter["id"] for letter in lahar.records("dead-letters", "list")]
    assert len(others) == 2
    done = lahar("dead-letters", "discard", *others, "--by", "ann")
    assert (done.out.count(": appended\n"), done.err) == (2, NOTE)
    assert len(lahar.records("dead-letters", "list")) == 3
    lahar("run", "--once")
    assert [letter["id"] for letter in lahar.records("dead-letters", "list")] == [first]
    listed = {letter["id"]: letter.get("discarded", {}).get("by") for letter in lahar.records("dead-letters", "list", "--all")}
    assert listed == {first: None} | dict.fromkeys(others, "ann")
    assert [found["ok"] for found in lahar.records("verify")] == [True] * 6


@pytest.mark.parametrize(("command", "instead"), [("backup", "`lahar export`"), ("compact", "retention")])
def test_what_is_for_files_says_what_to_do_instead(lahar: Command, command: str, instead: str, tmp_path: Path) -> None:
    said = lahar("log", command, *([tmp_path / "copy.db"] if command == "backup" else []), code=2).err
    assert instead in said
    assert said.count("\n") == 1


QUESTIONS = ["summary", "events --follow", "status", "import-trace", "topics plan", "topics apply", "job list --json"]


@pytest.mark.parametrize("command", QUESTIONS)
def test_a_broker_that_is_not_there_is_one_line_and_code_4(command: str) -> None:
    done = Command("kafka://127.0.0.1:1")(*command.split(), code=4)
    assert (done.out, done.err.count("\n")) == ("", 1)
    assert "Kafka at 127.0.0.1:1" in done.err


@pytest.mark.parametrize("command", ["summary", "topics plan"])
def test_a_broker_that_does_not_answer_is_given_up_in_time(command: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        lahar = Command(f"kafka://127.0.0.1:{silent.getsockname()[1]}", KAFKA_REQUEST_SECONDS="2")
        begun = time.monotonic()
        done = lahar(*command.split(), code=4)
        assert time.monotonic() - begun < 30
    assert (done.out, done.err.count("\n")) == ("", 1)


WITHOUT = """\
import sys
sys.modules[{missing!r}] = None
from engine.cli.main import main
main()
"""


@pytest.mark.parametrize("missing", ["aiokafka", "pydantic_settings"])
@pytest.mark.parametrize("command", ["summary", "topics plan", "run --once", "worker --stage lifecycle"])
def test_without_the_extra_it_says_what_to_install(missing: str, command: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(missing=missing), "--log", "kafka://localhost:9092", *command.split()],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        check=False,
    )
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == f"lahar: kafka://localhost:9092: {missing} is not installed; install lahar[kafka]\n"
