"""Reading several partitions at once, and waiting for some of them."""

from __future__ import annotations

import time
from collections.abc import Callable

from log_contract import message

from engine.events import Message
from engine.log.port import Partition, ReadsTogether
from streams.log import KafkaLog

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
