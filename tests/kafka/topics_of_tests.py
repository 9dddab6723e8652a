"""What tests do to topics and groups behind the log's back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from aiokafka.admin import NewPartitions, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.protocol.admin import DeleteGroupsRequest
from aiokafka.structs import TopicPartition
from broker import until

from streams.client.connecting import administrator, client_of
from streams.client.metadata import fetch_from_each
from streams.settings import KafkaSettings
from streams.topics import apply, declared, plan

PATIENCE = 30


async def administered(settings: KafkaSettings, work: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
    """Return what becomes of some work with aiokafka's administrator."""
    async with administrator(settings) as admin:
        return await work(admin)


def add_partitions(settings: KafkaSettings, topics: Sequence[str], count: int) -> None:
    """Give topics more partitions, as an administrator does; every broker knows of them when this returns."""
    wanted = {settings.topic_prefix + topic: count for topic in topics}

    async def add(admin: Any) -> None:
        await admin.create_partitions({name: NewPartitions(count) for name in wanted})

    async def known(admin: Any) -> bool:
        told = await fetch_from_each(client_of(admin), list(wanted), PATIENCE)
        return all(not isinstance(answer, Exception) and answer.partitions == wanted for answer in told.values())

    asyncio.run(administered(settings, add))
    until(lambda: bool(asyncio.run(administered(settings, known))), PATIENCE, "the brokers know the partitions")


def alter(settings: KafkaSettings, topic: str, config: dict[str, str]) -> None:
    """Set the settings of a topic, all others to the brokers' defaults; the one broker knows of them when this returns."""
    name = settings.topic_prefix + topic

    async def known(admin: Any) -> bool:
        (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])
        found = {entry[0]: entry[1] for *_, entries in answer.resources for entry in entries}
        return config.items() <= found.items()

    asyncio.run(administered(settings, lambda admin: admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, config)])))
    until(lambda: bool(asyncio.run(administered(settings, known))), PATIENCE, "the broker knows the settings")


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
