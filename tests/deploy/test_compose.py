"""The services of docker-compose.yml run together, on a real broker with the file's settings, from what the Dockerfile builds."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import subprocess
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import pytest
import yaml
from broker import BrokerUnavailableError, java_version, obstacle, until
from built_image import Image
from compose_stack import PROMETHEUS, Process, Stack
from container_files import ROOT, elsewhere, seconds
from deployment_page import COMMANDS, blocks
from monitoring import queries
from ports import free_ports
from prometheus_client.parser import text_string_to_metric_families
from test_compose_file import faults

from engine.simulation import sample_trace

PATIENCE = 300.0
JOBS, NEVER_RAN = 500, 68
"""First jobs of the sample of openb."""


@pytest.fixture(scope="module")
def stack(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """All services, healthy."""
    if reason := obstacle():
        if os.environ.get("CI") == "true" and java_version() >= 17:
            pytest.fail(f"no broker to test against ({reason}), and on this machine there must be one", pytrace=False)
        pytest.skip(reason)
    with Stack(image, tmp_path_factory.mktemp("compose")) as running:
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


def none_open(stack: Stack) -> bool:
    """Tell whether workers show shards, and none of them as open."""
    found = [samples(port).get("lahar_shard_open", {}) for port in stack.metrics["lifecycle"]]
    return any(found) and not any(any(shards.values()) for shards in found)


def all_open(stack: Stack) -> bool:
    """Tell whether each shard is held by a worker."""
    partitions = int(re.search(r"--partitions (\d+)", " ".join(stack.services["topics"]["command"]))[1])
    try:
        return total(stack, "lahar_shard_open") == partitions
    except OSError:  # one does not listen yet
        return False


def test_every_service_becomes_healthy(stack: Stack) -> None:
    expected = {"kafka": 1, "topics": 1, "lifecycle": 2, "scheduling": 1, "billing": 1, "budgets": 1, "effects": 1, "usage": 1} | (
        {"prometheus": 1} if PROMETHEUS.exists() else {}
    )
    assert {name: len(processes) for name, processes in stack.processes.items()} == expected
    assert [process.name for process in stack.running if not process.is_healthy()] == []


def test_the_topics_are_as_the_service_declares_them(stack: Stack) -> None:
    _, verb, *options = stack.services["topics"]["command"]
    assert verb == "apply"
    assert lahar(stack, "topics", "plan", *options) == "the topics are as declared\n"


def test_the_workers_share_all_shards(stack: Stack) -> None:
    until(lambda: all_open(stack), PATIENCE, "all shards are open")
    until(lambda: all(samples(port).get("lahar_shard_open") for port in stack.metrics["lifecycle"]), PATIENCE, "both have some")


def is_ready(port: int) -> bool:
    """Tell whether a process says that it does its work."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=10):
            return True
    except OSError:  # it does not listen yet, or says 503
        return False


def test_what_is_appended_from_the_machine_is_processed_and_counted(stack: Stack, tmp_path: Path) -> None:
    # What was before they were ready is no event to count.
    until(lambda: is_ready(stack.metrics["usage"][0]), PATIENCE, "the agents are ready")
    with sample_trace("openb") as raw, gzip.open(raw, "rt") as rows:
        (tmp_path / "openb.csv").write_text("".join(islice(rows, 1 + JOBS)))
    lahar(stack, "import-trace", "--format", "openb", str(tmp_path / "openb.csv"))
    entered = {"phase": "Pending"}

    def counted() -> bool:
        found = samples(stack.metrics["usage"][0]).get("lahar_usage_jobs_entered_total", {})
        return sum(value for labels, value in found.items() if entered.items() <= dict(labels).items()) == JOBS

    until(counted, PATIENCE, "the agents have counted them")
    assert json.loads(lahar(stack, "--json", "summary").splitlines()[0])["jobs"] == JOBS

    def billed() -> bool:
        invoices = map(json.loads, lahar(stack, "--json", "billing", "invoice").splitlines())
        return sum(len(invoice["lines"]) for invoice in invoices) == JOBS - NEVER_RAN

    until(billed, PATIENCE, "what ran is billed")


def test_what_only_kafka_has_is_shown(stack: Stack) -> None:
    for name in ("lahar_lso_lag_records", "lahar_inputs_gone_total"):
        (labels, *_) = samples(stack.metrics["lifecycle"][0])[name]
        assert {label for label, _ in labels} == {"topic", "partition"}
    assert total(stack, "lahar_rebalance_seconds_count") >= 1


@pytest.mark.skipif(not PROMETHEUS.exists(), reason="no prometheus: run `make promtool`")
def test_prometheus_reaches_every_worker_and_answers_every_query(stack: Stack) -> None:
    def asked(query: str) -> list[Any]:
        with urlopen(f"http://{stack.address(9090)}/api/v1/query?query={quote(query)}", timeout=10) as answer:
            return json.load(answer)["data"]["result"]

    scraped = len(stack.running) - len(stack.processes["kafka"])
    until(lambda: len(asked("up == 1")) == scraped, PATIENCE, "prometheus has scraped everything")
    # No callback is registered, no commit has failed, nothing fires, and no job names the scheduler lahar.
    expected = (
        *("Callbacks off", "Events behind", "Delivered", "Failed attempts", "What fires", "Transactions given up' C"),
        *("Decided", "Jobs that wait, by queue", "Longest wait", "Decisions refused' A", "Open notices"),
    )
    waiting = {
        place: query for place, query in queries() if place.startswith("panel") and not any(title in place for title in expected)
    }

    def answered() -> bool:
        for place in [place for place, query in waiting.items() if asked(query)]:
            del waiting[place]
        return not waiting

    with suppress(BrokerUnavailableError):  # a rate needs two scrapes of its own target
        until(answered, PATIENCE, "every panel is answered")
    assert waiting == {}


@pytest.mark.slow
def test_kafka_keeps_what_it_has_when_it_is_stopped_and_started(stack: Stack) -> None:
    before = lahar(stack, "--json", "summary")
    (kafka,) = stack.processes["kafka"]
    _, needed = kafka.stop()
    assert not kafka.is_healthy()
    assert needed < seconds(stack.services["kafka"]["stop_grace_period"])
    until(lambda: none_open(stack), PATIENCE, "the workers show that the log cannot be used")
    kafka.start()
    kafka.wait_until_healthy()
    assert lahar(stack, "--json", "summary") == before
    until(lambda: all_open(stack), PATIENCE, "the workers go on")


def test_a_worker_that_comes_back_gets_its_shards_back(stack: Stack) -> None:
    returning = stack.processes["lifecycle"][0]
    assert returning.stop()[0] == 0
    returning.start()
    until(lambda: all_open(stack), PATIENCE, "all shards are open", returning.must_run)


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(line, marks=[pytest.mark.slow] if "import-trace" in line else [])
        for line in COMMANDS
        if "lahar " in line or " run " in line
    ],
)
def test_what_it_runs_in_a_container_works(command: str, stack: Stack) -> None:
    environment = stack.environment("topics")
    words = shlex.split(command)
    if words[0] == "lahar":
        arguments = [elsewhere(word, {9092: int(stack.address(9092).split(":")[1])}) for word in words[1:]]
    elif "lahar" in words:
        arguments = words[words.index("lahar") + 1 :]
    else:
        arguments = stack.services[words[-1]]["command"]
    done = subprocess.run([*stack.command([], {}), *arguments], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_callbacks_are_found_where_the_page_puts_them(stack: Stack) -> None:
    (override,) = (yaml.safe_load(block) for block in blocks("yaml"))
    assert faults(override) == []
    (toml,) = blocks("toml")
    mounted = [volume.split(":") for volume in override["services"]["effects"]["volumes"]]
    assert [(target, mode) for _, target, mode in mounted] == [
        ("/var/lib/lahar/lahar.toml", "ro"),
        ("/var/lib/lahar/my_platform", "ro"),
    ]
    home = stack.folder / "effects-callbacks"
    (home / "my_platform").mkdir(parents=True)
    (home / "lahar.toml").write_text(toml, encoding="utf-8")
    callbacks = """
        from engine.effects import Notice, callback


        @callback(level="job", to="Aborted")
        def finished(notice: Notice) -> None:
            pass
    """
    (home / "my_platform" / "callbacks.py").write_text(textwrap.dedent(callbacks), encoding="utf-8")
    (port,) = free_ports(1)
    command = [*stack.command(stack.services["effects"]["command"], {9100: port}), "--instance", "effects-callbacks"]
    (named,) = override["services"]["effects"]["environment"].values()
    assert named == "/var/lib/lahar/lahar.toml"
    environment = {**stack.environment("effects"), "LAHAR_CONFIG": str(home / "lahar.toml")}
    process = Process("effects-callbacks", command, environment, stack.folder, None)
    try:
        until(lambda: "lahar" in process.said(), 60, "it has begun")
        process.must_run()
        assert process.stop()[0] == 0
        nobody = "no callbacks are registered"
        assert nobody in stack.processes["effects"][0].log.read_text(encoding="utf-8")
        assert nobody not in process.log.read_text(encoding="utf-8")
    finally:
        process.kill()


def test_stopped_with_sigterm_it_ends_in_good_order_and_in_time(stack: Stack) -> None:
    """The last of them: nothing of ours runs afterwards."""
    for name in ("usage", "effects", "budgets", "billing", "lifecycle"):
        for process in stack.processes[name]:
            assert process.is_healthy()
            code, needed = process.stop()
            assert code == 0, f"{process.name}:\n{process.said()}"
            assert needed < seconds(stack.services[name]["stop_grace_period"])
            assert not process.is_healthy(), "a check that always succeeds says nothing"
            # The image has no volume: what a process writes is lost, and grows until then.
            assert list(process.home.iterdir()) == []
