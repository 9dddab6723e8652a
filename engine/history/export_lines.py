"""Lines of an export: JSON of CloudEvents, each record restorable byte for byte.

The first line describes the export, the last one gives the number of records, so a truncated file is detected. Each line between is
one record: its event in CloudEvents' structured mode, with the record's metadata as extension attributes (`topic`, `partition`,
`offset`, `shard`, `shardsequence`, `basis`). A message that does not survive structured mode byte for byte is stored in the data of
a `lahar.record.kept.v1`. Damaged records are replaced by a `lahar.record.left_out.v1` with their offsets.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, get_args

from pydantic_core import from_json

from engine.events import Message, Topic, from_cloudevent, raw_message, to_cloudevent
from engine.events.errors import UndecodableError
from engine.events.ids import digest
from engine.history.errors import TransferError
from engine.history.readable_records import Damage
from engine.log.port import Partition, Record

_HEAD: Final = "lahar.log.exported.v1"
_END: Final = "lahar.log.export_ended.v1"
_KEPT: Final = "lahar.record.kept.v1"
_LEFT_OUT: Final = "lahar.record.left_out.v1"
TOPICS: Final[tuple[Topic, ...]] = tuple(topic for topic in get_args(Topic) if topic != "snapshots")
_MOST_PARTITIONS: Final = 10_000
"""Largest plausible number of partitions; a first line with more is damaged."""
_LARGEST: Final = 2**63 - 1
_BLANK: Final = raw_message("", b"", 0)


@dataclass(frozen=True, slots=True)
class Contents:
    """Contents of an export."""

    scope: Literal["everything", "job", "range"]
    """`range`: records of a period that does not start at the log's beginning."""
    partitions: int
    """Number of partitions of each topic that has several."""
    what: str = ""
    """Id of the job, or description of the period."""


def contents_of(line: bytes) -> Contents:
    """Return the contents in the first line of an export.

    Raises:
        TransferError: it is not the first line of an export.
    """
    try:
        head = from_json(line)
        contents = Contents(**head["data"])
        sound = (
            head["type"] == _HEAD
            and contents.scope in {"everything", "job", "range"}
            and type(contents.partitions) is int
            and 1 <= contents.partitions <= _MOST_PARTITIONS
        )
    except (ValueError, LookupError, TypeError):
        sound = False
    if not sound:
        raise TransferError("the first line is not that of an export; `lahar export` writes one")
    return contents


def head_line(contents: Contents) -> bytes:
    """Return the first line."""
    data = {"scope": contents.scope, "partitions": contents.partitions, "what": contents.what}
    return _own(_HEAD, json.dumps(data, separators=(",", ":")), data)


def end_line(records: int) -> bytes:
    """Return the last line."""
    return _own(_END, f"{_END}\x1f{records}", {"records": records})


def left_out_line(damage: Damage) -> bytes:
    """Return the line that replaces damaged records."""
    data = {"topic": damage.partition.topic, "partition": damage.partition.number, "offset": damage.offset}
    if damage.records > 1:
        data["records"] = damage.records
    return _own(_LEFT_OUT, f"{_LEFT_OUT}\x1f{damage}", data)


def _own(kind: str, identity: str, data: Mapping[str, Any]) -> bytes:
    """Return a line that describes the export: an event whose id is the digest of a text."""
    event = {"specversion": "1.0", "id": digest(identity.encode()), "source": "lahar/export", "type": kind, "data": data}
    return json.dumps(event, separators=(",", ":")).encode()


def record_line(record: Record) -> bytes:
    """Return the line of a record."""
    metadata: dict[str, Any] = {"topic": record.partition.topic, "partition": record.partition.number, "offset": record.offset}
    if record.shard:
        metadata |= {"shard": record.shard, "shardsequence": record.shardsequence, "basis": ".".join(map(str, record.basis))}
    return _event(record.message)[:-1] + b"," + json.dumps(metadata, separators=(",", ":")).encode()[1:]


def _event(message: Message) -> bytes:
    try:
        line = to_cloudevent(message)
        if b"\n" not in line and message.type != _KEPT and from_cloudevent(line, 0) == message:
            return line
    except (UndecodableError, ValueError, OverflowError):
        pass  # not a canonical event, so the message is stored as bytes
    kept = message._asdict() | {"data": base64.b64encode(message.data).decode()}
    return _own(_KEPT, json.dumps(kept), kept)


class LeftOut(NamedTuple):
    """Records left out of an export."""

    records: int


def read_line(line: bytes) -> Record | int | LeftOut:
    """Return the record of a line, the number of records left out, or, for the last line, the number of records.

    Raises:
        ValueError, LookupError, TypeError: the line is none of these.
    """
    fields = from_json(line)
    if fields["type"] == _END:
        return int(fields["data"]["records"])
    if fields["type"] == _LEFT_OUT:
        return LeftOut(int(fields["data"].get("records", 1)))
    if fields["type"] == _KEPT:
        kept = fields["data"]
        message = Message(**(kept | {"data": base64.b64decode(kept["data"], validate=True)}))
        if not all(isinstance(value, type(expected)) for value, expected in zip(message, _BLANK, strict=True)):
            raise ValueError("an attribute of the kept record has the wrong type")
    else:
        message = from_cloudevent(line, 0)
    topic = fields["topic"]
    if topic not in TOPICS:
        raise ValueError(f"there is no topic {topic!r}")
    basis = fields.get("basis", "")
    record = Record(
        Partition(topic, int(fields["partition"])),
        int(fields["offset"]),
        message,
        str(fields.get("shard", "")),
        int(fields.get("shardsequence", 0)),
        tuple(int(end) for end in basis.split(".")) if basis else (),
    )
    if not all(0 <= number <= _LARGEST for number in (record.offset, *record.basis)):
        raise ValueError("an offset is negative or too large")
    if not all(-_LARGEST <= number <= _LARGEST for number in (message.time, message.recordedtime, message.sequence)):
        raise ValueError("a time or sequence is beyond 64 bits")
    return record
