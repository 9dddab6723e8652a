"""Of several brokers, one hears later than the others that topics were made; whoever asks that one is not refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest
from aiokafka.conn import AIOKafkaConnection
from aiokafka.protocol.metadata import MetadataRequest
from broker import Broker, Cluster

from engine.log.errors import LogUnavailableError
from engine.log.port import Partition
from engine.simulation.workload import lives
from streams import topics
from streams.log import KafkaLog
from streams.settings import KafkaSettings

UNKNOWN_TOPIC = 3


@pytest.fixture(scope="module")
def cluster(jars: None) -> Iterator[Cluster]:
    with Cluster(3) as found:
        yield found


class Late:
    """Makes a broker answer as if it had not heard of any topic yet; all else it says and does is genuine."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, broker: Broker, answers: int, then: tuple[str, Callable[[], None]] | None = None
    ) -> None:
        """Begin to do so.

        Args:
            monkeypatch: ends it with the test.
            broker: the one that hears late.
            answers: so many of its answers know nothing.
            then: what is called, once, when it does know of topics that begin so.
        """
        self.left = answers
        genuine = AIOKafkaConnection.send

        async def told_late(connection: AIOKafkaConnection, request: MetadataRequest) -> object:
            answer = await genuine(connection, request)
            nonlocal then
            if then is not None and any(code == 0 and name.startswith(then[0]) for code, name, *_ in answer.topics):
                then[1]()
                then = None
            if self.left:
                self.left -= 1
                # Error code, name, the rest.
                answer.topics = [(UNKNOWN_TOPIC, name, *more) for _, name, *more in answer.topics]
            return answer

        def send(connection: AIOKafkaConnection, request: object, *more: object, **named: object) -> object:
            if isinstance(request, MetadataRequest) and connection._port == broker.port:
                return told_late(connection, request)
            return genuine(connection, request, *more, **named)

        monkeypatch.setattr(AIOKafkaConnection, "send", send)


def settings_of(cluster: Cluster, prefix: str) -> KafkaSettings:
    return KafkaSettings(bootstrap_servers=cluster.bootstrap, topic_prefix=prefix, request_seconds=20)


def test_topics_are_made_only_when_every_broker_has_heard_of_them(
    cluster: Cluster, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(cluster, prefix)
    late = Late(monkeypatch, cluster.broker(1), answers=12)
    asyncio.run(topics.apply(settings, topics.declared(settings, 2, 3)))
    assert late.left == 0
    log = KafkaLog(settings.model_copy(update={"bootstrap_servers": f"127.0.0.1:{cluster.broker(1).port}"}))
    assert log.width == 2
    log.close()


def test_a_broker_that_does_not_hear_of_them_is_named(cluster: Cluster, prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(cluster, prefix)
    Late(monkeypatch, cluster.broker(2), answers=1_000_000)
    monkeypatch.setattr(topics, "_SEEN_SECONDS", 5)
    with pytest.raises(LogUnavailableError, match=r"the change does not show within 5 s at broker (\d, )*2"):
        asyncio.run(topics.apply(settings, topics.declared(settings, 2, 3)))


def test_a_broker_that_dies_meanwhile_is_not_waited_for(cluster: Cluster, prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(cluster, prefix)
    wanted = topics.declared(settings, 2, 3)
    Late(monkeypatch, cluster.broker(2), answers=1_000_000, then=(prefix, cluster.broker(2).kill))
    try:
        assert len(asyncio.run(topics.apply(settings, wanted))) == len(wanted)
    finally:
        cluster.broker(2).start()


@pytest.mark.parametrize("readonly", [False, True])
def test_a_log_is_opened_though_the_first_broker_asked_has_not_heard_of_its_topics(
    cluster: Cluster, prefix: str, readonly: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(cluster, prefix)
    asyncio.run(topics.apply(settings, topics.declared(settings, 2, 3)))
    first = settings.model_copy(update={"bootstrap_servers": f"127.0.0.1:{cluster.broker(1).port}"})
    late = Late(monkeypatch, cluster.broker(1), answers=2)
    log = KafkaLog(first, readonly=readonly)
    assert log.width == 2
    assert late.left < 2
    if not readonly:
        log.append("pods", list(lives(range(4), 2, 1_700_000_000_000_000)))
        assert sum(log.end(Partition("pods", number)) for number in range(2)) > 0
    log.close()
