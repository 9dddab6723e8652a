"""The services of docker-compose.yml run together, on a real broker with the file's settings, from what the Dockerfile builds."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import pytest
from broker import java_version, obstacle, until
from built_image import Image
from compose_stack import Stack
from container_files import ROOT, seconds
from monitoring import queries
from prometheus_client.parser import text_string_to_metric_families

PATIENCE = 120.0
JOB = ROOT / "examples" / "ensemble" / "job.yaml"
PROMETHEUS = ROOT / ".promtool" / "prometheus"


@pytest.fixture(scope="module")
def stack(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """All services, healthy."""
    if reason := obstacle():
        if os.environ.get("CI") == "true" and java_version() >= 17:
            pytest.fail(f"no broker to test against ({reason}), and on this machine there must be one", pytrace=False)
        pytest.skip(reason)
    with Stack(image, tmp_path_factory.mktemp("compose"), PROMETHEUS if PROMETHEUS.exists() else None) as running:
        yield running


def lahar(stack: Stack, *arguments: str) -> str:
    """Run a command as somebody on the machine does, on the port that Kafka publishes."""
    environment = stack.environment("topics") | {"LAHAR_LOG": f"kafka://{stack.address(9092)}"}
    command = [*stack.command([], {}), *arguments]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def samples(port: int) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """Return name → labels → value of what a process shows."""
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def total(stack: Stack, name: str) -> float:
    """Return the sum of a metric over all lifecycle workers."""
    return sum(sum(samples(port).get(name, {}).values()) for port in stack.metrics["lifecycle"])


def partitions(stack: Stack) -> int:
    """Return how many shards the stage has."""
    return int(re.search(r"--partitions (\d+)", " ".join(stack.services["topics"]["command"]))[1])


def test_every_service_becomes_healthy(stack: Stack) -> None:
    expected = {"kafka": 1, "topics": 1, "lifecycle": 2, "effects": 1, "usage": 1} | (
        {"prometheus": 1} if PROMETHEUS.exists() else {}
    )
    assert {name: len(processes) for name, processes in stack.processes.items()} == expected
    assert [process.name for process in stack.running if not process.is_healthy()] == []


def test_the_topics_are_as_the_service_declares_them(stack: Stack) -> None:
    _, verb, *options = stack.services["topics"]["command"]
    assert verb == "apply"
    assert lahar(stack, "topics", "plan", *options) == "the topics are as declared\n"


def test_the_workers_share_all_shards(stack: Stack) -> None:
    until(lambda: total(stack, "lahar_shard_open") == partitions(stack), PATIENCE, "all shards are open")
    until(lambda: all(samples(port).get("lahar_shard_open") for port in stack.metrics["lifecycle"]), PATIENCE, "both have some")


def test_what_is_appended_from_the_machine_is_processed_and_counted(stack: Stack) -> None:
    lahar(stack, "import-trace")
    jobs = 3_000

    def imported() -> bool:
        return json.loads(lahar(stack, "--json", "summary").splitlines()[0])["jobs"] == jobs

    until(imported, PATIENCE, "the jobs are known")
    entered = {"phase": "Pending"}

    def counted() -> bool:
        found = samples(stack.metrics["usage"][0]).get("lahar_usage_jobs_entered_total", {})
        return sum(value for labels, value in found.items() if entered.items() <= dict(labels).items()) == jobs

    until(counted, PATIENCE, "the agents have counted them")


def test_what_only_kafka_has_is_shown(stack: Stack) -> None:
    (labels, *_) = samples(stack.metrics["lifecycle"][0])["lahar_lso_lag_records"]
    assert {name for name, _ in labels} == {"topic", "partition"}
    assert total(stack, "lahar_rebalance_seconds_count") >= 1


@pytest.mark.skipif(not PROMETHEUS.exists(), reason="no prometheus: run `make promtool`")
def test_prometheus_reaches_every_worker_and_answers_every_query(stack: Stack) -> None:
    def asked(query: str) -> list[Any]:
        with urlopen(f"http://{stack.address(9090)}/api/v1/query?query={quote(query)}", timeout=10) as answer:
            return json.load(answer)["data"]["result"]

    until(lambda: len(asked("up == 1")) == 5, PATIENCE, "prometheus has scraped everything")
    until(lambda: len(asked("rate(lahar_inputs_received_total[1m])")) > 0, PATIENCE, "it has scraped twice")
    unanswered = [place for place, query in queries() if place.startswith("panel") and not asked(query)]
    # No callback is registered, no commit has failed, and nothing fires.
    expected = ("Callbacks off", "Events behind", "Delivered", "Failed attempts", "What fires", "Transactions given up' C")
    assert [place for place in unanswered if not any(title in place for title in expected)] == []


def test_kafka_keeps_what_it_has_when_it_is_stopped_and_started(stack: Stack) -> None:
    before = lahar(stack, "--json", "summary")
    (kafka,) = stack.processes["kafka"]
    _, needed = kafka.stop()
    assert not kafka.is_healthy()
    assert needed < seconds(stack.services["kafka"]["stop_grace_period"])
    kafka.start()
    kafka.wait_until_healthy()
    assert lahar(stack, "--json", "summary") == before
    until(lambda: total(stack, "lahar_shard_open") == partitions(stack), PATIENCE, "the workers go on")


def test_stopped_with_sigterm_it_ends_in_good_order_and_in_time(stack: Stack) -> None:
    """The last of them: nothing of ours runs afterwards."""
    for name in ("usage", "effects", "lifecycle"):
        for process in stack.processes[name]:
            assert process.is_healthy()
            code, needed = process.stop()
            assert code == 0, f"{process.name}:\n{process.said()}"
            assert needed < seconds(stack.services[name]["stop_grace_period"])
            assert not process.is_healthy(), "a check that always succeeds says nothing"
            # The image has no volume: what a process writes is lost, and grows until then.
            assert list(process.home.iterdir()) == []
