"""Reading several partitions at once, and waiting for some of them."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from aiokafka.protocol.fetch import FetchRequest
from log_contract import message
from topics_of_tests import make_anew

from engine.events import Message
from engine.log.errors import LogUnavailableError
from engine.log.port import Partition, ReadsTogether
from streams.log import KafkaLog
from streams.settings import KafkaSettings

PLACES = [Partition("cluster", 0), *(Partition("pods", number) for number in range(4))]


def jobs(count: int) -> list[Message]:
    return [message(f"job-{number}") for number in range(count)]


def test_each_partition_gives_what_it_gives_alone(make_log: Callable[[int], KafkaLog], open_log: Callable[[], KafkaLog]) -> None:
    log = make_log(4)
    log.append("pods", jobs(200))
    alone = open_log()
    for limit in (1, 7, 500):
        together = open_log()
        at = dict.fromkeys(PLACES, 0)
        while True:
            found = together.read_each(list(at.items()), limit)
            assert found == [alone.read(partition, start, limit) for partition, start in at.items()]
            if not any(found):
                break
            at |= {records[-1].partition: records[-1].offset + 1 for records in found if records}
        assert sum(at.values()) == 200


def test_it_shows_what_was_appended_before(make_log: Callable[[int], KafkaLog], open_log: Callable[[], KafkaLog]) -> None:
    log, other = make_log(4), open_log()
    assert isinstance(log, ReadsTogether)
    for number in range(20):
        (log if number % 2 else other).append("pods", [message(f"job-{number}")])
        seen = sum(len(records) for records in log.read_each([(partition, 0) for partition in PLACES], 500))
        assert seen == number + 1


def test_an_offset_behind_the_end_gives_nothing(make_log: Callable[[int], KafkaLog]) -> None:
    log = make_log(4)
    log.append("pods", jobs(20))
    ends = [(partition, log.end(partition)) for partition in PLACES]
    assert log.read_each(ends, 10) == [[]] * len(PLACES)
    assert log.read_each([(partition, end + 5) for partition, end in ends], 10) == [[]] * len(PLACES)


def test_who_waits_for_some_partitions_is_not_woken_by_others(make_log: Callable[[int], KafkaLog]) -> None:
    log = make_log(1)
    pods, cluster = Partition("pods", 0), Partition("cluster", 0)
    assert log.wait(0, [pods, cluster]) == [cluster, pods], "it is not known what it has seen"
    log.append("jobs", jobs(1))
    began = time.monotonic()
    assert log.wait(0.3, [pods, cluster]) == []
    assert time.monotonic() - began >= 0.3
    log.append("pods", jobs(1))
    assert log.wait(60, [pods, cluster]) == [pods]
    assert log.end(pods) == 1


def test_a_leader_that_does_not_know_yet_how_far_it_goes_is_asked_again(
    make_log: Callable[[int], KafkaLog], open_log: Callable[[], KafkaLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it is for half a second after it has taken over. What it does not show would be taken for what is not there."""
    make_log(1).append("pods", jobs(20))
    log = open_log()
    pods, cluster = Partition("pods", 0), Partition("cluster", 0)
    end = log.end(pods)
    genuine, short = log.wire.client.send, [3, 3, 3]

    async def send(node: int, request: object, **more: object) -> object:
        answer = await genuine(node, request, **more)
        if isinstance(request, FetchRequest) and short and short[-1]:
            short[-1] -= 1
            for topic, parts in answer.topics:
                # No error; high watermark and last stable offset are old, and nothing is shown behind them.
                parts[:] = [(n, code, 0, 0, *rest[:-1], b"") if topic.endswith("pods") else (n, code, hw, lso, *rest)
                            for n, code, hw, lso, *rest in parts]  # fmt: skip
        return answer

    monkeypatch.setattr(log.wire.client, "send", send)
    assert len(log.read(pods, 0, 100)) == 20
    assert short.pop() == 0
    assert [len(found) for found in log.read_each([(cluster, 0), (pods, 5)], 100)] == [0, 15]
    assert short.pop() == 0
    assert sum(len(chunk) for chunk in log.reader.chunks(pods, 0, end)) == 20
    assert short.pop() == 0


def test_a_leader_that_holds_its_answers_back_is_asked_again(
    make_log: Callable[[int], KafkaLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under a quota for consumers brokers answer a fetch without naming any topic."""
    log = make_log(1)
    log.append("pods", jobs(20))
    genuine, held_back = log.wire.client.send, [2, 2]

    async def send(node: int, request: object, **more: object) -> object:
        answer = await genuine(node, request, **more)
        if isinstance(request, FetchRequest) and held_back and held_back[-1]:
            held_back[-1] -= 1
            answer.topics[:] = []
        return answer

    monkeypatch.setattr(log.wire.client, "send", send)
    pods, cluster = Partition("pods", 0), Partition("cluster", 0)
    assert len(log.read(pods, 0, 100)) == 20
    assert held_back.pop() == 0
    assert [len(found) for found in log.read_each([(cluster, 0), (pods, 5)], 100)] == [0, 15]
    assert held_back.pop() == 0


def test_a_partition_that_was_cut_below_what_it_had_is_not_taken_for_read(
    make_log: Callable[[int], KafkaLog], settings: KafkaSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = make_log(1)
    pods = Partition("pods", 0)
    log.append("pods", jobs(20))
    end = log.end(pods)
    make_anew(settings, "pods")
    # It is asked for so long.
    monkeypatch.setattr(log.wire, "_seconds", 2)
    with pytest.raises(LogUnavailableError, match=rf"pods/0 .*does not know {end} of its offsets; if this persists"):
        log.read(pods, end, 100)
    log.append("pods", jobs(1))
    with pytest.raises(LogUnavailableError, match=rf"pods/0 .*does not know {end} of its offsets; if this persists"):
        log.read(pods, 0, 100)
