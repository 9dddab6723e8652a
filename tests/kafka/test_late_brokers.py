"""Brokers that hear late, or say nothing for a while: whoever asks one of them is neither refused nor sent away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import pytest
from aiokafka.cluster import ClusterMetadata
from aiokafka.conn import AIOKafkaConnection
from aiokafka.protocol.metadata import MetadataRequest
from broker import Broker, Cluster, until
from running_agents import Running, Told, history
from topics_of_tests import administered
from workload import lives

from engine.log.errors import LogUnavailableError
from engine.log.port import Partition
from streams import topics
from streams.log import KafkaLog
from streams.settings import KafkaSettings

UNKNOWN_TOPIC = 3

Ask = Callable[[], Awaitable[Any]]


@pytest.fixture(scope="module")
def cluster(jars: None) -> Iterator[Cluster]:
    with Cluster(3) as found:
        yield found


def answer_for(monkeypatch: pytest.MonkeyPatch, reply: Callable[[Ask], Awaitable[object]], broker: Broker | None = None) -> None:
    """Let `reply` answer questions for metadata to one broker, or to all; it is given what asks the broker itself."""
    genuine = AIOKafkaConnection.send

    def send(connection: AIOKafkaConnection, request: object, *more: object, **named: object) -> object:
        ask = partial(genuine, connection, request, *more, **named)
        if isinstance(request, MetadataRequest) and (broker is None or connection._port == broker.port):
            return reply(ask)
        return ask()

    monkeypatch.setattr(AIOKafkaConnection, "send", send)


class Late:
    """Makes brokers answer as if they had not heard of some topics yet; all else they say and do is genuine."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        prefix: str,
        answers: int,
        broker: Broker | None = None,
        then: Callable[[], None] = lambda: None,
    ) -> None:
        """Begin to do so.

        Args:
            monkeypatch: ends it with the test.
            prefix: the topics begin with it.
            answers: so many of those that should name them do not.
            broker: the one that hears late; `None`: whoever is asked first.
            then: is called when it does know of them, the first time.
        """
        self.left = answers
        self._knew = False

        async def told_late(ask: Ask) -> object:
            answer = await ask()
            if any(code == 0 and name.startswith(prefix) for code, name, *_ in answer.topics):
                if not self._knew:
                    self._knew = True
                    then()
                if self.left:
                    self.left -= 1
                    # Error code, name, internal, partitions.
                    answer.topics = [(UNKNOWN_TOPIC, name, internal, []) for _, name, internal, _ in answer.topics]
            return answer

        answer_for(monkeypatch, told_late, broker)


def settings_of(cluster: Cluster, prefix: str) -> KafkaSettings:
    return KafkaSettings(bootstrap_servers=cluster.bootstrap, topic_prefix=prefix, request_seconds=20)


def settings_at(broker: Broker, settings: KafkaSettings) -> KafkaSettings:
    """Return settings that know of this broker alone."""
    return settings.model_copy(update={"bootstrap_servers": f"127.0.0.1:{broker.port}"})


def until_whole(cluster: Cluster) -> None:
    """Return when every broker names all of them."""

    async def named(admin: Any) -> int:
        return len((await admin.describe_cluster())["brokers"])

    for broker in cluster.brokers:
        settings = settings_at(broker, settings_of(cluster, ""))
        until(lambda here=settings: asyncio.run(administered(here, named)) == len(cluster.brokers), 60, "all brokers are named")


def test_topics_are_made_only_when_every_broker_has_heard_of_them(
    cluster: Cluster, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(cluster, prefix)
    late = Late(monkeypatch, prefix, 12, cluster.broker(1))
    asyncio.run(topics.apply(settings, topics.declared(settings, 2, 3)))
    assert late.left == 0
    log = KafkaLog(settings_at(cluster.broker(1), settings))
    assert log.width == 2
    log.close()


def test_a_broker_that_does_not_hear_of_them_is_named(cluster: Cluster, prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(cluster, prefix)
    Late(monkeypatch, prefix, 1_000_000, cluster.broker(2))
    monkeypatch.setattr(topics, "_SEEN_SECONDS", 5)
    with pytest.raises(LogUnavailableError, match=r"are created, but not known to every broker: StaleMetadata: not at broker 2$"):
        asyncio.run(topics.apply(settings, topics.declared(settings, 2, 3)))


@pytest.mark.slow
def test_a_broker_that_dies_meanwhile_is_not_waited_for(cluster: Cluster, prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(cluster, prefix)
    wanted = topics.declared(settings, 2, 3)
    Late(monkeypatch, prefix, 1_000_000, cluster.broker(2), cluster.broker(2).kill)
    try:
        assert len(asyncio.run(topics.apply(settings, wanted))) == len(wanted)
    finally:
        cluster.broker(2).start()
        until_whole(cluster)


@pytest.mark.parametrize("readonly", [False, True])
def test_a_log_opens_though_the_first_broker_asked_lacks_its_topics(
    cluster: Cluster, prefix: str, readonly: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(cluster, prefix)
    asyncio.run(topics.apply(settings, topics.declared(settings, 2, 3)))
    late = Late(monkeypatch, prefix, 1)
    log = KafkaLog(settings, readonly=readonly)
    assert (log.width, late.left) == (2, 0)
    if not readonly:
        log.append("pods", list(lives(range(4), 2, 1_700_000_000_000_000)))
        assert sum(log.end(Partition("pods", number)) for number in range(2)) > 0
    log.close()


def test_agents_run_though_the_first_broker_asked_lacks_their_topics(
    cluster: Cluster, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(cluster, prefix)
    asyncio.run(topics.apply(settings, topics.declared(settings, 2, 3)))
    told = Told()
    with closing(KafkaLog(settings)) as log:
        log.append("job-events", history("a"))
        late = Late(monkeypatch, prefix, 1)
        with Running(settings, told.agent()):
            told.wait(("a", 1))
        assert late.left == 0


def test_brokers_of_which_none_takes_part_at_first_are_asked_again(
    cluster: Cluster, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that stood still is thrown out of the cluster until it is heard again, and names nobody until then."""
    settings = settings_of(cluster, prefix)
    left = [3]

    async def alone(ask: Ask) -> object:
        answer = await ask()
        if left[0]:
            left[0] -= 1
            answer.brokers = []
        return answer

    answer_for(monkeypatch, alone)
    assert len(asyncio.run(topics.plan(settings, topics.declared(settings, 2, 3)))) == len(topics.TOPICS)
    assert left == [0]
    left[0] = 1_000_000
    with pytest.raises(LogUnavailableError, match="a broker answers, but none takes part in the cluster at this moment"):
        KafkaLog(settings.model_copy(update={"request_seconds": 3}))


def test_an_answer_counts_though_the_broker_is_silent_at_the_deadline(
    cluster: Cluster, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0

    async def alone_then_silent(ask: Ask) -> object:
        nonlocal asked
        asked += 1
        if asked > 1:
            await asyncio.Event().wait()
        answer = await ask()
        answer.brokers = []
        return answer

    answer_for(monkeypatch, alone_then_silent)
    here = settings_at(cluster.broker(1), settings_of(cluster, prefix)).model_copy(update={"request_seconds": 3})
    with pytest.raises(LogUnavailableError, match="a broker answers, but none takes part in the cluster at this moment"):
        KafkaLog(here)
    assert asked == 2


def test_a_broker_silent_at_first_is_asked_again_while_there_is_time(
    cluster: Cluster, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_at(cluster.broker(3), settings_of(cluster, prefix)).model_copy(update={"request_seconds": 9})
    asyncio.run(topics.apply(settings, topics.declared(settings, 2, 3)))
    genuine, silent = AIOKafkaConnection.connect, [0]

    async def connect(connection: AIOKafkaConnection) -> None:
        try:
            await genuine(connection)
        except TimeoutError:
            silent[0] += 1
            if silent == [2]:
                cluster.broker(3).thaw()
            raise

    monkeypatch.setattr(AIOKafkaConnection, "connect", connect)
    cluster.broker(3).freeze()
    try:
        with closing(KafkaLog(settings)) as log:
            assert log.width == 2
            assert silent == [2]
    finally:
        cluster.broker(3).thaw()
        until_whole(cluster)


def test_an_unreachable_broker_does_not_use_up_the_time_of_the_others(
    cluster: Cluster, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """aiokafka makes one connection at a time."""
    settings = settings_of(cluster, prefix)
    asyncio.run(topics.apply(settings, topics.declared(settings, 2, 3)))
    late = Late(monkeypatch, prefix, 1_000_000, cluster.broker(1))
    genuine = AIOKafkaConnection.connect

    async def connect(connection: AIOKafkaConnection) -> None:
        if connection._port == cluster.broker(2).port:
            async with asyncio.timeout(connection._request_timeout):
                await asyncio.Event().wait()
        await genuine(connection)

    monkeypatch.setattr(AIOKafkaConnection, "connect", connect)
    # The first that is asked is the one that hears late; the second one is in the way of the third.
    brokers = ClusterMetadata.brokers
    monkeypatch.setattr(ClusterMetadata, "brokers", lambda metadata: sorted(brokers(metadata)))
    monkeypatch.setattr("aiokafka.client.random.shuffle", lambda nodes: nodes.sort())
    with closing(KafkaLog(settings_at(cluster.broker(1), settings))) as log:
        assert log.width == 2
    assert late.left < 1_000_000
