"""Fencing, recovery of the position, and layouts: the ways in which outputs could be doubled or lost, each shut."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import threading
import weakref
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import ProducerFenced
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.protocol.offset import OffsetRequest
from broker import until
from log_contract import CLUSTER, EVENTS, INPUTS, PODS, SHARD, bodies, message, output, read_all
from topics_of_tests import add_partitions, alter, delete_records, make_anew
from transactions_by_hand import within, write_half

from engine.lifecycle.stage import LifecycleStage
from engine.log.errors import FencedError, LayoutError, LogDamagedError, LogUnavailableError, RecordTooLargeError
from engine.log.port import Commit, Output, Partition, Position, ShardId, size_of
from engine.processor.processor import Processor
from streams.client.producer import Producer
from streams.errors import TopicsMissingError
from streams.log import KafkaLog
from streams.settings import KafkaSettings
from streams.shard import KafkaShard
from streams.topics import apply, declared

Make = Callable[[int], KafkaLog]
Open = Callable[[], KafkaLog]
BILLING = ShardId("billing", 0)
SCHEDULING = ShardId("scheduling", 0)
DEAD = Partition("dead-letters", 0)


def grow(settings: KafkaSettings, log: KafkaLog, topics: list[str], count: int) -> None:
    add_partitions(settings, topics, count)
    log.background.run(_heard_of(log, settings.topic_prefix + topics[0], count))


async def _heard_of(log: KafkaLog, name: str, count: int) -> None:
    while log.wire.count(name) < count:
        await log.wire.client.force_metadata_update()


# --- fencing -----------------------------------------------------------------------------------------------------------------


def test_a_zombie_in_mid_transaction_is_fenced_and_leaves_nothing(make_log: Make, open_log: Open) -> None:
    log, other = make_log(1), open_log()
    zombie = log.open(SHARD, INPUTS)
    zombie.commit(Commit((1, 0), 1, [output(1)]))
    write_half(zombie, EVENTS, Partition("snapshots", 0))
    assert len(read_all(other, EVENTS)) == 1
    heir = other.open(SHARD, INPUTS)
    assert heir.position == Position((1, 0), 1, 1)
    heir.commit(Commit((2, 0), 2, [output(2)]))
    with pytest.raises(ProducerFenced):
        within(zombie, zombie.producer.aiokafka.commit_transaction())
    heir.commit(Commit((3, 0), 3, [output(3)]))
    assert [record.message.id for record in read_all(other, EVENTS)] == ["job-1", "job-2", "job-3"]


def test_a_foreign_transaction_delays_readers_of_later_records_once(
    make_log: Make, open_log: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A processor reads several partitions: each of its batches would wait for the one that does not come."""
    monkeypatch.setattr("streams.reader._VISIBLE_SECONDS", 0.2)
    log, other = make_log(1), open_log()
    foreign = other.open(BILLING, INPUTS)
    write_half(foreign, PODS)
    log.append("pods", [message("a", 1)])
    asked: list[object] = []
    fetch = log.wire.fetch

    def counted(*place: Any) -> Coroutine[Any, Any, Any]:
        asked.append(place)
        return fetch(*place)

    monkeypatch.setattr(log.wire, "fetch", counted)
    places = [(PODS, 0), (CLUSTER, 0)]
    assert log.read(PODS, 0, 10) == []
    assert len(asked) > 1
    for again in (log.read, lambda *_: log.read_each(places, 10)[0]):
        asked.clear()
        assert again(PODS, 0, 10) == []
        assert len(asked) <= 1
    assert log.end(PODS) == 0
    within(foreign, foreign.producer.aiokafka.abort_transaction())
    until(lambda: len(log.read(PODS, 0, 10)) == 1, 10, "it can be read")
    # Another one is waited for again, since the first has ended.
    write_half(foreign, PODS)
    log.append("pods", [message("a", 2)])
    asked.clear()
    assert len(log.read_each(places, 100)[0]) == 1
    assert log.read(PODS, 3, 10) == []
    assert len(asked) > 1


@pytest.mark.parametrize("first", ["offsets", "records"])
def test_a_snapshot_of_an_active_shard_shows_nothing_still_unreadable(
    make_log: Make, open_log: Open, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """Brokers end a transaction in one partition after the other; the group's offsets, or the snapshot, may come before outputs."""
    log, other = make_log(1), open_log()
    shard = log.open(SHARD, INPUTS)
    shard.commit(Commit((1, 0), 1, [output(1)], [("job/1", b"one")]))
    events = other.name(EVENTS)
    genuine, group_offsets, ends, hidden = other.wire.client.send, other.group_offsets, other.reader.ends, [0]

    def go_on() -> None:
        shard.commit(Commit((2, 0), 2, [output(2)], [("job/1", b"two")]))
        hidden[0] = 3

    async def offsets(group: str) -> object:
        await asyncio.get_running_loop().run_in_executor(None, go_on)
        return await group_offsets(group)

    def snapshot_ends(partitions: list[Partition]) -> list[int]:
        before = ends(partitions)
        go_on()
        until(lambda: ends(partitions) > before, 30, "the snapshot can be read")
        return ends(partitions)

    async def send(node: int, request: object, **more: object) -> Any:
        answer = await genuine(node, request, **more)
        if isinstance(request, OffsetRequest) and request._isolation_level == 1 and hidden[0]:
            for topic, parts in answer.topics:
                if topic == events.topic:
                    hidden[0] -= 1
                    parts[:] = [(number, code, time, 0, *rest) for number, code, time, _, *rest in parts]
        return answer

    if first == "offsets":
        monkeypatch.setattr(other, "group_offsets", offsets)
    else:
        monkeypatch.setattr(other.reader, "ends", snapshot_ends)
    monkeypatch.setattr(other.wire.client, "send", send)
    view = other.look(SHARD)
    assert view is not None
    assert (view.position, view.records) == (shard.position, [("job/1", b"two")])
    assert hidden == [0]


def test_what_is_no_text_among_snapshots_is_passed_over(make_log: Make, settings: KafkaSettings) -> None:
    log = make_log(1)
    held = log.open(SHARD, INPUTS)
    held.commit(Commit((1, 0), 1, snapshot=[("job/1", b"one")]))

    async def send() -> None:
        async with AIOKafkaProducer(**settings.client_arguments()) as producer:
            await producer.send_and_wait(f"{settings.topic_prefix}snapshots", b"x", f"{SHARD}/".encode() + b"\xff", 0)

    asyncio.run(send())
    assert list(log.open(SHARD, INPUTS).snapshot()) == [("job/1", b"one")]


def test_who_was_fenced_leaves_nothing_in_memory(make_log: Make, open_log: Open, caplog: pytest.LogCaptureFixture) -> None:
    """Cycles are looked for among what is young only: what an error kept would stay for good."""
    caplog.set_level(logging.CRITICAL)  # what is captured is kept
    log, other = make_log(1), open_log()
    processor = Processor(log, LifecycleStage())
    processor.open()
    state = weakref.ref(processor._run)
    log.append("pods", [message("pod", 1)])
    other.open(processor.shard, processor.reads)
    gc.disable()
    try:
        # `pytest.raises` would keep what was raised.
        with suppress(FencedError):
            processor.step()
        assert not processor.is_open
        assert state() is None
    finally:
        gc.enable()


def test_a_holder_frozen_in_a_commit_sees_its_successor_and_fences_none(make_log: Make, open_log: Open) -> None:
    """Its own time for the commit is over when it goes on, before any broker could tell it that it is fenced."""
    log, other = make_log(1), open_log()
    zombie = log.open(SHARD, INPUTS)
    zombie.commit(Commit((1, 0), 1, [output(1)]))
    zombie.producer.seconds = 0
    with pytest.raises(LogUnavailableError, match="must be opened again"):
        zombie.commit(Commit((2, 0), 2, [output(2)]))
    heir = other.open(SHARD, INPUTS)
    heir.commit(Commit((3, 0), 2, [output(2), output(3)]))
    with pytest.raises(FencedError, match="lifecycle/0 was taken over"):
        log.open(SHARD, INPUTS)
    heir.commit(Commit((4, 0), 3, [output(4)]))
    until(lambda: len(read_all(log, EVENTS)) == 4, 30, "the last one can be read")
    # Told once, it may take the shard over on purpose.
    assert log.open(SHARD, INPUTS).position == heir.position


def test_a_holder_that_gives_up_a_too_large_commit_fences_no_successor(
    make_log: Make, open_log: Open, settings: KafkaSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It needs a new producer, which shuts out whoever has the shard; then it must not write what the other one has written."""
    log, other = make_log(1), open_log()
    alter(settings, "job-events", {"max.message.bytes": "100000"})
    dice = random.Random(1)  # noqa: S311  bytes that cannot be compressed
    outputs = [Output("job-events", message("job", number, data=dice.randbytes(40_000)), (1, 0)) for number in range(5)]
    slow = log.open(SHARD, INPUTS)
    close = Producer.close
    heirs: list[KafkaShard] = []

    def frozen(producer: Producer) -> None:
        close(producer)
        if producer is slow.producer and not heirs:
            heirs.append(other.open(SHARD, INPUTS))
            heirs[0].commit(Commit((1, 0), 1, [output(1)]))

    monkeypatch.setattr(Producer, "close", frozen)
    with pytest.raises(FencedError, match="lifecycle/0 was taken over"):
        slow.commit(Commit((1, 0), 1, outputs))
    assert [record.message.id for record in read_all(log, EVENTS)] == ["job-1"]
    assert log.open(SHARD, INPUTS).position == Position((1, 0), 1, 1)


def test_who_has_failed_to_commit_and_has_no_heir_goes_on(make_log: Make) -> None:
    log = make_log(1)
    shard = log.open(SHARD, INPUTS)
    shard.commit(Commit((1, 0), 1, [output(1)]))
    shard.producer.seconds = 0
    with pytest.raises(LogUnavailableError, match="must be opened again"):
        shard.commit(Commit((2, 0), 2, [output(2)]))
    again = log.open(SHARD, INPUTS)
    again.commit(Commit((again.position.vector[0] + 1, 0), 2, [output(2)]))
    assert len(read_all(log, EVENTS)) == again.position.shardsequence


def test_the_gaps_that_markers_and_aborted_records_leave_are_skipped(make_log: Make) -> None:
    log = make_log(1)
    for number in range(3):
        shard = log.open(SHARD, INPUTS)
        shard.commit(Commit((number + 1, 0), 1, [output(number)]))
        write_half(shard, EVENTS)
    log.open(SHARD, INPUTS)
    found = read_all(log, EVENTS, 1)
    assert [(record.offset, record.message.id) for record in found] == [(0, "job-0"), (4, "job-1"), (8, "job-2")]
    assert log.end(EVENTS) == 12
    assert log.read(EVENTS, 1, 1)[0].offset == 4
    assert [record.message.id for record in log.scan(["job-events"])] == ["job-0", "job-1", "job-2"]


@pytest.mark.parametrize(
    ("shard", "inputs", "where"),
    [(SHARD, INPUTS, DEAD), (SCHEDULING, (CLUSTER, EVENTS), DEAD), (SCHEDULING, (CLUSTER, EVENTS), Partition("jobs", 0))],
)
def test_a_shard_is_not_open_before_all_that_it_has_written_can_be_read(
    make_log: Make, open_log: Open, shard: ShardId, inputs: Sequence[Partition], where: Partition
) -> None:
    """Another stage's open transaction stands before this shard's commit in the topics that both write, and hides it."""
    log, other, heir = make_log(1), open_log(), open_log()
    neighbour, held = log.open(BILLING, INPUTS), other.open(shard, inputs)
    write_half(neighbour, where)
    held.commit(Commit((1, 0), 1, [Output(where.topic, message("job", 1), (1, 0))]))
    opened: list[Position] = []
    thread = threading.Thread(target=lambda: opened.append(heir.open(shard, inputs).position))
    thread.start()
    # A shard that does not wait is open after some questions to the broker.
    thread.join(1)
    assert (heir.read(where, 0, 10), opened) == ([], [])
    within(neighbour, neighbour.producer.aiokafka.commit_transaction())
    thread.join(30)
    assert opened == [Position((1, 0), 1, 1)]
    assert [record.shard for record in heir.read(where, 0, 10) if record.shard] == [str(shard)]


# --- where a shard stands ----------------------------------------------------------------------------------------------------


@pytest.fixture
def advanced(make_log: Make) -> KafkaLog:
    """A log whose shard has committed twice."""
    log = make_log(1)
    shard = log.open(SHARD, INPUTS)
    shard.commit(Commit((3, 1), 7, [output(1), output(2)], [("a", b"1"), ("b", b"")]))
    shard.commit(Commit((5, 1), 9, [output(3)], [("a", b"2")]))
    return log


STANDS = Position((5, 1), 9, 3)


def test_a_shard_is_looked_at_without_being_taken_over(advanced: KafkaLog, open_log: Open) -> None:
    other = open_log()
    view = other.look(SHARD)
    assert view is not None
    assert (view.position, dict(view.snapshot())) == (STANDS, {"a": b"2", "b": b""})
    assert other.look(BILLING) is None
    shard = advanced.open(SHARD, INPUTS)
    assert other.look(SHARD) == view
    shard.commit(Commit((6, 1), 9))


def test_a_lost_snapshot_costs_time_and_no_doubles(advanced: KafkaLog, settings: KafkaSettings, open_log: Open) -> None:
    advanced.close()
    make_anew(settings, "snapshots")
    shard = open_log().open(SHARD, INPUTS)
    assert (shard.position, list(shard.snapshot())) == (STANDS, [])


def test_lost_offsets_of_the_group_change_nothing(advanced: KafkaLog, open_log: Open) -> None:
    group = advanced.settings.group(*SHARD)
    advanced.background.run(advanced.wire.commit_group(group, {advanced.name(PODS): 0, advanced.name(CLUSTER): 0}))
    shard = open_log().open(SHARD, INPUTS)
    assert (shard.position, dict(shard.snapshot())) == (STANDS, {"a": b"2", "b": b""})


def test_a_shard_that_has_written_does_not_begin_anew(advanced: KafkaLog, settings: KafkaSettings, open_log: Open) -> None:
    make_anew(settings, "snapshots")
    group = advanced.settings.group(*SHARD)
    advanced.background.run(advanced.wire.commit_group(group, {advanced.name(PODS): 0, advanced.name(CLUSTER): 0}))
    with pytest.raises(LogDamagedError, match=r"lifecycle/0 has written to job-events/0, but neither"):
        open_log().open(SHARD, INPUTS)


def test_kafkas_own_tools_see_how_far_a_shard_is(advanced: KafkaLog) -> None:
    group = f"{advanced.settings.topic_prefix}lahar-lifecycle-0"
    expected = {advanced.name(PODS): 5, advanced.name(CLUSTER): 1}

    def told() -> bool:
        found = advanced.background.run(advanced.wire.group_offsets(group))
        return {partition: offset for partition, (offset, _) in found.items()} == expected

    # The broker marks a transaction's partitions one by one; this is one of them.
    until(told, 10, "the group's offsets")


def test_inputs_truncated_by_retention_are_read_from_the_remainder(make_log: Make, settings: KafkaSettings) -> None:
    log = make_log(1)
    sent = [message("a", number) for number in range(10)]
    log.append("pods", sent)
    delete_records(settings, log.name(PODS), 4)
    assert bodies(log.read(PODS, 0, 100)) == sent[4:]
    assert log.read(PODS, 10, 1) == log.read(PODS, 99, 1) == []


def test_inputs_in_a_topic_that_was_made_anew_are_not_passed_over(
    make_log: Make, open_log: Open, settings: KafkaSettings, caplog: pytest.LogCaptureFixture
) -> None:
    """They stand at offsets that the shard has taken: nobody would ever read them."""
    log = make_log(1)
    log.append("pods", [message("a", number) for number in range(3)])
    processor = Processor(log, LifecycleStage())
    processor.open()
    processor.run_until_quiet()
    make_anew(settings, "pods")
    other = open_log()
    other.append("pods", [message("a", 9)])
    with pytest.raises(LogUnavailableError, match=r"pods/0 ends at 1, but shard lifecycle/0 has read up to 3;.*recreated"):
        Processor(other, LifecycleStage()).open()
    # Whoever reads there without taking the shard is told as well.
    assert other.read(PODS, 3, 10) == []
    assert "ends before 3, where it is read" in caplog.text


def test_what_a_broker_refuses_for_good_is_told_with_its_remedy(make_log: Make, settings: KafkaSettings) -> None:
    make_log(1).close()
    log = KafkaLog(settings.model_copy(update={"transaction_seconds": 5_000}))
    try:
        with pytest.raises(LogUnavailableError, match=r"InvalidTransactionTimeout.*KAFKA_TRANSACTION_SECONDS"):
            log.open(SHARD, INPUTS)
    finally:
        log.close()


# --- layouts -----------------------------------------------------------------------------------------------------------------


def test_a_topic_that_grows_is_refused_by_those_who_run(make_log: Make, settings: KafkaSettings) -> None:
    log = make_log(2)
    shard = log.open(SHARD, INPUTS)
    grow(settings, log, ["pods"], 4)
    for attempt in (
        lambda: log.read(PODS, 0, 1),
        lambda: log.append("pods", [message("a")]),
        lambda: shard.commit(Commit((1, 0), 1)),
        lambda: log.open(SHARD, INPUTS),
    ):
        with pytest.raises(LayoutError, match=r"pods has grown from 2 to 4 partitions"):
            attempt()


def test_a_record_that_seems_out_of_place_may_be_one_of_a_new_layout(make_log: Make, settings: KafkaSettings) -> None:
    """It is no dead letter: before one is written, the shard asks whether the topics have grown."""
    log = make_log(2)
    shard = log.open(SHARD, INPUTS)
    add_partitions(settings, ["pods"], 3)
    with pytest.raises(LayoutError, match=r"pods has grown from 2 to 3 partitions"):
        shard.commit(Commit((1, 0), 1, [Output("dead-letters", message("job", 1), (1, 0))]))


def test_that_a_topic_has_grown_is_heard_from_whichever_broker_knows(make_log: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers hear of it one after another, and a producer may have asked the first of them."""
    log = make_log(2)
    shard = log.open(SHARD, INPUTS)
    client = log.wire.client
    pods, old, more, down = log.name(PODS).topic, (0, 0), (0, 0, 0), None
    answers = {1: old, 2: more, 3: down, 4: old}
    genuine, genuinely_ready = client.send, client.ready

    async def ready(node: int, **more: Any) -> bool:
        return await genuinely_ready(node, **more) if node == 1 else answers[node] is not None

    async def send(node: int, request: object, **more: Any) -> Any:
        if not isinstance(request, MetadataRequest):
            return await genuine(node, request, **more)
        return SimpleNamespace(topics=[(0, pods, False, answers[node])])

    monkeypatch.setattr(client.cluster, "brokers", lambda: [SimpleNamespace(nodeId=node) for node in answers])
    monkeypatch.setattr(client, "ready", ready)
    monkeypatch.setattr(client, "send", send)
    with pytest.raises(LayoutError, match=r"pods has grown from 2 to 3 partitions"):
        shard.commit(Commit((1, 0), 1, [Output("dead-letters", message("job", 1), (1, 0))]))


def test_topics_of_unequal_counts_are_refused(make_log: Make, settings: KafkaSettings, open_log: Open) -> None:
    grow(settings, make_log(2), ["pods"], 4)
    with pytest.raises(LayoutError, match=r"pods has 4, .*jobs has 2"):
        open_log()


def test_a_cluster_topic_of_several_partitions_is_refused(make_log: Make, settings: KafkaSettings, open_log: Open) -> None:
    grow(settings, make_log(2), ["cluster"], 2)
    with pytest.raises(LayoutError, match=r"cluster must have one partition, it has 2"):
        open_log()


def test_a_shard_remembers_over_how_many_partitions_it_was_built(make_log: Make, settings: KafkaSettings, open_log: Open) -> None:
    log = make_log(2)
    log.open(SHARD, INPUTS).commit(Commit((1, 0), 1))
    grow(settings, log, ["pods", "jobs", "decisions", "job-events", "billing"], 4)
    with pytest.raises(LayoutError, match=r"lifecycle/0 was built on topics of 2 partitions, now they have 4"):
        open_log().open(SHARD, INPUTS)


def test_a_cluster_without_topics_says_what_to_do(settings: KafkaSettings, open_log: Open) -> None:
    with pytest.raises(TopicsMissingError, match=r"has no topic .*pods.*`lahar topics apply`"):
        open_log()


def test_a_cluster_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(LogUnavailableError, match=r"Kafka at 127\.0\.0\.1:1 cannot be reached"):
        KafkaLog(KafkaSettings(bootstrap_servers="127.0.0.1:1", request_seconds=5))


# --- sizes -------------------------------------------------------------------------------------------------------------------


def test_a_commit_of_many_and_of_large_records_keeps_its_order(make_log: Make) -> None:
    log = make_log(1)
    data = [b"x" * (3_000_000 if number in (0, 700) else 1_000) for number in range(1_500)]
    sent = [Output("job-events", message("job", number, data=body), (1, 0)) for number, body in enumerate(data)]
    log.open(SHARD, INPUTS).commit(Commit((1, 0), 1, sent, [("a", b"s" * 2_000_000)]))
    found = read_all(log, EVENTS, 400)
    assert [record.shardsequence for record in found] == list(range(1, 1_501))
    assert bodies(found) == [out.message for out in sent]
    assert dict(log.open(SHARD, INPUTS).snapshot()) == {"a": b"s" * 2_000_000}


def test_a_topic_that_takes_less_than_is_sent_at_once_gets_less_at_once(make_log: Make, settings: KafkaSettings) -> None:
    """A record fits, several together do not; one that does not fit is named."""
    log = make_log(1)
    alter(settings, "job-events", {"max.message.bytes": "100000"})
    dice = random.Random(1)  # noqa: S311  bytes that cannot be compressed
    sent = [Output("job-events", message("job", number, data=dice.randbytes(40_000)), (1, 0)) for number in range(20)]
    large = Output("job-events", message("job", 99, data=dice.randbytes(110_000)), (1, 0))
    shard = log.open(SHARD, INPUTS)
    told = rf"{size_of(large.message)} bytes.*job-events does not take.*max\.message\.bytes"
    with pytest.raises(RecordTooLargeError, match=told) as raised:
        shard.commit(Commit((1, 0), 1, [*sent[:7], large, *sent[7:]]))
    assert raised.value.place == 7
    shard.commit(Commit((1, 0), 1, sent))
    assert bodies(read_all(log, EVENTS)) == [out.message for out in sent]


# --- several processes -------------------------------------------------------------------------------------------------------


def test_what_another_process_appends_ends_a_wait(make_log: Make, open_log: Open) -> None:
    mine, other = make_log(1), open_log()
    assert read_all(mine, PODS) == []
    mine.wait(0)
    thread = threading.Thread(target=lambda: other.append("pods", [message("a")]))
    thread.start()
    mine.wait(60)
    thread.join(30)
    assert len(read_all(mine, PODS)) == 1


def test_a_cursor_is_seen_by_others_and_outlives_the_process(make_log: Make, open_log: Open) -> None:
    mine = make_log(1)
    mine.move_cursor("bell", {EVENTS: 5})
    mine.close()
    assert open_log().cursor("bell") == {EVENTS: 5}


def test_applying_topics_of_a_log_in_use_changes_nothing(make_log: Make, settings: KafkaSettings) -> None:
    log = make_log(2)
    log.append("pods", [message("a")])
    assert asyncio.run(apply(settings, declared(settings, 2, 1))) == []
