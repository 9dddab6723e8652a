"""Position of a shard, written twice in each of its transactions.

One copy is a record of the snapshot, so that both always match; the other is the offsets of a consumer group, with the other fields
in their metadata, so that Kafka's tools show the progress. Each survives the loss of the other: brokers delete a group's offsets
after a week without a commit, and a snapshot may be deleted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple, cast

from engine.events import Topic
from engine.log.port import Partition, Position

_CHUNKED: Final = "-"


class Stored(NamedTuple):
    """Persistent state of a shard beside its snapshot and its outputs."""

    inputs: tuple[Partition, ...]
    position: Position
    partitions: int
    """Number of partitions of each topic partitioned by job at the time of writing."""


def to_record(stored: Stored) -> bytes:
    """Return the value of the snapshot record."""
    return _dump(stored, {"vector": stored.position.vector})


def to_group(stored: Stored) -> dict[Partition, tuple[int, str]]:
    """Return offset and metadata for the group, by input."""
    rest = _dump(stored, {}).decode()
    return {
        partition: (offset, "" if place else rest)
        for place, (partition, offset) in enumerate(zip(stored.inputs, stored.position.vector, strict=True))
    }


def from_record(value: bytes) -> Stored | None:
    """Decode a snapshot record; `None` if it is invalid."""
    try:
        fields = json.loads(value)
        return _load(fields, tuple(map(int, fields["vector"])))
    except (ValueError, KeyError, TypeError):
        return None


def from_group(committed: Mapping[Partition, tuple[int, str]]) -> Stored | None:
    """Decode a group's offsets; `None` if some are missing or were set by another tool."""
    found: list[Stored] = []
    for _, metadata in committed.values():
        try:
            fields = json.loads(metadata)
            inputs = _partitions(fields["inputs"])
            found.append(_load(fields, tuple(committed[partition][0] for partition in inputs)))
        except (ValueError, KeyError, TypeError):
            continue
    return latest(*found)


def latest(*found: Stored | None) -> Stored | None:
    """Return the most advanced position."""
    return max((stored for stored in found if stored is not None), key=_progress, default=None)


def _progress(stored: Stored) -> tuple[int, int, int]:
    return stored.position.shardsequence, sum(stored.position.vector), stored.position.now


def _dump(stored: Stored, more: Mapping[str, object]) -> bytes:
    fields: dict[str, object] = {
        "inputs": _text(stored.inputs),
        "now": stored.position.now,
        "shardsequence": stored.position.shardsequence,
        "partitions": stored.partitions,
    }
    return json.dumps({**fields, **more}, separators=(",", ":")).encode()


def _load(fields: Mapping[str, Any], vector: tuple[int, ...]) -> Stored:
    inputs = _partitions(fields["inputs"])
    if len(inputs) != len(vector):
        raise ValueError("as many offsets as inputs")
    return Stored(inputs, Position(vector, int(fields["now"]), int(fields["shardsequence"])), int(fields["partitions"]))


def _text(inputs: Sequence[Partition]) -> str:
    """Format inputs as `pods/3 cluster/0`, consecutive partitions as `job-events/0-63`; metadata is limited to 4,096 bytes."""
    runs = groupby(enumerate(inputs), lambda found: (found[1].topic, found[1].number - found[0]))
    parts = []
    for (topic, _), run in runs:
        numbers = [partition.number for _, partition in run]
        parts.append(f"{topic}/{numbers[0]}" + (f"{_CHUNKED}{numbers[-1]}" if len(numbers) > 1 else ""))
    return " ".join(parts)


def _partitions(text: str) -> tuple[Partition, ...]:
    found: list[Partition] = []
    for part in text.split():
        topic, _, numbers = part.rpartition("/")
        first, _, last = numbers.partition(_CHUNKED)
        found += [Partition(cast("Topic", topic), number) for number in range(int(first), int(last or first) + 1)]
    return tuple(found)
