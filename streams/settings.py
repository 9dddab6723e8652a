"""Connection settings of a Kafka cluster, from the usual environment variables of Kafka clients.

| variable | meaning |
|---|---|
| `KAFKA_BOOTSTRAP_SERVERS` | `HOST:PORT,…`; a log's URL `kafka://HOST:PORT,…` wins |
| `KAFKA_SECURITY_PROTOCOL` | `PLAINTEXT`, `SSL`, `SASL_PLAINTEXT`, `SASL_SSL` |
| `KAFKA_SASL_MECHANISM` | `PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512`, `OAUTHBEARER` |
| `KAFKA_SASL_USERNAME`, `KAFKA_SASL_PASSWORD` | for the first three |
| `KAFKA_SASL_TOKEN_PROVIDER` | for the last one: `module:callable`, which returns a token |
| `KAFKA_SSL_CAFILE`, `KAFKA_SSL_CERTFILE`, `KAFKA_SSL_KEYFILE`, `KAFKA_SSL_KEYFILE_PASSWORD` | PEM files |
| `KAFKA_SSL_CHECK_HOSTNAME` | `false` only where certificates name no host |
| `KAFKA_TOPIC_PREFIX` | before every topic, group and transactional id: several logs in one cluster |
| `KAFKA_START_SECONDS` | 60 unless given; so long a worker that starts before its brokers or topics waits for them |
| `KAFKA_DELIVERY_SECONDS` | 120 unless given; so long an append waits for brokers that are away |
| `KAFKA_SESSION_SECONDS` | 30 unless given: after so long a silence of a worker, others get its shards |
| `KAFKA_COMPRESSION` | `zstd` unless given; `none`, `gzip`, `snappy`, `lz4` |
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, SettingsConfigDict

from engine.log.url import must_name_no_login
from streams.client.tokens import TokenProvider

__all__ = ["URL_SCHEME", "KafkaSettings"]

URL_SCHEME: Final = "kafka://"
_TRIES: Final = 3


class KafkaSettings(BaseSettings):
    """One Kafka cluster, and Lahar's names in it. Its `repr` shows no secrets."""

    model_config = SettingsConfigDict(env_prefix="KAFKA_", extra="ignore", frozen=True, hide_input_in_errors=True)

    bootstrap_servers: str = "localhost:9092"
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] = "PLAIN"
    sasl_username: str | None = None
    sasl_password: SecretStr | None = None
    sasl_token_provider: str | None = None
    ssl_cafile: Path | None = None
    ssl_certfile: Path | None = None
    ssl_keyfile: Path | None = None
    ssl_keyfile_password: SecretStr | None = None
    ssl_check_hostname: bool = True
    client_id: str = "lahar"
    topic_prefix: Annotated[str, Field(pattern=r"^[a-zA-Z0-9._-]{0,100}$")] = ""
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "zstd"
    """Of records. Their headers repeat themselves: zstd leaves a tenth of the bytes for 0.7 µs a record; lz4, at the level that
    aiokafka asks for, a seventh for 4 µs."""
    request_seconds: Annotated[float, Field(gt=0)] = 30.0
    """How long the log tries to reach a broker before it is unavailable."""
    delivery_seconds: Annotated[float, Field(gt=0)] = 120.0
    """How long an append waits for brokers that restart, as `delivery.timeout.ms` of Kafka's clients says."""
    start_seconds: Annotated[float, Field(ge=0)] = 60.0
    """How long a long-running process waits at its start for missing brokers and topics."""
    session_seconds: Annotated[float, Field(ge=1)] = 30.0
    """After which a group gives the shards of a worker that is silent to others. A restart should take less; brokers allow 6 s to
    30 min unless they are told otherwise (`group.min.session.timeout.ms`, `group.max.session.timeout.ms`)."""
    transaction_seconds: Annotated[float, Field(gt=0)] = 15.0
    """After which the broker ends a transaction whose producer is silent. A frozen worker can block readers for that long; a commit
    that takes longer is lost."""

    @field_validator("bootstrap_servers")
    @classmethod
    def _names_no_login(cls, servers: str) -> str:
        must_name_no_login(servers)
        return servers

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.security_protocol.startswith("SASL"):
            if self.sasl_mechanism == "OAUTHBEARER":
                if not self.sasl_token_provider:
                    raise ValueError("OAUTHBEARER needs KAFKA_SASL_TOKEN_PROVIDER=module:callable")
            elif self.sasl_username is None or self.sasl_password is None:
                raise ValueError(f"{self.sasl_mechanism} needs KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD")
        return self

    @classmethod
    def of_url(cls, url: str) -> KafkaSettings:
        """Return the settings of the environment for the cluster that a log's URL names; `kafka://` leaves that to them too.

        Raises:
            ValueError: the URL is of another form, or a setting does not fit.
        """
        must_name_no_login(url)
        if not url.startswith(URL_SCHEME):
            raise ValueError(f"{url!r} is no Kafka log; write kafka://HOST:PORT")
        servers = url.removeprefix(URL_SCHEME).rstrip("/")
        if any(sign in servers for sign in "/?#"):
            raise ValueError(f"{url!r} may name hosts and ports only; set the rest in KAFKA_… variables")
        try:
            return cls(bootstrap_servers=servers) if servers else cls()
        except ValidationError as error:
            raise ValueError("; ".join(_named(fault) for fault in error.errors(include_input=False))) from None

    @property
    def where(self) -> str:
        """The cluster, for people."""
        return f"Kafka at {self.bootstrap_servers}"

    def group(self, *parts: object) -> str:
        """Return the name of a group or transactional id: `{prefix}lahar-lifecycle-0`.

        It depends on nothing else: a shard opened under another name would fence no other holder.
        """
        return self.topic_prefix + "-".join(["lahar", *map(str, parts)])

    def client_arguments(self) -> dict[str, Any]:
        """Return what aiokafka's clients, consumers and producers take to connect; for use within an event loop.

        Raises:
            ValueError: a certificate or key cannot be read, or the token provider cannot be imported.
        """
        # One broker that does not answer, frozen or cut off, must not use up all of the time: the others may.
        request_seconds = self.request_seconds / _TRIES
        arguments: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap_servers,
            "client_id": self.client_id,
            "security_protocol": self.security_protocol,
            "request_timeout_ms": int(request_seconds * 1000),
            # A topic that has grown, or a partition that has moved, is noticed within this time at the latest.
            "metadata_max_age_ms": 10_000,
        }
        if self.security_protocol.endswith("SSL"):
            arguments["ssl_context"] = self._ssl_context()
        if self.security_protocol.startswith("SASL"):
            arguments["sasl_mechanism"] = self.sasl_mechanism
            if self.sasl_mechanism == "OAUTHBEARER":
                arguments["sasl_oauth_token_provider"] = TokenProvider(self.sasl_token_provider or "", request_seconds)
            elif self.sasl_password is not None:
                arguments["sasl_plain_username"] = self.sasl_username
                arguments["sasl_plain_password"] = _Concealed(self.sasl_password.get_secret_value())
        return arguments

    def _ssl_context(self) -> ssl.SSLContext:
        with _usable(KAFKA_SSL_CAFILE=self.ssl_cafile):
            context = ssl.create_default_context(cafile=self.ssl_cafile)
        context.check_hostname = self.ssl_check_hostname
        if self.ssl_certfile is not None:
            password = self.ssl_keyfile_password
            with _usable(KAFKA_SSL_CERTFILE=self.ssl_certfile, KAFKA_SSL_KEYFILE=self.ssl_keyfile):
                # Without a password Python would ask for one on the terminal.
                context.load_cert_chain(
                    self.ssl_certfile, self.ssl_keyfile, "" if password is None else password.get_secret_value()
                )
        return context


class _Concealed(str):
    """Text that does not show itself where values are shown: in dumps of arguments, in the frames of an error tracker."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'**********'"


def _named(fault: ErrorDetails) -> str:
    """Return the message for an invalid setting, with the name of its variable."""
    if not fault["loc"]:
        return fault["msg"].removeprefix("Value error, ")
    return f"KAFKA_{str(fault['loc'][0]).upper()}: {fault['msg']}"


@contextmanager
def _usable(**files: Path | None) -> Iterator[None]:
    """Name the settings whose files cannot be used."""
    try:
        yield
    except OSError as error:
        named = ", ".join(f"{name}={path}" for name, path in files.items() if path is not None)
        raise ValueError(f"{named}: {error.strerror or error}") from None
