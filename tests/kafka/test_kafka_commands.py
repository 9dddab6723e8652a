"""The command works on a log on Kafka as it does on a file: some append, workers process, others ask."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from engine.cli.main import app
from streams.settings import KafkaSettings

ROWS = 3_000


class Command:
    """`lahar` on one log."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._environment = {
            "LAHAR_LOG": f"kafka://{settings.bootstrap_servers}",
            "KAFKA_TOPIC_PREFIX": settings.topic_prefix,
            "COLUMNS": "200",
        }

    def __call__(self, *arguments: str, code: int = 0) -> str:
        done = CliRunner().invoke(app, list(arguments), env=self._environment)
        assert done.exit_code == code, done.output
        return done.output

    def records(self, *arguments: str) -> list[Any]:
        return [json.loads(line) for line in self("--json", *arguments).splitlines()]


@pytest.fixture
def lahar(settings: KafkaSettings) -> Command:
    return Command(settings)


@pytest.fixture
def topics() -> tuple[str, ...]:
    return ("--partitions", "2", "--replication", "1")


def test_topics_are_planned_made_and_then_as_declared(lahar: Command, topics: tuple[str, ...]) -> None:
    assert "pods is missing: 2 partitions, 1 copies, delete" in lahar("topics", "plan", *topics, code=1)
    assert "snapshots is missing" in lahar("topics", "apply", *topics)
    assert lahar("topics", "plan", *topics) == "the topics are as declared\n"
    assert lahar("topics", "apply", *topics) == "nothing to change\n"
    assert "cannot" not in lahar("topics", "plan", "--partitions", "4", "--replication", "1", code=1)
    assert "jobs has partitions 2, declared is 4" in lahar("topics", "apply", "--partitions", "4", "--replication", "1", code=4)


def test_topics_are_for_kafka(lahar: Command) -> None:
    assert "sqlite:x.db has no topics" in lahar("topics", "plan", "--log", "sqlite:x.db", code=2)


def test_a_log_without_topics_says_what_to_do(lahar: Command) -> None:
    assert "`lahar topics apply`" in lahar("summary", code=4)


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
    assert "default/philly-0" in lahar("why", job)
    head, *_, end = lahar("export").splitlines()
    assert json.loads(end)["data"]["records"] == len(lahar("export").splitlines()) - 2
    assert json.loads(head)["data"]["partitions"] == 2
