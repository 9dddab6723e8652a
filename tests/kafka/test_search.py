"""Records of many partitions come in one order: by the brokers' clocks, but causes first, and no transaction by halves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, cast

import pytest

from engine.events import raw_message
from engine.log.port import Partition, Position, Record
from streams.codec import Header, encode
from streams.position import Stored
from streams.reader import Reader
from streams.search import Placed, Wanted, merged, scan

PODS, CLUSTER = Partition("pods", 0), Partition("cluster", 0)
EVENTS, DEAD = Partition("job-events", 0), Partition("dead-letters", 0)
SHARD = "lifecycle/0"


def given(partition: Partition, offset: int, time: int) -> Placed:
    return Placed(time, False, Record(partition, offset, raw_message("", b"", 0)))


def written(partition: Partition, offset: int, time: int, sequence: int, *basis: int, shard: str = SHARD) -> Placed:
    return Placed(time, True, Record(partition, offset, raw_message("", b"", 0), shard, sequence, basis))


def stands(sequence: int) -> dict[str, Stored]:
    return {SHARD: Stored((PODS, CLUSTER), Position((9, 9), 0, sequence), 1)}


def order(*placed: Placed, shards: dict[str, Stored] | None = None) -> list[tuple[str, int]]:
    runs: dict[Partition, list[Placed]] = {}
    for found in placed:
        runs.setdefault(found.record.partition, []).append(found)
    iterators: dict[Partition, Iterator[Placed]] = {partition: iter(run) for partition, run in runs.items()}
    return [(record.partition.topic, record.offset) for record in merged(iterators, shards or {})]


def test_clocks_that_agree_decide() -> None:
    found = order(
        given(PODS, 0, 1), given(PODS, 1, 4), given(CLUSTER, 0, 3), written(EVENTS, 0, 2, 1, 1, 0), written(EVENTS, 1, 4, 2, 2, 1)
    )
    assert found == [("pods", 0), ("job-events", 0), ("cluster", 0), ("pods", 1), ("job-events", 1)]


def test_an_output_stands_behind_its_inputs_whatever_the_clocks_say() -> None:
    """The broker that leads the outputs is an hour behind."""
    outputs = (written(EVENTS, 0, 10, 1, 1, 0), written(EVENTS, 2, 11, 2, 2, 1), written(EVENTS, 3, 12, 3, 2, 2))
    inputs = (given(PODS, 0, 3601), given(PODS, 1, 3605), given(PODS, 2, 3606), given(CLUSTER, 0, 3604), given(CLUSTER, 1, 3603))
    assert order(*outputs, *inputs, shards=stands(3)) == [
        ("pods", 0),
        ("job-events", 0),
        ("pods", 1),
        ("cluster", 0),
        ("job-events", 2),
        ("cluster", 1),
        ("job-events", 3),
        ("pods", 2),
    ]


def test_a_shards_outputs_keep_their_order_over_topics() -> None:
    """One transaction on two topics, whose brokers' clocks differ by a millisecond."""
    found = order(
        written(EVENTS, 0, 8, 1, 1, 0), written(EVENTS, 1, 8, 3, 3, 0), written(DEAD, 0, 9, 2, 2, 0), written(DEAD, 1, 7, 4, 4, 0)
    )
    assert found == [("job-events", 0), ("dead-letters", 0), ("job-events", 1), ("dead-letters", 1)]


def test_a_shards_outputs_keep_their_order_whatever_their_topic_names() -> None:
    found = order(written(DEAD, 0, 8, 2, 2, 0), written(EVENTS, 0, 9, 1, 1, 0))
    assert found == [("job-events", 0), ("dead-letters", 0)]


@pytest.mark.parametrize("sequence", range(4))
def test_what_is_not_yet_whole_is_left_out(sequence: int) -> None:
    """The second transaction can be read on one topic and not yet on the other."""
    outputs = (written(EVENTS, 0, 1, 1, 1, 0), written(EVENTS, 1, 2, 2, 2, 0), written(EVENTS, 2, 2, 3, 3, 0))
    found = order(*outputs, given(PODS, 0, 1), shards=stands(sequence))
    assert found == [("pods", 0), *(("job-events", offset) for offset in range(sequence))]


def test_records_forged_by_another_producer_do_not_block_each_other() -> None:
    shards = {
        "a/0": Stored((DEAD,), Position((9,), 0, 9), 1),
        "b/0": Stored((EVENTS,), Position((9,), 0, 9), 1),
    }
    forged = (written(EVENTS, 0, 1, 1, 1, shard="a/0"), written(DEAD, 0, 1, 1, 1, shard="b/0"))
    assert sorted(order(*forged, shards=shards)) == [("dead-letters", 0), ("job-events", 0)]


# --- from a log --------------------------------------------------------------------------------------------------------------


class Raw(NamedTuple):
    """A record as a fetch brings it."""

    offset: int
    timestamp: int
    key: bytes
    value: bytes
    headers: list[Header]


class Logged:
    """A reader of records that stand in memory."""

    def __init__(self, written: dict[Partition, list[Raw]]) -> None:
        self._written = written

    def ends(self, partitions: list[Partition]) -> list[int]:
        return [len(self._written[partition]) for partition in partitions]

    def chunks(self, partition: Partition, start: int, end: int) -> Iterator[list[Raw]]:
        yield self._written[partition][start:end]


def scanned(
    *placed: Placed, wanted: Wanted | None = None, start: dict[Partition, int] | None = None, stand: int = 9
) -> list[tuple[str, int]]:
    """What a scan gives of some records, in the partitions in which there are any."""
    logged: dict[Partition, list[Raw]] = {}
    for time, _, record in placed:
        fields = encode(record.message, record.shard, record.shardsequence, record.basis)
        logged.setdefault(record.partition, []).append(Raw(record.offset, time, *fields))
    found = scan(cast("Reader", Logged(logged)), list(logged), wanted, start or {}, lambda: stands(stand))
    return [(record.partition.topic, record.offset) for record in found]


def test_a_scan_of_topics_yields_whole_transactions_with_causes_first() -> None:
    outputs = (written(EVENTS, 0, 10, 1, 1, 0), written(EVENTS, 1, 11, 2, 2, 0))
    assert scanned(*outputs, given(PODS, 0, 12), given(PODS, 1, 13), stand=1) == [("pods", 0), ("job-events", 0), ("pods", 1)]


def test_a_scan_of_one_topic_goes_as_far_as_it_can_be_read() -> None:
    assert scanned(written(EVENTS, 0, 10, 1, 1, 0), written(EVENTS, 1, 11, 2, 2, 0), stand=1) == [
        ("job-events", 0),
        ("job-events", 1),
    ]


def test_a_scan_gives_what_is_wanted_from_a_place_on() -> None:
    records = [given(PODS, offset, 10 - offset) for offset in range(5)]
    assert scanned(*records, wanted=lambda raw: raw.offset % 2 == 0, start={PODS: 1}) == [("pods", 2), ("pods", 4)]
