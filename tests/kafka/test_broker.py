"""The broker of the tests answers, and can be killed and started again without loss."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from broker import Cluster


async def _write_and_read(bootstrap: str, value: bytes) -> list[bytes]:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all") as producer:
        await producer.send_and_wait("kept", value, partition=0)
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    consumer.assign([partition := TopicPartition("kept", 0)])
    await consumer.start()
    end = (await consumer.end_offsets([partition]))[partition]
    found = [(await consumer.getone()).value for _ in range(end)]
    await consumer.stop()
    return found


async def _make_topic(bootstrap: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic("kept", 1, 1)])
    await admin.close()


@pytest.mark.slow
@pytest.mark.usefixtures("jars")
def test_what_is_written_outlives_kill_and_restart() -> None:
    with Cluster() as cluster:
        asyncio.run(_make_topic(cluster.bootstrap))
        assert asyncio.run(_write_and_read(cluster.bootstrap, b"first")) == [b"first"]
        cluster.brokers[0].kill()
        cluster.brokers[0].start()
        assert asyncio.run(_write_and_read(cluster.bootstrap, b"second")) == [b"first", b"second"]
