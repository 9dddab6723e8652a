"""The envelope of events, and its form in a log.

Stages decide and evolve on `Event`; `Message` is the same with its data as JSON bytes, as logs store it: CloudEvents 1.0 in binary
mode (attributes beside the data). `to_cloudevent` and `from_cloudevent` are the structured mode of `lahar export`, `lahar ingest`
and subscribers.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast

from msgspec.json import Encoder
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, SchemaValidator, from_json, to_json

from engine.events.bounds import NAME_CHARACTERS
from engine.events.errors import UndecodableError, UnknownTypeError, is_interrupt
from engine.events.fast_decoder import REFUSED, fast_decoder, has_any
from engine.events.times import format_time, parse_time
from engine.events.vocabulary import INPUT_TOPICS, TYPES, UPCASTERS, Data, adapter

DataT_co = TypeVar("DataT_co", bound=Data, covariant=True)


@dataclass(slots=True)
class Event(Generic[DataT_co]):
    """One fact: CloudEvents' attributes and its data."""

    id: str
    source: str
    """Producer: `lahar/lifecycle`, `kubernetes/CLUSTER`, `import/FORMAT/CLUSTER`, `command/USER`."""
    type: str
    subject: str
    """Job id; for events without a job the cluster, the shard (`lifecycle/0`) or the callback (`callback/NAME`)."""
    time: int
    """When it happened (microseconds)."""
    recordedtime: int
    """When Lahar recorded it (microseconds); never falls within a shard."""
    sequence: int
    """Position within (topic, subject), gapless from 1; 0 for inputs, which have none."""
    correlationid: str
    """Job id; empty for events without a job."""
    causationid: str
    """Id of the direct cause; empty for inputs."""
    clusterid: str
    data: DataT_co


class Message(NamedTuple):
    """One record as logs store it: the key that chooses its partition, CloudEvents' attributes, the data as JSON.

    A message with an empty `type` was received without attributes: its `data` are the received bytes (structured mode, or garbage),
    unchanged.
    """

    key: str
    id: str
    source: str
    type: str
    subject: str
    time: int
    recordedtime: int
    sequence: int
    correlationid: str
    causationid: str
    clusterid: str
    data: bytes


new_message: Final = cast(
    "Callable[[tuple[str, str, str, str, str, int, int, int, str, str, str, bytes]], Message]", partial(tuple.__new__, Message)
)
"""Makes a `Message` of all its fields, twice as fast as a named tuple's own constructor, which is a Python function."""

_ATTRIBUTE_CHARACTERS: Final = 8 * NAME_CHARACTERS
"""Characters of an input's attributes together."""
_LONGEST_NAME: Final = 2 * NAME_CHARACTERS
"""Characters of an input's id, subject, source and cluster each; every event caused by it repeats them several times."""
SMALL: Final = _LONGEST_NAME
"""Bytes of a message that keeps the bounds of every type."""
_SEQUENCE_DIGITS: Final = 20
_LARGEST_SEQUENCE: Final = 2**63 - 1  # the largest integer that a log can store

_ATTRIBUTES: Final = frozenset(
    {
        "specversion",
        "id",
        "source",
        "type",
        "subject",
        "time",
        "recordedtime",
        "sequence",
        "correlationid",
        "causationid",
        "clusterid",
        "partitionkey",
        "datacontenttype",
        "data",
        "data_base64",
    }
)


def raw_message(key: str, content: bytes, recordedtime: int, *, fault: str = "", cluster: str = "") -> Message:
    """Wrap unreadable bytes as received, so that the shard that takes them dead-letters them with their origin.

    Args:
        key: chooses the partition.
        content: the bytes.
        recordedtime: microseconds.
        fault: why they could not be read, if that was tried; it is kept in `source` and becomes the dead letter's reason.
        cluster: their cluster.
    """
    return Message(key, "", fault, "", key, recordedtime, recordedtime, 0, key, "", cluster, content)


_ENCODER: Final = Encoder()
# Straight to pydantic's core: the adapter's own methods cost as much again on events of this size.
_WRITERS: Final[dict[type[Data], Callable[[Data], bytes]]] = {}
_READERS: Final[dict[type[Data], Callable[[bytes], Data]]] = {}


def _json(data: Data) -> bytes:
    """Return data as JSON. `Encoder.encode` leaves the room that it grew to with the bytes, a third more in memory."""
    buffer = bytearray()
    _ENCODER.encode_into(data, buffer)
    return bytes(buffer)


def _by_pydantic(cls: type[Data]) -> Callable[[Data], bytes]:
    return partial(adapter(cls).serializer.to_json, exclude_defaults=True)


def _input_json(data: Data) -> bytes:
    # Of an input, and of the pod within a deletion, msgspec writes `arrived` last; it refuses subclasses of text and numbers,
    # such as NumPy's from a program.
    stated = any(getattr(one, "arrived", None) is not None for one in (data, getattr(data, "last", None)))
    try:
        return _by_pydantic(type(data))(data) if stated else _json(data)
    except TypeError:
        return _by_pydantic(type(data))(data)


def _writer(cls: type[Data]) -> Callable[[Data], bytes]:
    # Of arbitrary JSON msgspec writes some numbers otherwise.
    found = _by_pydantic(cls) if has_any(cls) else _input_json if cls.TOPIC in INPUT_TOPICS else _json
    _WRITERS[cls] = found
    return found


def _validated(cls: type[Data], content: bytes) -> Data:
    data: Data = cast("SchemaValidator", adapter(cls).validator).validate_json(content, strict=True)
    return data


def _reader(cls: type[Data]) -> Callable[[bytes], Data]:
    decoder = fast_decoder(cls)

    def read_fast(content: bytes) -> Data:
        try:
            return decoder(content)  # type: ignore[misc]  # there is one
        except REFUSED:
            return _validated(cls, content)

    found = _READERS[cls] = partial(_validated, cls) if decoder is None else read_fast
    return found


def encode(event: Event[Data], key: str | None = None) -> Message:
    """Return the event as logs store it. The key is the correlation id (the job) unless given."""
    data = event.data
    cls = type(data)
    write = _WRITERS.get(cls) or _writer(cls)
    try:
        content = write(data)
    except PydanticSerializationError as error:
        if is_interrupt(error):
            raise KeyboardInterrupt from error
        raise
    return new_message(
        (
            event.correlationid if key is None else key,
            event.id,
            event.source,
            event.type,
            event.subject,
            event.time,
            event.recordedtime,
            event.sequence,
            event.correlationid,
            event.causationid,
            event.clusterid,
            content,
        )
    )


def _check_bounds(message: Message, largest: int) -> None:
    (key, ident, source, kind, subject, _, _, _, correlation, causation, cluster, content) = message
    if len(content) > largest:
        raise UndecodableError(f"{kind}: {len(content):,} bytes of data, more than the {largest:,} that it may have")
    if len(f"{key}{ident}{source}{subject}{correlation}{causation}{cluster}") > _ATTRIBUTE_CHARACTERS:
        raise UndecodableError(f"{kind}: its attributes have more than {_ATTRIBUTE_CHARACTERS:,} characters together")
    if max(map(len, (ident, subject, source, cluster))) > _LONGEST_NAME:
        raise UndecodableError(f"its id, subject, source or clusterid is longer than {_LONGEST_NAME:,} characters")


def decode(message: Message, *, bounded: bool = True) -> Event[Data]:
    """Return the event that a message holds, upcast to the current version of its type.

    Args:
        message: the message.
        bounded: check the size: it is an input not yet taken.

    Raises:
        UndecodableError: the data are no JSON or break the schema of the type (the text names the field), or an input exceeds the
            size of its type.
        UnknownTypeError: the type is not in the vocabulary.
    """
    cls = TYPES.get(message.type)
    if cls is None:
        message = _upcast(message) if message.type else _unwrapped(message)
        cls = TYPES[message.type]
    read = _READERS.get(cls) or _reader(cls)
    (_, ident, source, kind, subject, time, recorded, sequence, correlation, causation, cluster, content) = message
    if bounded and cls.TOPIC in INPUT_TOPICS:
        _check_bounds(message, cls.LARGEST)
    try:
        data = read(content)
    except ValidationError as error:
        raise UndecodableError(f"{kind}: {_first_fault(error)}") from None
    return Event(ident, source, kind, subject, time, recorded, sequence, correlation, causation, cluster, data)


def _unwrapped(message: Message) -> Message:
    """Return the message contained in the data of one without attributes."""
    if message.source:
        raise UndecodableError(message.source)
    found = from_cloudevent(message.data, message.recordedtime)
    return found if found.type in TYPES else _upcast(found)


def _upcast(message: Message) -> Message:
    name = message.type
    if name not in UPCASTERS:
        raise UnknownTypeError(name)
    try:
        data = from_json(message.data)
        while name in UPCASTERS:
            name, function = UPCASTERS[name]
            data = function(data)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise UndecodableError(f"{message.type}: cannot be read as {name}: {error}") from None
    return message._replace(type=name, data=json.dumps(data).encode())


def _first_fault(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"]) or "data"
    return f"{place}: {first['msg']}"


def to_cloudevent(message: Message) -> bytes:
    """Write a message in CloudEvents' structured mode: one line of canonical JSON without the line's end.

    Attributes have a fixed order, without empty ones. Data that are not canonical JSON, or were received without attributes, become
    `data_base64`, so that `from_cloudevent` restores every message with a type unchanged.
    """
    fields: dict[str, Any] = {"specversion": "1.0"}
    if message.type:
        fields |= {"id": message.id, "source": message.source, "type": message.type}
        if message.subject:
            fields["subject"] = message.subject
        fields |= {"time": format_time(message.time), "recordedtime": format_time(message.recordedtime)}
        if message.sequence:
            fields["sequence"] = f"{message.sequence:0{_SEQUENCE_DIGITS}d}"
        if message.correlationid or message.subject:  # a reader would take the subject for one that is absent
            fields["correlationid"] = message.correlationid
        if message.causationid:
            fields["causationid"] = message.causationid
        if message.clusterid:
            fields["clusterid"] = message.clusterid
    else:
        fields |= {"recordedtime": format_time(message.recordedtime)}
    if message.key != message.correlationid:
        fields["partitionkey"] = message.key
    head = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))[:-1].encode()
    try:
        if message.type and to_json(from_json(message.data, allow_inf_nan=False), inf_nan_mode="constants") == message.data:
            return head + b',"datacontenttype":"application/json","data":' + message.data + b"}"
    except ValueError:
        pass
    return head + b',"data_base64":"' + base64.b64encode(message.data) + b'"}'


def from_cloudevent(content: bytes, recordedtime: int) -> Message:
    """Read one CloudEvent in structured mode.

    Args:
        content: the JSON object.
        recordedtime: recorded time of the message if the event has none (microseconds).

    Raises:
        UndecodableError: the bytes are no JSON object, a required attribute is missing, or one is no string or time.
    """
    try:
        fields = from_json(content, allow_inf_nan=False)
    except ValueError as error:
        raise UndecodableError(f"not JSON: {error}") from None
    if not isinstance(fields, dict) or fields.get("specversion") != "1.0":
        raise UndecodableError("not a CloudEvent 1.0: no specversion")
    for name in ("id", "source", "type"):
        if not isinstance(fields.get(name), str) or not fields[name]:
            raise UndecodableError(f"not a CloudEvent 1.0: {name} is missing or empty")
    for name, value in fields.items():
        if name in _ATTRIBUTES and name != "data" and not isinstance(value, str):
            raise UndecodableError(f"CloudEvent attribute {name} is not a string")
    try:
        recorded = parse_time(fields["recordedtime"]) if "recordedtime" in fields else recordedtime
        happened = parse_time(fields["time"]) if "time" in fields else recorded
        sequence = _sequence(fields.get("sequence", "0"))
        if "data_base64" in fields:
            data = base64.b64decode(fields["data_base64"], validate=True)
        else:
            data = to_json(fields.get("data", {}), inf_nan_mode="constants")
    except ValueError as error:
        raise UndecodableError(f"CloudEvent {fields['id']}: {error}") from None
    subject: str = fields.get("subject", "")
    correlation: str = fields.get("correlationid", subject)
    return Message(
        fields.get("partitionkey", correlation),
        fields["id"],
        fields["source"],
        fields["type"],
        subject,
        happened,
        recorded,
        sequence,
        correlation,
        fields.get("causationid", ""),
        fields.get("clusterid", ""),
        data,
    )


def _sequence(text: str) -> int:
    if len(text) <= _SEQUENCE_DIGITS and text.isascii() and text.isdigit() and int(text) <= _LARGEST_SEQUENCE:
        return int(text)
    raise ValueError(f"sequence {text[:40]!r} is not a whole number below 2**63")
