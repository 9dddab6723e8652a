"""Processes that are started before their brokers, or before their topics: they wait for them, and can be stopped meanwhile."""

from __future__ import annotations

import asyncio
import signal
import ssl
from contextlib import ExitStack

import pytest
from aiokafka.errors import (
    KafkaConnectionError,
    KafkaTimeoutError,
    RequestTimedOutError,
    SaslAuthenticationFailed,
    TopicAuthorizationFailedError,
)
from broker import Cluster
from ports import free_ports
from worker_process import Lahar

from streams.client.tokens import TokenError
from streams.errors import TopicsMissingError, unavailable
from streams.settings import KafkaSettings
from streams.topics import apply, declared

LIFECYCLE = ("worker", "--stage", "lifecycle")
EFFECTS = ("worker", "--stage", "effects")
AGENTS = ("agents", "run", "streams.agents.usage:app")
RUN = ("run",)
ONCE = ("run", "--once")
WAITS = "waiting up to 60 s for the log: Kafka at "


@pytest.fixture
def nowhere() -> KafkaSettings:
    """Settings of a cluster that refuses connections."""
    return KafkaSettings(bootstrap_servers=f"127.0.0.1:{free_ports(1)[0]}")


@pytest.mark.parametrize(
    "error",
    [
        *(ConnectionRefusedError(), OSError("no such host"), TimeoutError()),
        *(KafkaConnectionError("none takes part"), KafkaTimeoutError(), RequestTimedOutError()),
    ],
)
def test_who_does_not_answer_is_waited_for(error: Exception) -> None:
    assert unavailable("the log cannot be reached", error).transient


def test_topics_are_waited_for() -> None:
    assert TopicsMissingError(["pods"], "Kafka").transient


@pytest.mark.parametrize(
    "error",
    [SaslAuthenticationFailed(), ssl.SSLCertVerificationError(), TopicAuthorizationFailedError(), TokenError("raised KeyError")],
)
def test_who_refuses_is_not_waited_for(error: Exception) -> None:
    assert not unavailable("the log cannot be reached", error).transient


@pytest.mark.parametrize("command", [LIFECYCLE, EFFECTS, AGENTS, RUN], ids=lambda command: " ".join(command[:3]))
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow)])
def test_a_process_that_waits_lives_and_can_be_stopped(
    nowhere: KafkaSettings, command: tuple[str, ...], number: signal.Signals, code: int
) -> None:
    with Lahar(nowhere, *command) as process:
        process.until(lambda: WAITS in process.said)
        assert '"ok": true' in process.page("/healthz")
        assert '"ok": false' in process.page("/readyz")
        process.send(number)
        assert process.wait() == code
        assert process.said.count("waiting up to") == 1
        assert "cannot be reached: ConnectionRefusedError" in process.said


@pytest.mark.parametrize("command", [LIFECYCLE, EFFECTS, AGENTS, RUN, ONCE], ids=lambda command: " ".join(command[:3]))
def test_after_its_time_it_ends_with_the_last_reason(nowhere: KafkaSettings, command: tuple[str, ...]) -> None:
    with Lahar(nowhere, *command, KAFKA_START_SECONDS="0.5") as process:
        assert process.wait() == 4
        *_, last = process.said.splitlines()
        assert last.startswith(f"lahar: Kafka at {nowhere.bootstrap_servers} cannot be reached: ConnectionRefusedError")
        assert process.said.count("waiting up to 0.5 s") == 1


def test_processes_started_before_brokers_and_topics_do_their_work(jars: None) -> None:
    with ExitStack() as stack:
        cluster = Cluster()
        shared = KafkaSettings(bootstrap_servers=cluster.bootstrap, topic_prefix="shared-", request_seconds=20, start_seconds=600)
        alone = shared.model_copy(update={"topic_prefix": "alone-"})
        once = shared.model_copy(update={"topic_prefix": "once-"})
        made = [(shared, LIFECYCLE), (shared, EFFECTS), (shared, AGENTS), (alone, RUN), (once, ONCE)]
        processes = [stack.enter_context(Lahar(settings, *command)) for settings, command in made]
        for process in processes:
            process.until(lambda process=process: "waiting up to 600 s for the log" in process.said)
        stack.enter_context(cluster)
        for settings in (shared, alone, once):
            asyncio.run(apply(settings, declared(settings, 2, 1)))
        *lasting, ending = processes
        assert ending.wait() == 0
        assert "0 inputs and timers processed" in ending.said
        for process in lasting:
            process.until(lambda process=process: process.is_ready)
        for process in lasting:
            process.send(signal.SIGTERM)
            assert process.wait() == 0
        assert [process.said.count("waiting up to") for process in processes] == [1] * 5
