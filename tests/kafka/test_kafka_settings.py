"""Settings come from the usual environment variables, and secrets show nowhere."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest
from pydantic import ValidationError

from streams.settings import KafkaSettings

SASL = {"KAFKA_SECURITY_PROTOCOL": "SASL_SSL", "KAFKA_SASL_USERNAME": "lahar", "KAFKA_SASL_PASSWORD": "s3cr3t"}


def token() -> str:
    return "t0ken"


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("KAFKA_BOOTSTRAP_SERVERS", "KAFKA_SECURITY_PROTOCOL", "KAFKA_TOPIC_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_the_url_wins_over_the_environment(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("KAFKA_BOOTSTRAP_SERVERS", "elsewhere:9092")
    assert KafkaSettings.of_url("kafka://a:1,b:2").bootstrap_servers == "a:1,b:2"
    assert KafkaSettings.of_url("kafka://").bootstrap_servers == "elsewhere:9092"


@pytest.mark.parametrize("url", ["sqlite:x", "kafka:a:1", "kafka://user:word@a:1", "kafka://a:1/topics"])
def test_a_url_of_another_form_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="kafka"):
        KafkaSettings.of_url(url)


def test_a_password_in_a_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(ValueError, match="KAFKA_SASL_PASSWORD") as raised:
        KafkaSettings.of_url("kafka://user:s3cr3t@a:1")
    assert "s3cr3t" not in str(raised.value)


def test_so_is_one_beside_the_brokers(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("KAFKA_BOOTSTRAP_SERVERS", "user:s3cr3t@a:1")
    with pytest.raises(ValueError, match=r"^KAFKA_BOOTSTRAP_SERVERS: .*KAFKA_SASL_PASSWORD$") as raised:
        KafkaSettings.of_url("kafka://")
    assert "s3cr3t" not in str(raised.value)


def test_a_variable_that_does_not_fit_is_named(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("KAFKA_TRANSACTION_SECONDS", "soon")
    with pytest.raises(ValueError, match=r"^KAFKA_TRANSACTION_SECONDS: Input should be a valid number"):
        KafkaSettings.of_url("kafka://a:1")
    environment.delenv("KAFKA_TRANSACTION_SECONDS")
    environment.setenv("KAFKA_SECURITY_PROTOCOL", "SASL_SSL")
    with pytest.raises(ValueError, match=r"^PLAIN needs KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD$"):
        KafkaSettings.of_url("kafka://a:1")


def test_names_of_groups_and_transactions_follow_from_the_prefix_alone() -> None:
    """They fence: of two processes with the same topics and other names, both would write."""
    assert KafkaSettings(topic_prefix="prod-").group("lifecycle", 3) == "prod-lahar-lifecycle-3"
    assert KafkaSettings(topic_prefix="prod-", client_id="other").group("lifecycle", 3) == "prod-lahar-lifecycle-3"


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_password_reaches_the_client_and_no_text(environment: pytest.MonkeyPatch, mechanism: str) -> None:
    for name, value in SASL.items():
        environment.setenv(name, value)
    environment.setenv("KAFKA_SASL_MECHANISM", mechanism)
    settings = KafkaSettings()
    arguments = settings.client_arguments()
    assert (arguments["sasl_mechanism"], arguments["sasl_plain_username"], arguments["sasl_plain_password"]) == (
        mechanism,
        "lahar",
        "s3cr3t",
    )
    assert isinstance(arguments["ssl_context"], ssl.SSLContext)
    assert "s3cr3t" not in f"{settings!r} {settings} {settings.model_dump()} {settings.model_dump_json()}"


def test_what_is_missing_is_named_and_what_is_wrong_is_not_repeated(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("KAFKA_SECURITY_PROTOCOL", "SASL_SSL")
    environment.setenv("KAFKA_SASL_PASSWORD", "s3cr3t")
    with pytest.raises(ValidationError, match="KAFKA_SASL_USERNAME") as raised:
        KafkaSettings()
    assert "s3cr3t" not in str(raised.value)


def test_oauth_asks_a_function_for_its_tokens(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("KAFKA_SECURITY_PROTOCOL", "SASL_PLAINTEXT")
    environment.setenv("KAFKA_SASL_MECHANISM", "OAUTHBEARER")
    with pytest.raises(ValidationError, match="KAFKA_SASL_TOKEN_PROVIDER"):
        KafkaSettings()
    environment.setenv("KAFKA_SASL_TOKEN_PROVIDER", f"{__name__}:token")
    provider = KafkaSettings().client_arguments()["sasl_oauth_token_provider"]
    assert asyncio.run(provider.token()) == "t0ken"
    environment.setenv("KAFKA_SASL_TOKEN_PROVIDER", "nowhere:token")
    with pytest.raises(ValueError, match=r"^KAFKA_SASL_TOKEN_PROVIDER=nowhere:token: No module named 'nowhere'$"):
        KafkaSettings().client_arguments()


def test_a_certificate_that_is_not_there_is_an_error(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = KafkaSettings(security_protocol="SSL", ssl_cafile=tmp_path / "ca.pem")
    with pytest.raises(ValueError, match=r"KAFKA_SSL_CAFILE=.*ca\.pem: No such file"):
        settings.client_arguments()
