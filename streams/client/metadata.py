"""Per-broker topic metadata; brokers learn of changes at different times."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from aiokafka.errors import KafkaConnectionError, KafkaError, NodeNotReadyError, TopicAuthorizationFailedError, for_code
from aiokafka.protocol.metadata import MetadataRequest

__all__ = ["MetadataCache", "heard", "known"]

_ANSWER_SECONDS: Final = 5.0


class MetadataCache(NamedTuple):
    """One broker's metadata of topics."""

    partitions: dict[str, int]
    """Topic → partition count, for topics that it knows."""
    refused: frozenset[str]
    """Those that it does not let us describe, whether they are there or not."""


async def heard(client: Any, topics: Sequence[str], seconds: float) -> dict[int, MetadataCache | Exception]:  # noqa: ANN401  aiokafka has no types
    """Fetch topic metadata from every broker of the cluster.

    Args:
        client: aiokafka's, connected.
        topics: their names.
        seconds: how long one broker is waited for, to be connected and then to answer; 5 s at most, for there may be others.

    Returns:
        each broker's metadata or error, by broker id.
    """
    seconds = min(seconds, _ANSWER_SECONDS)
    request = MetadataRequest(list(topics), allow_auto_topic_creation=False)

    async def ask(broker: int) -> MetadataCache | Exception:
        try:
            async with asyncio.timeout(seconds):
                answer = await client.send(broker, request)
        except Exception as error:  # noqa: BLE001  any error: this broker gives no metadata
            return error
        partitions = {topic: len(found) for code, topic, _, found in answer.topics if not code}
        refused = (topic for code, topic, *_ in answer.topics if for_code(code) is TopicAuthorizationFailedError)
        return MetadataCache(partitions, frozenset(refused))

    told: dict[int, MetadataCache | Exception] = {}
    connected: list[int] = []
    for broker in [broker.nodeId for broker in client.cluster.brokers()]:
        # One after the other: aiokafka makes one connection at a time, and a broker that does not let itself be connected would
        # use up the time of the others.
        try:
            async with asyncio.timeout(seconds):
                if not await client.ready(broker):
                    raise NodeNotReadyError(f"broker {broker} cannot be connected")
        except (KafkaError, OSError, TimeoutError) as error:
            told[broker] = error
        else:
            connected.append(broker)
    return told | dict(zip(connected, await asyncio.gather(*map(ask, connected)), strict=True))


async def known(client: Any, topics: Sequence[str], seconds: float) -> MetadataCache:  # noqa: ANN401  aiokafka has no types
    """Ask every broker as `heard` does and merge their metadata; the highest partition count wins.

    Raises:
        KafkaConnectionError: none has answered.
    """
    told = await heard(client, topics, seconds)
    failed = [answer for answer in told.values() if isinstance(answer, Exception)]
    if len(failed) == len(told):
        reason = f": {type(failed[0]).__name__}" if failed else ""
        raise KafkaConnectionError(f"no broker returned metadata{reason}") from next(iter(failed), None)
    partitions: dict[str, int] = {}
    refused: set[str] = set()
    for answer in told.values():
        if not isinstance(answer, Exception):
            refused |= answer.refused
            for topic, count in answer.partitions.items():
                partitions[topic] = max(count, partitions.get(topic, 0))
    return MetadataCache(partitions, frozenset(refused))
