"""A log on Kafka answers every question as a log in a file does that was given the same inputs."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from lahar_command import Command
from topics_of_tests import delete_topics

from engine.events import raw_message
from engine.events.times import parse_time
from engine.runtime.opening import open_log
from engine.simulation.traces import sample_trace
from streams.log import KafkaLog
from streams.settings import KafkaSettings

STORY = Path(__file__).parents[2] / "examples" / "lost-node"
JOB = "nlp/bert-pretrain"
BEFORE, AFTER = "2026-03-04T15:00:00Z", "2026-03-04T15:20:00Z"
GARBAGE = raw_message("nobody", b"garbage {{{", parse_time("2026-03-04T15:30:00Z"), fault="not JSON")


@pytest.fixture(scope="module")
def settings(bootstrap: str) -> Iterator[KafkaSettings]:
    """The log that all tests of this module ask."""
    found = KafkaSettings(bootstrap_servers=bootstrap, topic_prefix=f"questions{os.getpid()}-", request_seconds=20)
    yield found
    asyncio.run(delete_topics(found))


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every tenth job of a real cluster: of all of them, hours of use alone are 150,000 records."""
    with sample_trace("philly-status") as sample, gzip.open(sample, "rt") as file:
        head, *rows = file
    path = tmp_path_factory.mktemp("trace") / "tenth.csv"
    path.write_text(head + "".join(rows[9::10]))
    return path


@pytest.fixture(scope="module")
def kafka(settings: KafkaSettings, trace: Path) -> Command:
    command = Command.of(settings)
    command("topics", "apply", "--partitions", 2, "--replication", 1)
    with closing(KafkaLog(settings)) as log:
        fill(command, log, trace)
    return command


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory, trace: Path) -> Command:
    url = f"sqlite:{tmp_path_factory.mktemp('questions') / 'lahar.db'}"
    command = Command(url)
    with closing(open_log(url, 2)) as log:
        fill(command, log, trace)
    return command


def fill(lahar: Command, log: Any, trace: Path) -> None:
    """A real cluster's trace, a story of a managed job, a command, and a record that nobody can read."""
    lahar("import-trace", trace, "--no-process")
    lahar("apply", STORY / "nodes.yaml", STORY / "job.yaml", "--at", "2026-03-04T14:00:00", "--no-process")
    lahar("run", "--once")
    for name in ("pods-1", "nodes-1", "pods-2", "nodes-2", "pods-3"):
        lahar("ingest", "--recorded", STORY / f"{name}.jsonl", "--no-process")
    lahar("run", "--once")
    lahar("job", "command", JOB, "AbortJob", "--by", "amara", "--id", "give-up", "--at", "2026-03-04T15:24:50", "--no-process")
    lahar("ingest", "--recorded", STORY / "pods-4.jsonl", "--no-process")
    log.append("pods", [GARBAGE])
    lahar("run", "--once")


@pytest.mark.parametrize(
    "question",
    [
        "summary",
        "summary --json",
        "summary --all --json",
        "job list --limit 5 --phase Failed",
        "job list --json",
        f"job show {JOB} --json",
        f"why {JOB}",
        "why default/philly-669 --json",
        f"timeline {JOB}",
        f"timeline {JOB} --json",
        f"history {JOB}",
        f"history {JOB} --json",
        "as-of 1970-01-15 --json",
        f"as-of {BEFORE} {JOB} --json",
        f"as-of --known {BEFORE} {JOB} --json",
        f"as-of {BEFORE} --queue default/default",
        "events --json",
        f"events --from {BEFORE} --json",
        f"events --job {JOB} --type lahar.job.* --json",
        "events --level job --queue default --json",
        "dead-letters list",
        "dead-letters list --json",
        "callbacks list",
        "verify",
        "verify --json",
        f"export --job {JOB}",
        f"export --first {BEFORE} --last {AFTER}",
    ],
)
def test_a_question_is_answered_alike(kafka: Command, file: Command, question: str) -> None:
    assert answer(kafka(*question.split()).out) == answer(file(*question.split()).out)


def answer(text: str) -> str:
    """Return an answer without what the logs differ in."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if line.startswith('{"caught_up"'):
            lines[number] = "caught up"
        elif line.startswith('{"specversion"'):
            lines[number] = json.dumps(comparable(json.loads(line)))
    return "\n".join(lines)


def comparable(event: dict[str, Any]) -> dict[str, Any]:
    """Return an event without what the logs differ in.

    These are offsets of outputs, as between them stand Kafka's own markers of transactions, also where a stage takes them: behind
    that of the cluster in its `basis`. And the principal of an input: the user of the operating system for a file, on Kafka that of
    the login, and this broker asks for none.
    """
    if event.get("shard"):
        del event["offset"]
        if event["shard"].startswith(("scheduling/", "billing/", "budgets/")):
            event["basis"] = event["basis"].split(".")[0]
    event["data"].pop("principal", None)
    return event


@pytest.mark.parametrize("question", [f"diff 2026-03-04T14:00:10Z {AFTER} {JOB}", "diff 1970-01-15 1970-01-16 --json"])
def test_differences_are_found_alike(kafka: Command, file: Command, question: str) -> None:
    assert kafka(*question.split(), code=1).out == file(*question.split(), code=1).out


@pytest.mark.parametrize("question", [["job", "show", "nobody/here"], ["why", "zzz"], ["as-of", "1970-01-01", JOB]])
def test_what_is_not_there_is_not_found_alike(kafka: Command, file: Command, question: list[str]) -> None:
    assert kafka(*question, code=3).err == file(*question, code=3).err


def test_why_of_an_event_leads_back_to_its_input(kafka: Command, file: Command) -> None:
    event = file.records("history", JOB)[-1]["id"]
    assert kafka("why", event).out == file("why", event).out


def test_shards_stand_alike(kafka: Command, file: Command) -> None:
    told, expected = kafka.records("status"), file.records("status")
    for status in (*told, *expected):
        # How often a snapshot is written depends on how long a commit takes.
        for name in ("snapshot_records", "snapshot_behind", "snapshot_time"):
            del status[name]
        for name in [name for name in status["inputs"] if name.startswith(("job-events", "billing"))]:
            del status["inputs"][name]  # between them stand Kafka's own markers of transactions
    assert told == expected
    assert [(status["lag"], status["dead_letters"]) for status in told] == [(0, 0), (0, 1), *[(0, 0)] * 4]


def test_both_export_the_same_records(kafka: Command, file: Command) -> None:
    """In each partition in the same order; between partitions the order on Kafka is that of the brokers' clocks."""
    assert_same(by_partition(kafka), by_partition(file))


def assert_same(found: dict[Any, list[str]], expected: dict[Any, list[str]]) -> None:
    """Compare exports record by record: pytest takes hours and gigabytes to explain how two of 8,000 records differ."""
    assert {partition: len(records) for partition, records in found.items()} == {
        partition: len(records) for partition, records in expected.items()
    }
    for partition, records in expected.items():
        for number, (one, other) in enumerate(zip(found[partition], records, strict=True)):
            assert (partition, number, one) == (partition, number, other)


def by_partition(lahar: Command) -> dict[Any, list[str]]:
    found: dict[Any, list[str]] = {}
    for line in lahar("export").out.splitlines():
        event = comparable(json.loads(line))
        found.setdefault((event.get("topic"), event.get("partition")), []).append(json.dumps(event))
    return found


def test_a_token_goes_on_without_gap_or_repeat(kafka: Command) -> None:
    """What comes behind the marker of a first reader is what a second one is given."""
    *before, marker = kafka.records("events", "--from", "beginning", "--job", JOB)
    assert marker["caught_up"] is True
    assert kafka.records("events", "--from", marker["token"])[0]["caught_up"] is True
    assert Counter(event["id"] for event in before) == Counter(event["id"] for event in kafka.records("history", JOB))


def test_an_export_restored_to_kafka_and_back_to_a_file_is_unchanged(
    file: Command, settings: KafkaSettings, tmp_path: Path
) -> None:
    elsewhere = KafkaSettings(bootstrap_servers=settings.bootstrap_servers, topic_prefix=f"{settings.topic_prefix}2-")
    second, third = Command.of(elsewhere), Command(f"sqlite:{tmp_path / 'third.db'}")
    exported = file("export").out
    try:
        second("topics", "apply", "--partitions", 2, "--replication", 1)
        assert second.records("import", "-", given=exported) == [{"records": len(exported.splitlines()) - 2}]
        assert_same(by_partition(second), by_partition(file))
        assert [(status["lag"], status["outcomes"]) for status in second.records("status")] == [
            (status["lag"], status["outcomes"]) for status in file.records("status")
        ]
        assert "the log is not empty" in second("import", "-", given=exported, code=2).err
        third("import", "-", given=second("export").out)
        assert_same(by_partition(third), by_partition(file))
    finally:
        asyncio.run(delete_topics(elsewhere))
