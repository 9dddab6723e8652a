"""What tests do to topics and groups behind the log's back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.protocol.admin import DeleteGroupsRequest
from aiokafka.structs import TopicPartition
from broker import until

from streams.settings import KafkaSettings
from streams.topics import apply, declared, plan

__all__ = ["administered", "delete_group", "delete_records", "delete_topics", "make_anew"]


async def administered(settings: KafkaSettings, work: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
    """Return what becomes of some work with aiokafka's administrator."""
    admin = AIOKafkaAdminClient(**settings.client_arguments())
    await admin.start()
    try:
        return await work(admin)
    finally:
        await admin.close()


async def delete_topics(settings: KafkaSettings) -> None:
    """Delete all topics of a log, so that the broker stays small."""
    names = [topic.name for topic in declared(settings, 1, 1)]
    await administered(settings, lambda admin: admin.delete_topics(names))


async def delete_group(settings: KafkaSettings, group: str) -> None:
    """Delete a group and its offsets, as brokers do a week after its last commit."""

    async def delete(admin: Any) -> None:
        answer = await admin._send_request(DeleteGroupsRequest([group]), await admin.find_coordinator(group))
        assert answer.results == [(group, 0)]

    await administered(settings, delete)


def delete_records(settings: KafkaSettings, partition: TopicPartition, before: int) -> None:
    """Delete what stands before an offset, as retention does."""
    records = {partition: RecordsToDelete(before)}
    asyncio.run(administered(settings, lambda admin: admin.delete_records(records)))


def make_anew(settings: KafkaSettings, topic: str) -> None:
    """Delete a topic and make it again."""
    wanted = declared(settings, 1, 1)
    asyncio.run(administered(settings, lambda admin: admin.delete_topics([settings.topic_prefix + topic])))
    until(lambda: bool(asyncio.run(plan(settings, wanted))), 10, "the topic is gone")
    asyncio.run(apply(settings, wanted))
