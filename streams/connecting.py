"""Connecting to a cluster, and saying why that fails: aiokafka tells it only to its log."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.conn import collect_hosts, create_conn
from aiokafka.errors import KafkaConnectionError, SaslAuthenticationFailed

from streams.settings import KafkaSettings
from streams.tokens import TokenProvider

__all__ = ["administrator", "connect"]

_PAUSE_SECONDS: Final = 0.1
_SOON: Final = 0.5
"""Share of the time for a request within which connecting has failed at once, so that it may be asked why."""


@asynccontextmanager
async def administrator(settings: KafkaSettings) -> AsyncIterator[Any]:
    """Give aiokafka's client for topics and their settings for the length of an `async with` block.

    Raises:
        KafkaError: no broker can be reached, or none takes the login.
        OSError: as above, by the network's own words.
        ValueError: see `KafkaSettings.client_arguments`.
    """
    arguments = settings.client_arguments()
    admin = AIOKafkaAdminClient(**arguments)
    try:
        await connect(admin._client, arguments, settings.request_seconds)  # noqa: SLF001  its `start` does the same and does not say why it failed
        admin._started = True  # noqa: SLF001
        yield admin
    finally:
        await admin.close()


async def connect(client: Any, arguments: Mapping[str, Any], seconds: float) -> None:  # noqa: ANN401  aiokafka has no types
    """Connect a client of aiokafka's.

    Args:
        client: that is not connected.
        arguments: it was made with.
        seconds: how long brokers that do not answer are tried. One that says no, or that is not there, is not asked again.

    Raises:
        KafkaError: no broker can be reached, or none takes the login.
        OSError: as above, by the network's own words.
    """
    deadline = time.monotonic() + seconds
    tokens: TokenProvider | None = arguments.get("sasl_oauth_token_provider")
    while True:
        begun = time.monotonic()
        try:
            await client.bootstrap()
            break
        except KafkaConnectionError:
            if tokens is not None and tokens.failure is not None:
                raise tokens.failure from None
            if time.monotonic() - begun < arguments["request_timeout_ms"] / 1000 * _SOON:
                await _ask_why(arguments)
            if time.monotonic() > deadline:
                raise
        await asyncio.sleep(_PAUSE_SECONDS)
    while not client.cluster.brokers():
        if tokens is not None:
            # aiokafka takes the answer that refuses a token for one that accepts it, and understands nothing from then on.
            raise SaslAuthenticationFailed("no broker names itself after the login: is the token refused?")
        if time.monotonic() > deadline:
            raise KafkaConnectionError("a broker answers, but none takes part in the cluster at this moment")
        # One that stood still was thrown out, and is let in again as soon as it is heard.
        await asyncio.sleep(_PAUSE_SECONDS)
        await client.force_metadata_update()


async def _ask_why(arguments: Mapping[str, Any]) -> None:
    """Connect once more to each broker; raises what the last one fails by."""
    wanted = {name: value for name, value in arguments.items() if name in _OF_CONNECTIONS}
    failed: Exception | None = None
    for host, port, _ in collect_hosts(arguments["bootstrap_servers"]):
        try:
            await (await create_conn(host, port, **wanted)).close()
        except Exception as error:  # noqa: BLE001  whatever it is, it is the reason
            failed = error
    if failed is not None:
        # Without the frames of the login: they hold what was sent.
        raise failed.with_traceback(None)


_OF_CONNECTIONS: Final = frozenset(
    {
        "client_id",
        "request_timeout_ms",
        "ssl_context",
        "security_protocol",
        "sasl_mechanism",
        "sasl_plain_username",
        "sasl_plain_password",
        "sasl_oauth_token_provider",
    }
)
