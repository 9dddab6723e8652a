"""Retries of requests while brokers are away or partitions change their leader."""

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

__all__ = ["retried"]

T = TypeVar("T")

_PAUSE_SECONDS: Final = 0.1
_PASSING: Final = (KafkaConnectionError, NodeNotReadyError, RequestTimedOutError, StaleMetadata)


async def retried(ask: Callable[[], Awaitable[T]], seconds: float, client: Any) -> T:  # noqa: ANN401  aiokafka has no types
    """Ask, and ask again after what passes, until time is over.

    Args:
        ask: is to raise `StaleMetadata` where an answer is out of date.
        seconds: how long.
        client: aiokafka's, whose knowledge of the cluster is to be renewed in between.

    Raises:
        KafkaError: it does not pass, or was the last one when time was over.
        KafkaTimeoutError: there was no answer at all.
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
                # An earlier error tells more than a timeout.
                raise last from None
            last = RequestTimedOutError()
        except KafkaError as error:
            if not (error.retriable or isinstance(error, _PASSING)) or time.monotonic() > deadline:
                raise
            last = error.with_traceback(None)
        client.force_metadata_update()
        await asyncio.sleep(_PAUSE_SECONDS)
