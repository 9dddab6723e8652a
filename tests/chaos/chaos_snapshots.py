"""The snapshots of shards, as they stand in their topic, are lost, torn, or of another version: (h)."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Final

from aiokafka import AIOKafkaProducer
from aiokafka.admin import RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import PolicyViolationError
from aiokafka.structs import TopicPartition
from chaos_world import SHARDS, World

from engine.log.port import Partition, ShardId
from engine.processor.snapshots import MANIFEST
from streams.topics import TOPICS

SNAPSHOTS: Final = (
    "missing, torn, of another version: all of the history was read; position overwritten: the group's offsets told it"
)
"""What `damage_snapshots` has found."""


def damage_snapshots(here: World) -> str:
    """Damage the snapshots in each way while all inputs are taken, and check that workers see it; return what was done."""
    damages = [lose, tear, tear_manifest, age, forget_position]
    for number, damage in enumerate(damages, 1):
        here.until_taken(number / (len(damages) + 2))
        here.feeder.hold()
        # At rest workers bring their snapshots up to date.
        here.until_quiet()
        for worker in here.fleet.workers:
            worker.end()
        views = {shard: here.log.look(ShardId(here.stage.name, shard)) for shard in range(SHARDS)}
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
    return f"{len(damages)} damages to each of {SHARDS} shards"


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
        prefix = f"{here.stage.name}/{shard}/".encode()
        subjects = sorted(key for key in records(here, shard) if key.startswith(prefix) and b"/_" not in key)
        first, second = here.dice.sample(subjects, 2)
        write(here, shard, {first: records(here, shard)[first][:-7], second: None})
    return "its records are not those that were written"


def tear_manifest(here: World) -> str:
    """Cut off the end of what says what the other records are."""
    for shard in range(SHARDS):
        key = f"{here.stage.name}/{shard}/{MANIFEST}".encode()
        write(here, shard, {key: records(here, shard)[key][:-9]})
    return "its records are not those that were written"


def age(here: World) -> str:
    """Let the snapshots be of another version of the state."""
    for shard in range(SHARDS):
        key = f"{here.stage.name}/{shard}/{MANIFEST}".encode()
        manifest = json.loads(records(here, shard)[key][1:])
        write(here, shard, {key: b"\x00" + json.dumps({**manifest, "state_version": 9_999}).encode()})
    return "it is of state version 9999"


def forget_position(here: World) -> str:
    """Make nonsense of the record that says where a shard stands."""
    for shard in range(SHARDS):
        write(here, shard, {f"{here.stage.name}/{shard}".encode(): b"nonsense"})
    return ""


def folded(here: World, before: dict[str, int]) -> dict[int, int]:
    """Return how many events each shard has folded when it was opened, as workers have said since."""
    told = "".join(worker.said()[before[worker.name] :] for worker in here.fleet.workers)
    opened = re.findall(rf"shard {here.stage.name}/(\d+) is open: [\d.]+ s, (\d+) events folded", told)
    return {int(shard): int(events) for shard, events in opened}
