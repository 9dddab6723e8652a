"""What is stored is damaged, or topics grow: recovered from, or refused; never wrong. (h), (i)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import NewPartitions
from chaos_snapshots import SNAPSHOTS, damage_snapshots, lose, write
from chaos_table import EVENTS, Row
from chaos_world import SHARDS, World

from engine.events import Message
from engine.lifecycle.stage import LifecycleStage
from engine.log.partitioner import partition_of
from engine.log.port import Partition, ShardId
from engine.processor.partitions import input_partitions
from streams.codec import encode
from streams.position import Stored, to_record

pytestmark = pytest.mark.chaos

Make = Callable[..., World]
Note = Callable[[Row], None]


def append_grown(here: World, messages: list[Message], partitions: int) -> None:
    """Append to pods as a producer does that knows the new layout."""

    async def send() -> None:
        producer = AIOKafkaProducer(**here.settings.client_arguments(), acks="all")
        await producer.start()
        for message in messages:
            key, value, headers = encode(message)
            number = partition_of(message.key, partitions)
            await producer.send(f"{here.settings.topic_prefix}pods", value, key, number, headers=headers)
        await producer.stop()

    asyncio.run(send())


def test_h_snapshots_are_lost_torn_or_of_another_version(world: Make, note: Note) -> None:
    here = world("(h) snapshot missing, torn, of another version", seed=20_170_808)
    here.by_ordinal()
    here.finish(note, damage_snapshots(here), SNAPSHOTS)


def test_h_without_snapshot_and_offsets_a_shard_is_refused(world: Make, note: Note) -> None:
    here = world("(h) snapshot and offsets lost", seed=20_170_809)
    here.by_ordinal()
    here.until_all()
    rested = time.time_ns() // 1_000
    here.until_fired(rested)
    for worker in here.fleet.workers:
        worker.end()
    positions = {shard: here.log.look(ShardId("lifecycle", shard)) for shard in range(SHARDS)}
    lose(here)
    for shard in range(SHARDS):
        gone = {here.log.name(partition): 0 for partition in here.offsets(shard)}
        here.log.background.run(here.log.wire.commit_group(here.settings.group("lifecycle", shard), gone))
    for worker in here.fleet.workers:
        worker.start()
    for worker in here.fleet.workers:
        here.until(lambda found=worker: not found.runs, f"{worker.name} ends", supervise=False)  # type: ignore[misc]
        assert worker.code == 4
        assert "has written to job-events" in worker.said()
    # Nothing was written by those who refused: with the offsets back, it is as it was.
    for shard, view in positions.items():
        assert view is not None
        stored = Stored(input_partitions(here.log, LifecycleStage(), shard), view.position, SHARDS)
        write(here, shard, {f"lifecycle/{shard}".encode(): to_record(stored)})
    remarks = "refused by a named error, code 4; nothing was written"
    here.verdict(note, f"{SHARDS} shards lost both", remarks, here.seconds, rested=rested)


def test_i_a_grown_topic_is_refused_and_nothing_of_its_new_layout_is_read(world: Make, note: Note) -> None:
    # What is not appended when the topic grows is no part of it.
    here = world("(i) a topic grown while workers run", seed=20_170_810, events=EVENTS * 3 // 2)
    here.by_ordinal()
    here.until_taken(0.7)
    here.feeder.stop()
    left = here.given[here.feeder.appended :]
    name = f"{here.settings.topic_prefix}pods"
    here.administer(lambda admin: admin.create_partitions({name: NewPartitions(SHARDS + 2)}))
    # Another producer has heard of it at once, and writes by the new layout.
    old = [here.log.end(Partition("pods", number)) for number in range(SHARDS)]
    sent = [message for topic, message in left if topic == "pods" and isinstance(message, Message)][:5_000]
    append_grown(here, sent, SHARDS + 2)
    for worker in here.fleet.workers:
        here.until(lambda found=worker: not found.runs, f"{worker.name} ends", supervise=False)  # type: ignore[misc]
        assert worker.code == 4
        assert f"topic {name} has grown from {SHARDS} to {SHARDS + 2} partitions" in worker.said()
    here.log.must_not_have_grown = lambda: None  # type: ignore[method-assign]  # to look at what is there, the test is not refused
    new = 0
    for number in range(SHARDS):
        place, taken = Partition("pods", number), here.offsets(number)
        assert all(partition.number < SHARDS for partition in taken)
        late = [record for record in here.log.read(place, old[number], 10_000) if record.offset < taken[place]]
        # Until a worker hears of it, it may take what stands where it always stood.
        assert [record for record in late if partition_of(record.message.key, SHARDS) != number] == []
        new += len(late)
    unread = f"{len(sent) - new} of {len(sent)} records behind it unread, the others stood in their old place"
    remarks = f"refused by a named error, code 4; {unread}"
    here.verdict(note, f"pods grown to {SHARDS + 2} partitions", remarks, here.seconds, whole=False)
