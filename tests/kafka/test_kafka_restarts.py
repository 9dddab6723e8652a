"""A broker restarts while a command appends: the command waits as Kafka's clients do, and tells how to go on if it has to end."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from broker import Cluster, until
from lahar_command import Command
from lifecycle_inputs import inputs

from engine.history.export_lines import TOPICS
from engine.log.port import Partition
from streams.log import KafkaLog
from streams.settings import KafkaSettings
from streams.topics import apply, declared

pytestmark = pytest.mark.usefixtures("jars")

PATIENCE = 60.0
POD = (
    '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "%s", "namespace": "x", "uid": "%s", "resourceVersion": "1", '
    '"creationTimestamp": "2026-03-01T10:00:00Z", '
    '"ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "job", "controller": true}]}}\n'
)


@pytest.fixture(scope="module")
def cluster(jars: None) -> Iterator[Cluster]:
    with Cluster() as found:
        yield found


def settings_of(cluster: Cluster, prefix: str, delivery_seconds: float) -> KafkaSettings:
    settings = KafkaSettings(
        bootstrap_servers=cluster.bootstrap, topic_prefix=prefix, request_seconds=6, delivery_seconds=delivery_seconds
    )
    asyncio.run(apply(settings, declared(settings, 1, 1)))
    return settings


def ids(log: KafkaLog) -> list[str]:
    return [record.message.id for topic in TOPICS for record in log.read(Partition(topic, 0), 0, 1_000)]


@pytest.mark.parametrize(
    "connected",
    [pytest.param(True, id="connected before"), pytest.param(False, id="not connected yet", marks=pytest.mark.slow)],
)
def test_an_append_outlasts_a_restart_beyond_its_timeout_and_writes_once(
    cluster: Cluster, prefix: str, caplog: pytest.LogCaptureFixture, *, connected: bool
) -> None:
    caplog.set_level(logging.WARNING, "streams.log")
    (topic, first), *rest = inputs(10)
    later = [message for other, message in rest if other == topic]
    log = KafkaLog(settings_of(cluster, prefix, PATIENCE))
    if connected:
        log.append(topic, [first])
    cluster.brokers[0].kill()
    appending = threading.Thread(target=log.append, args=(topic, later))
    appending.start()

    def warnings() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.name == "streams.log"]

    until(lambda: bool(warnings()), PATIENCE, "the wait is announced")
    assert appending.is_alive()
    cluster.brokers[0].start()
    appending.join(PATIENCE)
    found = ids(log)
    log.close()
    assert found == [message.id for message in ([first] if connected else []) + later]
    (warned,) = warnings()
    assert warned.startswith(f"waiting up to {PATIENCE:g} s")


def test_a_timed_out_command_says_how_to_go_on_and_a_rerun_adds_nothing(cluster: Cluster, prefix: str, tmp_path: Path) -> None:
    settings = settings_of(cluster, prefix, 1)
    command = [str(Path(sys.executable).with_name("lahar")), "ingest", "-"]
    environment = os.environ | {
        "LAHAR_LOG": f"kafka://{settings.bootstrap_servers}",
        "KAFKA_TOPIC_PREFIX": prefix,
        "KAFKA_REQUEST_SECONDS": "6",
        "KAFKA_DELIVERY_SECONDS": "1",
    }
    log = KafkaLog(settings)
    running = subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=tmp_path, bufsize=1
    )
    assert running.stdin is not None
    running.stdin.write(POD % ("one", "1"))
    until(lambda: len(ids(log)) == 1, PATIENCE, "the first pod is in the log")
    log.close()
    cluster.brokers[0].kill()
    _, said = running.communicate(POD % ("two", "2"), PATIENCE)
    assert running.returncode == 4
    assert "cannot be written: KafkaTimeoutError: no answer within 1 s; run the same command again: nothing is added twice" in said
    cluster.brokers[0].start()
    lahar = Command.of(settings)
    assert "2 taken" in lahar("ingest", "-", given=POD % ("one", "1") + POD % ("two", "2")).out
    lahar("run", "--once")
    assert lahar.records("summary")[0]["attempts"] == 2
