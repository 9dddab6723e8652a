"""TLS, PLAIN, SCRAM and OAUTHBEARER against a broker that asks for them; no secret is ever told.

Certificates are made by Java's keytool when the tests run.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError
from broker import Cluster, Options, need_broker
from lahar_command import Command
from running_agents import PATIENCE, Running, Told, history
from worker_process import Lahar

from engine.log.errors import LogUnavailableError
from streams.client.event_loop import run
from streams.log import KafkaLog
from streams.settings import KafkaSettings
from streams.topics import apply, declared

SECRET = "s3cr3t-of-lahar"  # noqa: S105  of a broker that lives as long as the test
STORE = "st0re-pass"
PROTOCOLS = {"SECURE": "SASL_SSL", "OPEN": "SASL_PLAINTEXT", "MUTUAL": "SSL"}
MODULES = "org.apache.kafka.common.security"
MECHANISMS = {
    "PLAIN": f'{MODULES}.plain.PlainLoginModule required user_lahar="{SECRET}" user_guest="{SECRET}";',
    "SCRAM-SHA-256": f"{MODULES}.scram.ScramLoginModule required;",
    "SCRAM-SHA-512": f"{MODULES}.scram.ScramLoginModule required;",
    "OAUTHBEARER": f'{MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";',
}
PROCESSES = ("worker --stage lifecycle", "agents run streams.agents.usage:app")
QUEUE_AND_JOB = """\
{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: research}, spec: {weight: 1}}
---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: train, namespace: ml}
spec:
  minAvailable: 1
  tasks:
  - {name: worker, replicas: 1, template: {spec: {containers: [{name: main, image: train}]}}}
"""
_numbers = count(1)
failing, never = threading.Event(), threading.Event()


def token() -> str:
    """An unsigned token, as brokers take them that are set up for tests."""
    now = int(time.time())
    parts = [{"alg": "none"}, {"sub": "lahar", "iat": now, "exp": now + 600}]
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."


def wrong_token() -> str:
    return f"{SECRET}.no.token"


class Secured:
    """A broker that asks, and the certificates by which it and its clients are known."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.ports = cluster.brokers[0].ports
        self.folder = folder

    def environment(self, listener: str, **more: str) -> dict[str, str]:
        """Return how a log behind a listener is reached, as a deployment says it."""
        return {
            "KAFKA_BOOTSTRAP_SERVERS": f"127.0.0.1:{self.ports[listener]}",
            "KAFKA_TOPIC_PREFIX": f"secured{next(_numbers)}-",
            "KAFKA_SECURITY_PROTOCOL": PROTOCOLS[listener],
            "KAFKA_SSL_CAFILE": str(self.folder / "broker.pem"),
            "KAFKA_REQUEST_SECONDS": "20",
            **more,
        }


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    need_broker()
    folder = tmp_path_factory.mktemp("certificates")
    store = ("-keystore", "broker.p12", "-storepass", STORE, "-alias", "broker")
    _run(folder, "keytool", "-genkeypair", "-keyalg", "EC", *store, "-dname", "CN=broker", "-ext", "SAN=ip:127.0.0.1")
    _run(folder, "keytool", "-exportcert", "-rfc", *store, "-file", "broker.pem")
    known = "broker.pem"
    if shutil.which("openssl"):
        made = ("-keyout", "client.key", "-out", "client.pem", "-days", "2", "-subj", "/CN=lahar", "-passout", f"pass:{SECRET}")
        _run(folder, "openssl", "req", "-x509", "-newkey", "rsa:2048", *made)
        known = "client.pem"
    options = Options(
        listeners=PROTOCOLS,
        settings={
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:lahar;User:CN=lahar",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": folder / "broker.p12",
            "ssl.keystore.password": STORE,
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.mutual.ssl.truststore.type": "PEM",
            "listener.name.mutual.ssl.truststore.location": folder / known,
            **{
                f"listener.name.{listener}.{mechanism.lower()}.sasl.jaas.config": text
                for listener in ("secure", "open")
                for mechanism, text in MECHANISMS.items()
            },
        },
        users=[f"SCRAM-SHA-{bits}=[name=lahar,password={SECRET}]" for bits in (256, 512)],
    )
    with Cluster(options=options) as cluster:
        yield Secured(cluster, folder)


def _run(folder: Path, *command: str) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


def credentials(mechanism: str) -> dict[str, str]:
    if mechanism == "OAUTHBEARER":
        return {"KAFKA_SASL_MECHANISM": mechanism, "KAFKA_SASL_TOKEN_PROVIDER": f"{__name__}:token"}
    return {"KAFKA_SASL_MECHANISM": mechanism, "KAFKA_SASL_USERNAME": "lahar", "KAFKA_SASL_PASSWORD": SECRET}


def wrong_credentials(mechanism: str) -> dict[str, str]:
    if mechanism == "OAUTHBEARER":
        return credentials(mechanism) | {"KAFKA_SASL_TOKEN_PROVIDER": f"{__name__}:wrong_token"}
    return credentials(mechanism) | {"KAFKA_SASL_PASSWORD": f"not-{SECRET}"}


def told(lahar: Command, *arguments: object, code: int) -> str:
    done = lahar(*arguments, code=code)
    assert SECRET not in done.out + done.err
    return done.err


@pytest.mark.parametrize("listener", ["SECURE", "OPEN"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_log_behind_a_login_is_made_appended_to_processed_and_read(
    secured: Secured, listener: str, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    lahar = Command("kafka://", **secured.environment(listener, **credentials(mechanism)))
    lahar("topics", "apply", "--partitions", 1, "--replication", 1)
    lahar("apply", "-", given=QUEUE_AND_JOB)
    assert lahar.records("run", "--once")[0]["processed"] == 2
    assert [job["name"] for job in lahar.records("job", "list")] == ["train"]
    assert SECRET not in caplog.text


def test_a_log_behind_certificates_of_clients(secured: Secured, tmp_path: Path) -> None:
    if not (secured.folder / "client.pem").exists():
        pytest.skip("no openssl to make a client's certificate")
    own = {
        "KAFKA_SSL_CERTFILE": str(secured.folder / "client.pem"),
        "KAFKA_SSL_KEYFILE": str(secured.folder / "client.key"),
        "KAFKA_SSL_KEYFILE_PASSWORD": SECRET,
    }
    where = secured.environment("MUTUAL")
    lahar = Command("kafka://", **where, **own)
    lahar("topics", "apply", "--partitions", 1, "--replication", 1)
    lahar("apply", "-", given=QUEUE_AND_JOB)
    assert lahar.records("run", "--once")[0]["processed"] == 2
    assert "cannot be reached" in told(Command("kafka://", **where), "summary", code=4)
    wrong = own | {"KAFKA_SSL_KEYFILE_PASSWORD": "wrong"}
    assert "client.key" in told(Command("kafka://", **where, **wrong), "summary", code=2)


@pytest.mark.parametrize("mechanism", list(MECHANISMS))
@pytest.mark.parametrize("command", ["summary", "run --once", "topics plan", *PROCESSES])
def test_a_wrong_login_is_one_line_without_the_secret(
    secured: Secured, mechanism: str, command: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    lahar = Command("kafka://", **secured.environment("SECURE", **wrong_credentials(mechanism)))
    said = told(lahar, *command.split(), code=4).splitlines()
    # Processes that go on say first that they run.
    assert [line for line in said if "SaslAuthenticationFailed: " in line] == said[-1:]
    assert len(said) == 1 or command in PROCESSES
    assert SECRET not in caplog.text


def test_who_may_not_make_topics_is_told_what_is_needed(secured: Secured) -> None:
    guest = credentials("PLAIN") | {"KAFKA_SASL_USERNAME": "guest"}
    lahar = Command("kafka://", **secured.environment("OPEN", **guest))
    said = told(lahar, "topics", "apply", "--replication", 1, code=4)
    assert "TopicAuthorizationFailedError: secured" in said
    assert said.endswith("; let this user create the topics, describe them, and describe and alter their configs\n")


def flaky_token() -> str:
    if failing.is_set():
        raise FetchError(f"https://tokens.example/?key={SECRET}")
    return token()


def hanging_token() -> str:
    never.wait()
    return token()


class FetchError(Exception):
    """As clients of other services raise, of which aiokafka knows nothing."""


def test_a_token_that_cannot_be_had_for_a_while_is_asked_for_again(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in secured.environment("OPEN", **credentials("OAUTHBEARER")).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("KAFKA_SASL_TOKEN_PROVIDER", f"{__name__}:flaky_token")
    settings = KafkaSettings()
    run(apply(settings, declared(settings, 1, 1)))
    log = KafkaLog(settings)
    client: Any = log.wire.client

    async def cut() -> None:
        for connection in list(client._conns.values()):
            connection.close()

    failing.set()
    try:
        log.background.run(cut())
        with pytest.raises(KafkaConnectionError, match="no broker returned metadata"):
            log.background.run(log.wire.learn())
    finally:
        failing.clear()
    log.background.run(log.wire.learn())
    log.append("job-events", history("a"))
    log.close()


def test_a_token_that_never_comes_is_told_and_the_command_ends(secured: Secured) -> None:
    environment = secured.environment("OPEN", **credentials("OAUTHBEARER"), KAFKA_REQUEST_SECONDS="3", LAHAR_LOG="kafka://")
    environment |= {"KAFKA_SASL_TOKEN_PROVIDER": f"{__name__}:hanging_token"}
    done = subprocess.run(
        [sys.executable, "-c", "from engine.cli.main import main; main()", "summary"],
        env=os.environ | environment | {"PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 4, done.stderr
    assert done.stderr.endswith(f"TokenError: KAFKA_SASL_TOKEN_PROVIDER={__name__}:hanging_token has not returned within 1 s\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_no_traceback_tells_the_secret(secured: Secured, mechanism: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the text of any error in the chain nor the values in its frames."""
    set_wrong(monkeypatch, secured, mechanism)
    with pytest.raises(LogUnavailableError) as raised:
        KafkaLog(KafkaSettings())
    shown = "".join(traceback.TracebackException.from_exception(raised.value, capture_locals=True).format())
    assert "SaslAuthenticationFailed" in shown
    assert "arguments = {" in shown
    assert SECRET not in shown


def set_wrong(monkeypatch: pytest.MonkeyPatch, secured: Secured, mechanism: str) -> None:
    """Log in with what brokers refuse, from now on. Apart from the test, whose own values are among those shown."""
    for name, value in secured.environment("SECURE", **wrong_credentials(mechanism)).items():
        monkeypatch.setenv(name, value)


def test_a_broker_whose_certificate_nobody_vouches_for_is_not_spoken_to(secured: Secured, tmp_path: Path) -> None:
    stranger = secured.environment("SECURE", **credentials("PLAIN"))
    del stranger["KAFKA_SSL_CAFILE"]
    said = told(Command("kafka://", **stranger), "summary", code=4)
    assert "CERTIFICATE_VERIFY_FAILED" in said
    assert said.count("\n") == 1


def test_a_broker_that_wants_a_login_and_gets_none(secured: Secured) -> None:
    plain = secured.environment("OPEN") | {"KAFKA_SECURITY_PROTOCOL": "PLAINTEXT", "KAFKA_REQUEST_SECONDS": "5"}
    assert told(Command("kafka://", **plain), "summary", code=4).count("\n") == 1


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "OAUTHBEARER"])
def test_agents_log_in_as_the_log_does(
    secured: Secured, mechanism: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for name, value in secured.environment("SECURE", **credentials(mechanism)).items():
        monkeypatch.setenv(name, value)
    settings = KafkaSettings()
    run(apply(settings, declared(settings, 1, 1)))
    log, agent = KafkaLog(settings), Told()
    log.append("job-events", history("a"))
    with Running(settings, agent.agent()):
        agent.wait(("a", 3))
    log.close()
    assert SECRET not in caplog.text


def test_a_worker_logs_in_on_all_its_connections_and_tells_no_secret(secured: Secured) -> None:
    environment = secured.environment("SECURE", **credentials("PLAIN"))
    lahar = Command("kafka://", **environment)
    lahar("topics", "apply", "--partitions", 1, "--replication", 1)
    lahar("apply", "-", given=QUEUE_AND_JOB)
    settings = KafkaSettings(
        bootstrap_servers=environment["KAFKA_BOOTSTRAP_SERVERS"], topic_prefix=environment["KAFKA_TOPIC_PREFIX"]
    )
    with Lahar(settings, "worker", "--stage", "lifecycle", **environment) as worker:
        # The group has let it in and given it the shard.
        worker.until(lambda: worker.shards == {0} and worker.is_ready)
        worker.until(lambda: len(lahar.records("job", "list")) == 1)
        pages = worker.page("/metrics") + worker.page("/readyz")
        worker.send(signal.SIGTERM)
        assert worker.wait() == 0, worker.said
        assert "this process runs the shards [0]" in worker.said
        assert SECRET not in worker.said + pages
