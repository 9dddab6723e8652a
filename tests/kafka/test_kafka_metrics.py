"""Metrics and logs of shards on a real broker, as they are seen from outside: over HTTP, in lines of JSON."""

from __future__ import annotations

import base64
import json
import random
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.request import urlopen

import pytest
from broker import until
from counting_stage import CountingStage, Shard, custom
from lifecycle_inputs import inputs
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from topics_of_tests import delete_records
from transactions_by_hand import within, write_half
from worker_process import Lahar

from engine.events import Event
from engine.events.actions import EventRaised
from engine.log.errors import FencedError
from engine.log.port import Partition, ShardId
from engine.processor.processor import Processor
from engine.processor.stage import Decision
from engine.runtime.metrics import ProcessorMetrics
from engine.runtime.serving import Address, Server
from streams.codec import encode
from streams.log import KafkaLog
from streams.settings import KafkaSettings

Make = Callable[[int], KafkaLog]
Open = Callable[[], KafkaLog]
EVENTS = Partition("job-events", 0)


class LoudStage(CountingStage):
    """What it adds is too large for the broker if the input says so."""

    def _act(self, make: Any, state: Shard, event: Event[Any], now: int) -> Decision:
        if event.data.event == "loud":
            # Nothing that can be compressed.
            text = base64.b64encode(random.Random(1).randbytes(5_000_000)).decode()  # noqa: S311  not secret
            yield make(EventRaised("added", data={"by": 1, "text": text}))
            return "applied"
        return (yield from super()._act(make, state, event, now))


class Watched:
    """A processor whose metrics are served."""

    def __init__(self, log: KafkaLog) -> None:
        registry = CollectorRegistry()
        self.log = log
        self.processor = Processor(log, LoudStage(), observer=ProcessorMetrics(registry))
        self.processor.open()
        self._server = Server(Address("127.0.0.1", 0), registry)

    def __call__(self, name: str, **labels: str) -> float | None:
        """Scrape, and return a sample; labels that are not given may have any value."""
        with urlopen(self._server.url, timeout=60) as answer:  # noqa: S310  its own
            page = answer.read().decode()
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    return sample.value
        return None

    def close(self) -> None:
        self._server.close()


@pytest.fixture
def watched(make_log: Make) -> Iterator[Watched]:
    found = Watched(make_log(1))
    yield found
    found.close()


def test_what_stands_behind_an_open_transaction_is_the_lso_lag(watched: Watched, open_log: Open) -> None:
    assert watched("lahar_lso_lag_records", topic="job-events", partition="0") == 0
    other = open_log()
    neighbour = other.open(ShardId("billing", 0), (Partition("jobs", 0),))
    write_half(neighbour, EVENTS)
    watched.log.append("pods", [custom("a", number, "add", at=number) for number in (1, 2)])
    until(lambda: watched("lahar_lag_records") == 2, 30, "what waits")
    watched.processor.step()
    until(lambda: watched("lahar_lag_records") == 0, 30, "that nothing waits")
    # The half, two events and the marker behind them, which comes a moment later.
    until(lambda: watched("lahar_lso_lag_records", topic="job-events", partition="0") == 4, 30, "the lag")
    until(lambda: watched("lahar_lso_lag_records", topic="pods", partition="0") == 0, 30, "that inputs can be read")
    within(neighbour, neighbour.producer.aiokafka.commit_transaction())
    until(lambda: watched("lahar_lso_lag_records", topic="job-events", partition="0") == 0, 30, "the end of the lag")


def test_inputs_that_are_gone_before_they_were_taken_are_counted_once(
    watched: Watched, settings: KafkaSettings, open_log: Open
) -> None:
    def gone() -> float | None:
        return watched("lahar_inputs_gone_total", topic="pods", partition="0")

    pods = watched.log.name(Partition("pods", 0))
    watched.log.append("pods", [custom("a", number, "add", at=number) for number in range(6)])
    watched.processor.step()
    other = open_log().open(ShardId("billing", 0), (Partition("jobs", 0),))
    batches = other.producer.batches()
    batches.add(pods, encode(custom("a", 6, "add", at=6)))
    # The marker of a transaction between two inputs is nothing that was lost.
    producer = other.producer.aiokafka
    within(other, producer.begin_transaction(), other.producer.send_in_loop(batches), producer.commit_transaction())
    watched.log.append("pods", [custom("a", number, "add", at=number) for number in range(8, 12)])
    watched.processor.step()
    assert (gone(), watched.processor.received) == (0, 11)
    watched.log.append("pods", [custom("a", number, "add", at=number) for number in range(12, 20)])
    delete_records(settings, pods, 17)
    for _ in range(2):
        watched.processor.step()
        assert (gone(), watched.processor.received) == (5, 14)
    # What was not committed is read again.
    assert len(open_log().read(Partition("pods", 0), 12, 10)) == len(watched.log.read(Partition("pods", 0), 12, 10)) == 3
    assert gone() == 5


def test_an_input_waits_since_its_append_however_old_its_trace(make_log: Make) -> None:
    log, registry = make_log(1), CollectorRegistry()
    processor = Processor(log, CountingStage(), batch=1, observer=ProcessorMetrics(registry))
    processor.open()
    a_day_after_1970 = 86_400_000_000
    log.append("pods", [custom("a", number, "add", at=a_day_after_1970) for number in (1, 2)])
    processor.step()
    shard = {"stage": "counting", "shard": "0"}
    assert registry.get_sample_value("lahar_lag_records", shard) >= 1
    assert registry.get_sample_value("lahar_lag_seconds", shard) < 3_600
    (first, _) = log.read(Partition("pods", 0), 0, 2)
    assert abs(first.appended / 1e6 - time.time()) < 3_600
    processor.close()


def test_a_fence_is_an_abort_and_nothing_of_the_lag_is_told_any_more(watched: Watched, open_log: Open) -> None:
    watched.log.append("pods", [custom("a", 1, "add", at=1)])
    watched.processor.step()
    assert (watched("lahar_fences_total"), watched("lahar_aborts_total"), watched("lahar_commit_seconds_count")) == (0, 0, 1)
    Processor(open_log(), LoudStage()).open()
    watched.log.append("pods", [custom("a", 2, "add", at=1)])
    with pytest.raises(FencedError):
        watched.processor.step()
    assert (watched("lahar_fences_total"), watched("lahar_aborts_total"), watched("lahar_commit_seconds_count")) == (1, 1, 1)
    assert watched("lahar_commit_failures_total", error="FencedError") == 1
    assert (watched("lahar_shard_open"), watched("lahar_lag_records")) == (0, None)


def test_a_transaction_with_too_large_a_record_aborts_into_a_dead_letter(watched: Watched) -> None:
    watched.log.append("pods", [custom("a", 1, "loud", at=1), custom("a", 2, "add", at=2)])
    watched.processor.run_until_quiet()
    assert (watched("lahar_aborts_total"), watched("lahar_fences_total")) == (1, 0)
    assert watched("lahar_commit_failures_total", error="RecordTooLargeError") == 1
    assert (watched("lahar_dead_letters_total"), watched("lahar_inputs_total", outcome="applied")) == (1, 1)
    assert watched("lahar_shard_open") == 1


def test_a_worker_writes_its_life_in_lines_of_json_and_no_secret(make_log: Make, settings: KafkaSettings) -> None:
    log = make_log(1)
    given = inputs(20)
    for topic in ("cluster", "jobs", "pods"):
        log.append(topic, [message for found, message in given if found == topic])
    environment = {"LAHAR_LOG_FORMAT": "json", "KAFKA_SASL_USERNAME": "lahar", "KAFKA_SASL_PASSWORD": "s3cr3t"}
    with Lahar(settings, "worker", "--stage", "lifecycle", "--ordinal", "0", "--workers", "1", **environment) as worker:
        worker.until(lambda: worker.figure("lahar_inputs_received_total") == len(given) and worker.is_ready)
        letters = worker.figure("lahar_dead_letters_total")
        assert worker.figure("lahar_shards") == 1
        worker.send(signal.SIGTERM)
        assert worker.wait() == 0
        said = worker.said
    lines = [json.loads(line) for line in said.splitlines()]
    messages = [line["message"] for line in lines]
    assert all(set(line) >= {"time", "level", "logger", "message"} for line in lines)
    assert [line["events"] for line in lines if "is open" in line["message"]] == [0]
    dead = [line for line in lines if line["message"].startswith("dead letter")]
    assert 0 < len(dead) == letters
    assert {(line["level"], line["shard"], line["topic"], line["partition"]) for line in dead} == {
        ("WARNING", "lifecycle/0", "pods", 0)
    }
    assert messages[-1] == "shard lifecycle/0 is closed"
    assert len(lines) == len(dead) + 4, "nothing is said of ordinary events"


def test_a_worker_without_a_broker_reports_it_in_json_without_its_password(settings: KafkaSettings) -> None:
    nowhere = settings.model_copy(update={"bootstrap_servers": "127.0.0.1:1", "request_seconds": 3.0})
    secret = {
        "KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
        "KAFKA_SASL_USERNAME": "lahar",
        "KAFKA_SASL_PASSWORD": "s3cr3t",
        "LAHAR_LOG_FORMAT": "json",
    }
    for bootstrap in (nowhere, settings):  # nobody there; one that speaks no SASL
        with Lahar(
            bootstrap.model_copy(update={"request_seconds": 3.0, "start_seconds": 0.0}), "worker", "--stage", "lifecycle", **secret
        ) as worker:
            assert worker.wait() == 4
            said = worker.said
        last = json.loads(said.splitlines()[-1])
        assert (last["level"], last["error"]) == ("ERROR", "LogUnavailableError"), said
        assert "s3cr3t" not in said
