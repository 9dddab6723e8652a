"""The broker that the tests share, and topics of its own for each test."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from itertools import count

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from broker import Cluster, java_version, obstacle

from streams.log import KafkaLog
from streams.settings import KafkaSettings
from streams.topics import apply, declared

_numbers = count(1)


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    """Where the broker of this session is: one from the jars, or the one that `KAFKA_BOOTSTRAP_SERVERS` names."""
    if elsewhere := os.environ.get("KAFKA_BOOTSTRAP_SERVERS"):
        yield elsewhere
        return
    if reason := obstacle():
        if os.environ.get("CI") == "true" and java_version() >= 17:
            pytest.fail(f"no broker to test against ({reason}), and on this machine there must be one", pytrace=False)
        pytest.skip(reason)
    with Cluster() as cluster:
        yield cluster.bootstrap


@pytest.fixture
def prefix() -> str:
    """Topics of one test begin with it."""
    return f"t{os.getpid()}-{next(_numbers)}-"


@pytest.fixture
def settings(bootstrap: str, prefix: str) -> Iterator[KafkaSettings]:
    """Settings of a log whose topics are yet to be made; they are deleted at the end of the test, so that the broker stays small.

    Transactions end soon: a killed worker's stands in the way so long.
    """
    found = KafkaSettings(bootstrap_servers=bootstrap, topic_prefix=prefix, request_seconds=20, transaction_seconds=10)
    yield found
    asyncio.run(delete_topics(found))


async def delete_topics(settings: KafkaSettings) -> None:
    admin = AIOKafkaAdminClient(**settings.client_arguments())
    await admin.start()
    await admin.delete_topics([topic.name for topic in declared(settings, 1, 1)])
    await admin.close()


@pytest.fixture
def open_log(settings: KafkaSettings) -> Iterator[Callable[[], KafkaLog]]:
    """Opens the log of a test, as often as is wanted; all are closed at its end."""
    opened: list[KafkaLog] = []

    def open_another() -> KafkaLog:
        opened.append(KafkaLog(settings))
        return opened[-1]

    yield open_another
    for log in opened:
        log.close()


@pytest.fixture
def make_log(settings: KafkaSettings, open_log: Callable[[], KafkaLog]) -> Callable[[int], KafkaLog]:
    """Makes the topics of a test, with so many partitions, and opens the log."""

    def make(partitions: int = 1) -> KafkaLog:
        asyncio.run(apply(settings, declared(settings, partitions, 1)))
        return open_log()

    return make
