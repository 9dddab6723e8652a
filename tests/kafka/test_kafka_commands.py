"""The command works on a log on Kafka as it does on a file: some append, workers process, others ask."""

from __future__ import annotations

import json

import pytest
from lahar_command import Command

from streams.settings import KafkaSettings

ROWS = 3_000


@pytest.fixture
def lahar(settings: KafkaSettings) -> Command:
    return Command.of(settings)


@pytest.fixture
def topics() -> tuple[str, ...]:
    return ("--partitions", "2", "--replication", "1")


def test_topics_are_planned_made_and_then_as_declared(lahar: Command, topics: tuple[str, ...]) -> None:
    assert "pods is missing: 2 partitions, 1 copies, delete" in lahar("topics", "plan", *topics, code=1).out
    assert "snapshots is missing" in lahar("topics", "apply", *topics).out
    assert lahar("topics", "plan", *topics).out == "the topics are as declared\n"
    assert lahar("topics", "apply", *topics).out == "nothing to change\n"
    assert "cannot" not in lahar("topics", "plan", "--partitions", "4", "--replication", "1", code=1).out
    assert "jobs has partitions 2, declared is 4" in lahar("topics", "apply", "--partitions", "4", "--replication", "1", code=4).err


def test_topics_are_for_kafka(lahar: Command) -> None:
    assert "sqlite:x.db has no topics" in lahar("topics", "plan", "--log", "sqlite:x.db", code=2).err


def test_a_log_without_topics_says_what_to_do(lahar: Command) -> None:
    assert "`lahar topics apply`" in lahar("summary", code=4).err


def test_what_is_imported_is_processed_by_workers_and_asked_about(lahar: Command, topics: tuple[str, ...]) -> None:
    lahar("topics", "apply", *topics)
    (imported,) = lahar.records("import-trace")
    assert imported["processed"] == 0
    assert lahar.records("summary")[0]["jobs"] == 0
    (run,) = lahar.records("run", "--once")
    assert run["processed"] >= imported["facts"] == 12_314
    assert lahar.records("summary")[0]["jobs"] == ROWS
    assert [found["ok"] for found in lahar.records("verify")] == [True, True]
    assert [found["lag"] for found in lahar.records("status")] == [0, 0]
    job = lahar.records("job", "list")[0]["id"]
    assert "default/philly-0" in lahar("why", job).out
    head, *_, end = lahar("export").out.splitlines()
    assert json.loads(end)["data"]["records"] == len(lahar("export").out.splitlines()) - 2
    assert json.loads(head)["data"]["partitions"] == 2
