"""What is stored is damaged, or topics grow: recovered from, or refused; never wrong. (h), (i)."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import NewPartitions, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import PolicyViolationError
from aiokafka.structs import TopicPartition
from chaos_table import EVENTS, Row
from chaos_world import SHARDS, World

from engine.events import Message
from engine.lifecycle.stage import LifecycleStage
from engine.log.partitioner import partition_of
from engine.log.port import Partition, ShardId
from engine.processor.partitions import input_partitions
from engine.processor.snapshots import MANIFEST
from streams.codec import encode
from streams.position import Stored, to_record
from streams.topics import TOPICS

pytestmark = pytest.mark.chaos

_OPENED = re.compile(r"shard lifecycle/(\d+) is open: [\d.]+ s, (\d+) events folded")

Make = Callable[..., World]
Note = Callable[[Row], None]


def records(here: World, shard: int) -> dict[bytes, bytes]:
    """Return a shard's snapshot as it stands in the topic."""
    found: dict[bytes, bytes] = {}
    partition = Partition("snapshots", shard)
    for chunk in here.log.reader.chunks(partition, 0, here.log.reader.ends([partition])[0]):
        for raw in chunk:
            if raw.value:
                found[raw.key or b""] = raw.value
            else:
                found.pop(raw.key or b"", None)
    return found


def write(here: World, shard: int, changes: dict[bytes, bytes | None]) -> None:
    """Write into the topic of snapshots, as nobody should."""

    async def send() -> None:
        producer = AIOKafkaProducer(**here.settings.client_arguments(), acks="all")
        await producer.start()
        for key, value in changes.items():
            await producer.send_and_wait(f"{here.settings.topic_prefix}snapshots", value, key, shard)
        await producer.stop()

    asyncio.run(send())


def lose(here: World) -> str:
    """Delete all records of the snapshots."""
    places = [Partition("snapshots", shard) for shard in range(SHARDS)]
    ends = here.log.reader.ends(places)
    gone = {here.log.name(place): RecordsToDelete(end) for place, end in zip(places, ends, strict=True)}
    config = TOPICS["snapshots"].config() | {"min.insync.replicas": "2"}
    # A topic that is only compacted gives no records up.
    for cleanup in ("compact,delete", "compact"):
        resource = ConfigResource(
            ConfigResourceType.TOPIC, f"{here.settings.topic_prefix}snapshots", config | {"cleanup.policy": cleanup}
        )
        here.administer(lambda admin, found=resource: admin.alter_configs([found]))
        if cleanup != "compact":
            here.until(lambda: delete_records(here, gone), "the records are deleted")
    return ""


def delete_records(here: World, gone: dict[TopicPartition, RecordsToDelete]) -> bool:
    """Try to; brokers hear of a changed setting a little later."""
    try:
        here.administer(lambda admin: admin.delete_records(gone))
    except PolicyViolationError:
        return False
    return True


def tear(here: World) -> str:
    """Change a record of one job in each, lose another."""
    for shard in range(SHARDS):
        prefix = f"lifecycle/{shard}/".encode()
        subjects = sorted(key for key in records(here, shard) if key.startswith(prefix) and b"/_" not in key)
        first, second = here.dice.sample(subjects, 2)
        write(here, shard, {first: records(here, shard)[first][:-7], second: None})
    return "its records are not those that were written"


def tear_manifest(here: World) -> str:
    """Cut off the end of what says what the other records are."""
    for shard in range(SHARDS):
        key = f"lifecycle/{shard}/{MANIFEST}".encode()
        write(here, shard, {key: records(here, shard)[key][:-9]})
    return "its records are not those that were written"


def age(here: World) -> str:
    """Let the snapshots be of another version of the state."""
    for shard in range(SHARDS):
        key = f"lifecycle/{shard}/{MANIFEST}".encode()
        manifest = json.loads(records(here, shard)[key][1:])
        write(here, shard, {key: b"\x00" + json.dumps({**manifest, "state_version": 9_999}).encode()})
    return "it is of state version 9999"


def forget_position(here: World) -> str:
    """Make nonsense of the record that says where a shard stands."""
    for shard in range(SHARDS):
        write(here, shard, {f"lifecycle/{shard}".encode(): b"nonsense"})
    return ""


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


def folded(here: World, before: dict[str, int]) -> dict[int, int]:
    """Return how many events each shard has folded when it was opened, as workers have said since."""
    told = "".join(worker.said()[before[worker.name] :] for worker in here.fleet.workers)
    return {int(shard): int(events) for shard, events in _OPENED.findall(told)}


def test_h_snapshots_are_lost_torn_or_of_another_version(world: Make, note: Note) -> None:
    here = world("(h) snapshot missing, torn, of another version", seed=20_170_808)
    here.by_ordinal()
    damages = [lose, tear, tear_manifest, age, forget_position]
    for number, damage in enumerate(damages, 1):
        here.until_taken(number / (len(damages) + 2))
        here.feeder.hold()
        # At rest workers bring their snapshots up to date.
        here.until_quiet()
        for worker in here.fleet.workers:
            worker.end()
        views = {shard: here.log.look(ShardId("lifecycle", shard)) for shard in range(SHARDS)}
        written = {shard: view.position.shardsequence for shard, view in views.items() if view is not None}
        said = damage(here)
        before = {worker.name: len(worker.said()) for worker in here.fleet.workers}
        for worker in here.fleet.workers:
            worker.start()
        here.feeder.go_on()
        here.until(lambda found=before: len(folded(here, found)) == SHARDS, "all shards are open")  # type: ignore[misc]
        if damage is forget_position:
            # The group's offsets tell the same, and the snapshot is whole.
            assert all(events < written[shard] for shard, events in folded(here, before).items())
        else:
            assert folded(here, before) == written
        for worker in here.fleet.workers:
            told = worker.said()[before[worker.name] :]
            assert not said or said in told, f"{worker.name} does not say {said!r}:\n{told[-2_000:]}"
    remarks = "missing, torn, of another version: all of the history was read; position overwritten: the group's offsets told it"
    here.finish(note, f"{len(damages)} damages to each of {SHARDS} shards", remarks)


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


def test_i_a_topic_that_grows_is_refused_and_nothing_of_the_new_layout_is_read(world: Make, note: Note) -> None:
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
