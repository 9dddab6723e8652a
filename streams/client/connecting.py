"""Connection to a cluster, with errors that name the cause, which aiokafka only logs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.conn import collect_hosts, create_conn
from aiokafka.errors import KafkaConnectionError, KafkaTimeoutError, RequestTimedOutError, SaslAuthenticationFailed
from aiokafka.protocol.metadata import MetadataRequest

from streams.client.tokens import TokenProvider
from streams.settings import KafkaSettings

_PAUSE_SECONDS: Final = 0.1
_TOKENS: Final = "sasl_oauth_token_provider"
_TOKEN_TRIES: Final = 5
"""Number of unanswered token logins after which the login counts as rejected."""
_SOON: Final = 0.5
"""Share of the request timeout within which a failed connection counts as immediate: refused, or no broker listening."""


@asynccontextmanager
async def administrator(settings: KafkaSettings) -> AsyncIterator[Any]:
    """Give aiokafka's admin client for the length of an `async with` block.

    Raises:
        KafkaError: no broker can be reached, or none accepts the login.
        OSError: as above, as an error of the network.
        ValueError: see `KafkaSettings.client_arguments`.
    """
    arguments = settings.client_arguments()
    admin = AIOKafkaAdminClient(**arguments)
    try:
        # Its `start` tries once, and does not report the cause of a failure.
        await connect(client_of(admin), arguments, settings.request_seconds)
        admin._started = True  # noqa: SLF001
        yield admin
    finally:
        await admin.close()


def client_of(admin: Any) -> Any:  # noqa: ANN401  aiokafka has no types
    """Return the client of an aiokafka admin client."""
    return admin._client  # noqa: SLF001  it has no public access


async def connect(client: Any, arguments: Mapping[str, Any], seconds: float) -> None:  # noqa: ANN401  aiokafka has no types
    """Connect a client of aiokafka.

    Args:
        client: client that is not connected.
        arguments: its constructor arguments.
        seconds: time limit for brokers that do not answer. If all reject the connection or none listens, there is no retry.

    Raises:
        KafkaError: no broker can be reached, or none accepts the login.
        OSError: as above, as an error of the network.
    """
    deadline = time.monotonic() + seconds
    tokens: TokenProvider | None = arguments.get(_TOKENS)
    silence = KafkaTimeoutError(f"no answer within {seconds:g} s")
    failed: Exception = silence
    nobody = 0
    while time.monotonic() < deadline:
        begun = time.monotonic()
        limit = asyncio.timeout(deadline - begun)
        try:
            async with limit:
                server = await _server_that_names_brokers(arguments)
            if server is not None:
                # It tries each server once, unresponsive ones too, and only logs the causes of failures.
                client._bootstrap_servers = server  # noqa: SLF001
                await client.bootstrap()
                if client.cluster.brokers():
                    return
                await client.close()
        except Exception as error:  # noqa: BLE001  any error is the reason
            if tokens is not None and tokens.failure is not None:
                raise tokens.failure from None
            if limit.expired():
                # An earlier error is more specific than the timeout.
                break
            # Without the frames of the login, which contain its secrets.
            reason = error.with_traceback(None)
            if time.monotonic() - begun < arguments["request_timeout_ms"] / 1000 * _SOON:
                raise reason from None
            failed = silence if isinstance(error, TimeoutError | RequestTimedOutError) else reason
        else:
            nobody += 1
            if tokens is not None and nobody == _TOKEN_TRIES:
                # aiokafka takes a rejection of a token for success, and then misreads all that follows.
                raise SaslAuthenticationFailed("no broker names itself after the login: is the token refused?")
            # A broker that was frozen is fenced, and readmitted at its next heartbeat.
            failed = KafkaConnectionError("a broker answers, but none takes part in the cluster at this moment")
        await asyncio.sleep(_PAUSE_SECONDS)
    raise failed


async def _server_that_names_brokers(arguments: Mapping[str, Any]) -> str | None:
    """Return the first server whose metadata has brokers of the cluster; `None` if no answer has any.

    If no server answers, raises the error of the last one.
    """
    wanted = {name: value for name, value in arguments.items() if name in _OF_CONNECTIONS}
    answered = False
    failed: Exception = KafkaConnectionError("no server is given")
    for host, port, _ in collect_hosts(arguments["bootstrap_servers"]):
        try:
            connection = await create_conn(host, port, **wanted)
            try:
                answer = await connection.send(MetadataRequest([]))
            finally:
                await connection.close()
        except Exception as error:  # noqa: BLE001  the next one may answer
            failed = error
            continue
        answered = True
        if answer.brokers:
            return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if not answered:
        raise failed
    return None


_OF_CONNECTIONS: Final = frozenset(
    {
        "client_id",
        "request_timeout_ms",
        "ssl_context",
        "security_protocol",
        "sasl_mechanism",
        "sasl_plain_username",
        "sasl_plain_password",
        _TOKENS,
    }
)
