"""Retries of requests while brokers are unavailable or partition leaders change."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    NodeNotReadyError,
    RequestTimedOutError,
    StaleMetadata,
)

T = TypeVar("T")

_PAUSE_SECONDS: Final = 0.1
_PASSING: Final = (KafkaConnectionError, NodeNotReadyError, RequestTimedOutError, StaleMetadata)


async def retried(ask: Callable[[], Awaitable[T]], seconds: float, client: Any) -> T:  # noqa: ANN401  aiokafka has no types
    """Call until it succeeds; retry transient errors until the time limit.

    Args:
        ask: request to repeat; raises `StaleMetadata` if an answer is outdated.
        seconds: time limit.
        client: client of aiokafka whose metadata is refreshed between attempts.

    Raises:
        KafkaError: a permanent error, or the last transient one at the time limit.
        KafkaTimeoutError: no answer within the time limit.
    """
    deadline = time.monotonic() + seconds
    last: KafkaError = KafkaTimeoutError(f"no answer within {seconds:g} s")
    while True:
        limit = asyncio.timeout(max(deadline - time.monotonic(), 0))
        try:
            async with limit:
                return await ask()
        except TimeoutError:
            if limit.expired():
                # An earlier error is more specific than a timeout.
                raise last from None
            last = RequestTimedOutError()
        except KafkaError as error:
            if not (error.retriable or isinstance(error, _PASSING)) or time.monotonic() > deadline:
                raise
            last = error.with_traceback(None)
        client.force_metadata_update()
        await asyncio.sleep(_PAUSE_SECONDS)
