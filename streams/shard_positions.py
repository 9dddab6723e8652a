"""Positions of shards on Kafka: to open or view a shard, and to read topics that several shards write."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, get_args

from aiokafka.errors import KafkaTimeoutError

from engine.events import Topic
from engine.events.vocabulary import INPUT_TOPICS
from engine.log.errors import FencedError, LogDamagedError
from engine.log.port import Partition, Position, ShardId, ShardView
from streams.cluster import Cluster
from streams.codec import decode
from streams.errors import unavailable_if
from streams.position import Stored, from_group, from_record, latest

STATE_MARK: Final = b"\x00"
"""Prefix of each state in `snapshots`: an empty value would be a tombstone."""
_STAGES: Final = ("lifecycle", "scheduling", "billing", "budgets")
"""Stages whose shards write the topics; readers of several topics wait for their last transactions."""
_TAIL: Final = 50
"""Number of offsets at the end of `snapshots` that contain the last position of a shard that has just committed."""
_WRITTEN: Final[tuple[Topic, ...]] = tuple(topic for topic in get_args(Topic) if topic != "snapshots")
"""Topics that a stage may write, except its own inputs; a stage may write inputs of another one."""
_PAUSE_SECONDS: Final = 0.01
_VISIBLE_SECONDS: Final = 1.0
"""Time within which a committed transaction becomes readable (seconds)."""
_MARGIN_SECONDS: Final = 15.0
"""Margin for the abort of expired transactions, which brokers check every 10 s (seconds)."""


def must_not_have_moved(cluster: Cluster, shard: ShardId, epoch: int, before: Position, attempted: Position) -> None:
    """Check, without fencing, that no other process has run a shard since a commit of this process failed.

    A process that was frozen during a commit may continue after its transaction expired and another process took over.

    Args:
        cluster: cluster of the shard.
        shard: shard to open again.
        epoch: producer epoch of this process.
        before: position before the failed commit.
        attempted: position if that commit was written after all.

    Raises:
        FencedError: another process has run the shard.
        LogUnavailableError: the cluster cannot be reached.
    """
    partition = cluster.place("snapshots", shard.number)
    with unavailable_if(f"the position of shard {shard} on {cluster.settings.where} cannot be read"):
        # A commit of another process may become readable some milliseconds later. An open transaction of this process blocks the
        # partition for longer, but then no other process has committed.
        with suppress(KafkaTimeoutError):
            cluster.background.run(_settled(cluster, [partition], _VISIBLE_SECONDS))
        stored = from_group(cluster.background.run(_offsets(cluster, shard)))
    # A group's offsets may become visible later than the transaction's records, whose last one has the same position.
    end = cluster.reader.ends([partition])[0]
    stored = latest(stored, *(found for _, found in _recorded(cluster, partition, max(end - _TAIL, 0), end, {str(shard)})))
    if stored is not None and stored.position != attempted and _advance(stored.position) > _advance(before):
        raise FencedError(str(shard), epoch)


def _advance(position: Position) -> tuple[int, int]:
    return position.shardsequence, sum(position.vector)


def look(cluster: Cluster, shard: ShardId) -> ShardView | None:
    """Return position and snapshot of a shard without opening it; `None` if it has never committed.

    Raises:
        LogUnavailableError: the cluster cannot be reached, or a transaction does not end.
    """
    stored, records = read_shard(cluster, shard)
    return None if stored is None else ShardView(stored.position, records)


def last_known(cluster: Cluster, shard: ShardId, snapshots: Partition) -> Stored | None:
    """Return the position of a shard's last commit, from its group or else its snapshot; `None` if it has never committed.

    Args:
        cluster: cluster, whose partition counts may still be unknown.
        shard: shard.
        snapshots: partition of the shard's snapshot.

    Raises:
        LogUnavailableError: the cluster cannot be reached.
    """
    with unavailable_if(f"the position of shard {shard} on {cluster.settings.where} cannot be read"):
        stored = from_group(cluster.background.run(_offsets(cluster, shard)))
    if stored is not None:
        return stored
    end = cluster.reader.ends([snapshots])[0]
    tail = max(end - _TAIL, 0)
    # A commit ends with its position, so the last one is near the end, unless many aborted records follow.
    return latest(*(found for _, found in _recorded(cluster, snapshots, tail, end, {str(shard)}))) or latest(
        *(found for _, found in _recorded(cluster, snapshots, 0, tail, {str(shard)}))
    )


def _recorded(
    cluster: Cluster, partition: Partition, start: int, end: int, shards: Container[str]
) -> Iterator[tuple[str, Stored | None]]:
    """Yield the positions of some shards in a range of `snapshots`, with the shards' names."""
    for chunk in cluster.reader.chunks(partition, start, end):
        for raw in chunk:
            if (name := (raw.key or b"").decode(errors="replace")) in shards:
                yield name, from_record(raw.value or b"")


def read_shard(cluster: Cluster, shard: ShardId) -> tuple[Stored | None, list[tuple[str, bytes]]]:
    """Return position and snapshot, once all output up to the position is readable."""
    name = str(shard)
    partition = cluster.place("snapshots", shard.number)
    with unavailable_if(f"the position of shard {shard} on {cluster.settings.where} cannot be read"):
        committed = cluster.background.run(_settled_offsets(cluster, shard, partition))
    found: dict[bytes, bytes] = {}
    whole, prefix = name.encode(), f"{name}/".encode()
    for chunk in cluster.reader.chunks(partition, 0, cluster.reader.ends([partition])[0]):
        for raw in chunk:
            key = raw.key or b""
            if key != whole and not key.startswith(prefix):
                continue
            if raw.value:
                found[key] = raw.value
            else:
                found.pop(key, None)
    stored = latest(from_record(found.pop(whole, b"")), from_group(committed))
    # Without its inputs: another stage writes them, and may have an open transaction.
    outputs = _outputs(cluster, shard, () if stored is None else stored.inputs)
    with unavailable_if(f"the outputs of shard {shard} on {cluster.settings.where} cannot be read"):
        # The holder may have committed meanwhile; its records become readable in `snapshots` first.
        cluster.background.run(_settled(cluster, outputs))
    # A subject that is not text was not written by Lahar, and cannot be deleted by name.
    subjects = {key[len(prefix) :].decode(): value for key, value in found.items() if _is_text(key)}
    return stored, [(subject, value[len(STATE_MARK) :]) for subject, value in subjects.items()]


def _outputs(cluster: Cluster, shard: ShardId, inputs: Sequence[Partition] = ()) -> list[Partition]:
    """Return the partitions that a shard may have written; the only shard of its stage (`Log.open`) may write to all."""
    taken = {topic for topic, _ in inputs} or INPUT_TOPICS
    topics = [topic for topic in _WRITTEN if topic not in taken]
    if len(taken) < len(inputs):
        return [Partition(topic, number) for topic in topics for number in range(cluster.partitions(topic))]
    return [cluster.place(topic, shard.number) for topic in topics]


def _is_text(key: bytes) -> bool:
    try:
        key.decode()
    except UnicodeDecodeError:
        return False
    return True


def positions_of(cluster: Cluster, partitions: Sequence[Partition]) -> dict[str, Stored]:
    """Return, by name, the positions of the shards that may have written some partitions, once all output up to them is readable.

    Shards that never committed, or whose groups the brokers have deleted, are left out.

    Raises:
        LogUnavailableError: the cluster cannot be reached, or a transaction does not end.
    """
    shards = {str(shard): shard for number in {0, *(partition.number for partition in partitions)} for shard in shards_of(number)}
    snapshots = sorted({cluster.place("snapshots", shard.number) for shard in shards.values()})
    with unavailable_if(f"the positions of shards on {cluster.settings.where} cannot be read"):
        cluster.background.run(_settled(cluster, snapshots))
        committed = cluster.background.run(_offsets_of(cluster, shards.values()))
    found = {name: from_group(offsets) for name, offsets in zip(shards, committed, strict=True)}
    # A group's offsets may become visible later than the transaction's records, whose last one has the same position.
    for partition, end in zip(snapshots, cluster.reader.ends(snapshots), strict=True):
        for name, stored in _recorded(cluster, partition, max(end - _TAIL, 0), end, found):
            found[name] = latest(found[name], stored)
    with unavailable_if(f"the outputs of shards on {cluster.settings.where} cannot be read"):
        cluster.background.run(_settled(cluster, partitions))
    return {name: stored for name, stored in found.items() if stored is not None}


def shards_of(number: int) -> list[ShardId]:
    """Return the shards with a number, one per stage."""
    return [ShardId(stage, number) for stage in _STAGES]


async def _offsets_of(cluster: Cluster, shards: Iterable[ShardId]) -> list[dict[Partition, tuple[int, str]]]:
    return await asyncio.gather(*(_offsets(cluster, shard) for shard in shards))


async def _settled_offsets(cluster: Cluster, shard: ShardId, snapshots: Partition) -> dict[Partition, tuple[int, str]]:
    """Return the group's offsets, once all snapshots up to them are readable."""
    # Wait for the open transaction of the last holder, which hides its offsets.
    await _settled(cluster, [snapshots])
    offsets = await _offsets(cluster, shard)
    # A live holder may have committed since, and its offsets become visible before its records.
    await _settled(cluster, [snapshots])
    return offsets


async def _offsets(cluster: Cluster, shard: ShardId) -> dict[Partition, tuple[int, str]]:
    return await cluster.group_offsets(cluster.settings.group(shard.stage, shard.number))


async def _settled(cluster: Cluster, partitions: Sequence[Partition], seconds: float | None = None) -> None:
    """Wait until all present records of some partitions are readable.

    Open transactions end within their time-out; records of later ones follow the present records.

    Raises:
        KafkaTimeoutError: they are not readable within `seconds`, or, if `None`, within the transaction time-out plus a margin.
    """
    names = [cluster.name(partition) for partition in partitions]
    written = await cluster.wire.ends(names, committed=False)
    deadline = time.monotonic() + (cluster.settings.transaction_seconds + _MARGIN_SECONDS if seconds is None else seconds)
    while any(end < written[name] for name, end in (await cluster.wire.ends(names)).items()):
        if time.monotonic() > deadline:
            raise KafkaTimeoutError("another producer's transaction does not end")
        await asyncio.sleep(_PAUSE_SECONDS)


def must_not_have_written(cluster: Cluster, shard: ShardId, inputs: Sequence[Partition]) -> None:
    """Check that a shard without a position has no outputs, because it would write them again.

    Raises:
        LogDamagedError: the shard has outputs.
        LogUnavailableError: the cluster cannot be reached.
    """
    for partition in _outputs(cluster, shard, inputs):
        for raw in next(cluster.reader.chunks(partition, 0, cluster.reader.ends([partition])[0]), []):
            if decode(raw.key, raw.value, raw.headers, raw.timestamp)[1].shard == str(shard):
                raise LogDamagedError(
                    f"shard {shard} has written to {partition.topic}/{partition.number}, but neither its snapshot nor the offsets "
                    f"of its group {cluster.settings.group(shard.stage, shard.number)} are there; restore one of them from a backup"
                )
