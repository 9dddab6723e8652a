"""Connection settings of a Kafka cluster, from the common environment variables of Kafka clients.

| variable | meaning |
|---|---|
| `KAFKA_BOOTSTRAP_SERVERS` | `HOST:PORT,…`; a log URL `kafka://HOST:PORT,…` takes precedence |
| `KAFKA_SECURITY_PROTOCOL` | `PLAINTEXT`, `SSL`, `SASL_PLAINTEXT`, `SASL_SSL` |
| `KAFKA_SASL_MECHANISM` | `PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512`, `OAUTHBEARER` |
| `KAFKA_SASL_USERNAME`, `KAFKA_SASL_PASSWORD` | for the first three mechanisms |
| `KAFKA_SASL_TOKEN_PROVIDER` | for `OAUTHBEARER`: `module:callable`, which returns a token |
| `KAFKA_SSL_CAFILE`, `KAFKA_SSL_CERTFILE`, `KAFKA_SSL_KEYFILE`, `KAFKA_SSL_KEYFILE_PASSWORD` | PEM files |
| `KAFKA_SSL_CHECK_HOSTNAME` | `false` only if certificates have no host names |
| `KAFKA_TOPIC_PREFIX` | prefix of every topic, group and transactional id, for several logs in one cluster |
| `KAFKA_START_SECONDS` | default 60: time that a starting worker waits for its brokers and topics |
| `KAFKA_DELIVERY_SECONDS` | default 120: time that an append waits for unavailable brokers |
| `KAFKA_SESSION_SECONDS` | default 30: time without heartbeats after which a worker's shards are reassigned |
| `KAFKA_COMPRESSION` | default `zstd`; `none`, `gzip`, `snappy`, `lz4` |
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

URL_SCHEME: Final = "kafka://"
_TRIES: Final = 3


class KafkaSettings(BaseSettings):
    """Connection to one Kafka cluster, and Lahar's names in it. Its `repr` hides secrets."""

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
    """Compression of records. Their headers are repetitive: zstd reduces them to a tenth in 0.7 µs per record; lz4, at the level
    that aiokafka uses, to a seventh in 4 µs."""
    request_seconds: Annotated[float, Field(gt=0)] = 30.0
    """Time that the log tries to reach a broker before it is unavailable (seconds)."""
    delivery_seconds: Annotated[float, Field(gt=0)] = 120.0
    """Time that an append waits for restarting brokers (seconds), like `delivery.timeout.ms` of Kafka's clients."""
    start_seconds: Annotated[float, Field(ge=0)] = 60.0
    """Time that a long-running process waits at its start for missing brokers and topics (seconds)."""
    session_seconds: Annotated[float, Field(ge=1)] = 30.0
    """Time without heartbeats after which a worker's shards are reassigned (seconds). A restart should take less; brokers allow 6 s
    to 30 min by default (`group.min.session.timeout.ms`, `group.max.session.timeout.ms`)."""
    transaction_seconds: Annotated[float, Field(gt=0)] = 15.0
    """Time after which the broker aborts a transaction of a silent producer (seconds). A frozen worker can block readers that long;
    a longer commit is lost."""

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
        """Return the settings of the environment for a log URL; `kafka://` takes the servers from the environment too.

        Raises:
            ValueError: the URL has another form, or a setting is invalid.
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
        """Name of the cluster, for messages."""
        return f"Kafka at {self.bootstrap_servers}"

    def group(self, *parts: object) -> str:
        """Return the name of a group or transactional id, such as `{prefix}lahar-lifecycle-0`.

        It must depend on nothing else: a shard opened under another name would not fence its earlier holder.
        """
        return self.topic_prefix + "-".join(["lahar", *map(str, parts)])

    def client_arguments(self) -> dict[str, Any]:
        """Return the connection arguments of aiokafka's clients, consumers and producers; call it within an event loop.

        Raises:
            ValueError: a certificate or key cannot be read, or the token provider cannot be imported.
        """
        # One unresponsive broker must not use up the time for the others.
        request_seconds = self.request_seconds / _TRIES
        arguments: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap_servers,
            "client_id": self.client_id,
            "security_protocol": self.security_protocol,
            "request_timeout_ms": int(request_seconds * 1000),
            # Maximum delay until a grown topic or a moved partition is detected.
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
                # Without a password, OpenSSL would prompt for one on the terminal.
                context.load_cert_chain(
                    self.ssl_certfile, self.ssl_keyfile, "" if password is None else password.get_secret_value()
                )
        return context


class _Concealed(str):
    """Text with a masked `repr`, so that dumps of arguments and error trackers do not show it."""

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
    """Convert errors of files to ValueError with the names of their settings."""
    try:
        yield
    except OSError as error:
        named = ", ".join(f"{name}={path}" for name, path in files.items() if path is not None)
        raise ValueError(f"{named}: {error.strerror or error}") from None
