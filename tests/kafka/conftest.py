"""The broker that the tests share, and topics of its own for each test."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from itertools import count

import pytest
from broker import Cluster, need_broker
from topics_of_tests import delete_topics

from streams.log import KafkaLog
from streams.settings import KafkaSettings
from streams.topics import apply, declared

_numbers = count(1)


@pytest.fixture(scope="session")
def jars() -> None:
    """The jars of a broker, for tests that start their own."""
    need_broker()


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    """Where the broker of this session is: one from the jars, or the one that `KAFKA_BOOTSTRAP_SERVERS` names."""
    if elsewhere := os.environ.get("KAFKA_BOOTSTRAP_SERVERS"):
        yield elsewhere
        return
    need_broker()
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


@pytest.fixture
def elsewhere(settings: KafkaSettings) -> Iterator[KafkaSettings]:
    """Settings of another log in the same cluster, to which the first one is moved."""
    found = settings.model_copy(update={"topic_prefix": f"{settings.topic_prefix}new-"})
    yield found
    asyncio.run(delete_topics(found))


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
