"""Per-broker topic metadata; brokers learn of changes at different times."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from aiokafka.errors import KafkaConnectionError, KafkaError, NodeNotReadyError, TopicAuthorizationFailedError, for_code
from aiokafka.protocol.metadata import MetadataRequest

_ANSWER_SECONDS: Final = 5.0


class MetadataCache(NamedTuple):
    """One broker's metadata of topics."""

    partitions: dict[str, int]
    """Partition count by topic, for topics in its metadata."""
    refused: frozenset[str]
    """Topics that it does not let this user describe, whether or not they exist."""


async def fetch_from_each(client: Any, topics: Sequence[str], seconds: float) -> dict[int, MetadataCache | Exception]:  # noqa: ANN401  aiokafka has no types
    """Fetch topic metadata from every broker of the cluster.

    Args:
        client: connected client of aiokafka.
        topics: names of the topics.
        seconds: time limit per broker, for the connection and for the response; capped at 5 s, so that one broker does not delay
            all.

    Returns:
        Each broker's metadata or error, by broker id.
    """
    seconds = min(seconds, _ANSWER_SECONDS)
    request = MetadataRequest(list(topics), allow_auto_topic_creation=False)

    async def ask(broker: int) -> MetadataCache | Exception:
        try:
            async with asyncio.timeout(seconds):
                answer = await client.send(broker, request)
        except Exception as error:  # noqa: BLE001  any error: this broker has no metadata
            return error
        partitions = {topic: len(found) for code, topic, _, found in answer.topics if not code}
        refused = (topic for code, topic, *_ in answer.topics if for_code(code) is TopicAuthorizationFailedError)
        return MetadataCache(partitions, frozenset(refused))

    answers: dict[int, MetadataCache | Exception] = {}
    connected: list[int] = []
    for broker in [broker.nodeId for broker in client.cluster.brokers()]:
        # One after another: aiokafka opens one connection at a time, and an unreachable broker would use up the time of the others.
        try:
            async with asyncio.timeout(seconds):
                if not await client.ready(broker):
                    raise NodeNotReadyError(f"broker {broker} cannot be connected")
        except (KafkaError, OSError, TimeoutError) as error:
            answers[broker] = error
        else:
            connected.append(broker)
    return answers | dict(zip(connected, await asyncio.gather(*map(ask, connected)), strict=True))


async def fetch_merged(client: Any, topics: Sequence[str], seconds: float) -> MetadataCache:  # noqa: ANN401  aiokafka has no types
    """Fetch topic metadata from every broker and merge it; the highest partition count wins.

    Raises:
        KafkaConnectionError: no broker answered.
    """
    answers = await fetch_from_each(client, topics, seconds)
    failed = [answer for answer in answers.values() if isinstance(answer, Exception)]
    if len(failed) == len(answers):
        reason = f": {type(failed[0]).__name__}" if failed else ""
        raise KafkaConnectionError(f"no broker returned metadata{reason}") from next(iter(failed), None)
    partitions: dict[str, int] = {}
    refused: set[str] = set()
    for answer in answers.values():
        if not isinstance(answer, Exception):
            refused |= answer.refused
            for topic, count in answer.partitions.items():
                partitions[topic] = max(count, partitions.get(topic, 0))
    return MetadataCache(partitions, frozenset(refused))
