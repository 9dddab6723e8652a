"""What each broker has heard of topics: one hears of a change later than another."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from aiokafka.protocol.metadata import MetadataRequest

__all__ = ["heard"]


async def heard(client: Any, topics: Sequence[str], seconds: float) -> dict[int, dict[str, int] | Exception]:  # noqa: ANN401  aiokafka has no types
    """Ask every broker that the cluster names for the numbers of partitions of topics.

    Args:
        client: aiokafka's, connected.
        topics: their names.
        seconds: how long one broker of several is waited for.

    Returns:
        broker → topic → number of partitions, without topics that it has not heard of or does not let us describe; or
        broker → what kept it from answering.
    """
    request = MetadataRequest(list(topics), allow_auto_topic_creation=False)

    async def ask(broker: int) -> dict[str, int] | Exception:
        try:
            async with asyncio.timeout(seconds):
                answer = await client.send(broker, request)
        except Exception as error:  # noqa: BLE001  whatever it is, this broker does not say
            return error
        return {topic: len(partitions) for code, topic, _, partitions in answer.topics if not code}

    brokers = [broker.nodeId for broker in client.cluster.brokers()]
    return dict(zip(brokers, await asyncio.gather(*map(ask, brokers)), strict=True))
