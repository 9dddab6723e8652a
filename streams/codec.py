"""Encoding of messages as Kafka records: CloudEvents 1.0 in binary mode, attributes in headers, data as the value.

| header | content |
|---|---|
| `content-type` | `application/json` |
| `ce_specversion`, `ce_id`, `ce_source`, `ce_type`, `ce_time`, `ce_recordedtime`, `ce_partitionkey` | always present |
| `ce_subject`, `ce_sequence` (20 digits), `ce_correlationid`, `ce_causationid`, `ce_clusterid` | unless empty |
| `lahar_shard`, `lahar_shardsequence`, `lahar_basis` | metadata of a stage's output: shard, sequence number, input offsets |

Records of other producers are decoded in binary and structured mode. Any other record becomes a message without a type, with its
bytes unchanged, and ends as a dead letter. A message that CloudEvents cannot express (not an event, or without id) is encoded in
the header `lahar_message`, so that every message survives the round trip. The value is never empty, because that would be a
tombstone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from pydantic_core import from_json

from engine.events import Message
from engine.events.envelope import new_message
from engine.events.outcomes import DeadLettered
from engine.events.times import EARLIEST, LATEST, format_time, parse_time
from engine.log.port import Vector
from streams import dead_letters

Header = tuple[str, bytes]


class Fields(NamedTuple):
    """Key, value and headers of a record."""

    key: bytes
    value: bytes
    headers: list[Header]


class Metadata(NamedTuple):
    """A record's metadata beside its message; see `engine.log.port.Record`."""

    shard: str = ""
    shardsequence: int = 0
    basis: Vector = ()


_JSON: Final = ("content-type", b"application/json")
_BYTES: Final = ("content-type", b"application/octet-stream")
_VERSION: Final = ("ce_specversion", b"1.0")
_STRUCTURED: Final = b"application/cloudevents"
_OPAQUE: Final = "lahar_message"
_EMPTY: Final = ("lahar_empty", b"1")
_OPAQUE_TYPES: Final = [str] * 5 + [int] * 3 + [str] * 3
_NO_METADATA: Final = Metadata()
_LONGEST_NAME: Final = 200
_SECOND: Final = 1_000_000
_MILLISECOND: Final = 1_000
_LARGEST_SEQUENCE: Final = 2**63 - 1
_SEQUENCE_DIGITS: Final = 20
_TIME_BYTES: Final = len("2026-01-02T03:04:05.000006Z")
_POINT: Final = ord(".")
_ZULU: Final = ord("Z")


def encode(message: Message, shard: str = "", shardsequence: int = 0, basis: Sequence[int] = ()) -> Fields:
    """Encode a message as a record.

    Args:
        message: message to encode.
        shard: shard that writes it; empty for inputs.
        shardsequence: sequence number of the output.
        basis: basis of the output.

    Raises:
        ValueError: a text is not valid Unicode (a lone surrogate).
    """
    (key, ident, source, kind, subject, time, recorded, sequence, correlation, causation, cluster, data) = message
    if not (kind and ident and source) or sequence < 0:
        return _opaque(message, shard, shardsequence, basis)
    content_type, value, extra = _JSON, data, None
    if kind == DeadLettered.TYPE and (original := dead_letters.unpack(key, data)) is not None:
        content_type, value, extra = _BYTES, *original
    named, at = key.encode(), _time(time)
    headers = [
        content_type,
        _VERSION,
        ("ce_id", ident.encode()),
        ("ce_source", source.encode()),
        ("ce_type", _text(kind)),
        ("ce_time", at),
        ("ce_recordedtime", at if recorded == time else _time(recorded)),
        ("ce_partitionkey", named),
    ]
    add = headers.append
    if subject:
        add(("ce_subject", subject.encode()))
    if sequence:
        add(("ce_sequence", b"%020d" % sequence))
    if correlation or subject:  # written even if empty: its default is the subject
        add(("ce_correlationid", correlation.encode()))
    if causation:
        add(("ce_causationid", causation.encode()))
    if cluster:
        add(("ce_clusterid", cluster.encode()))
    if not EARLIEST <= time <= LATEST:
        add(("lahar_time", b"%d" % time))
    if not EARLIEST <= recorded <= LATEST:
        add(("lahar_recordedtime", b"%d" % recorded))
    if extra:
        headers += extra
    if not value:
        value = b"null"
        add(_EMPTY)
    if shard:
        headers += _metadata(shard, shardsequence, basis)
    return Fields(named, value, headers)


def _opaque(message: Message, shard: str, shardsequence: int, basis: Sequence[int]) -> Fields:
    attributes = json.dumps(message[:-1], ensure_ascii=False, separators=(",", ":")).encode()
    headers: list[Header] = [_BYTES, (_OPAQUE, attributes)]
    if not message.data:
        headers.append(_EMPTY)
    if shard:
        headers += _metadata(shard, shardsequence, basis)
    return Fields(message.key.encode(), message.data or b"null", headers)


def _metadata(shard: str, shardsequence: int, basis: Sequence[int]) -> list[Header]:
    return [
        ("lahar_shard", _text(shard)),
        ("lahar_shardsequence", b"%d" % shardsequence),
        ("lahar_basis", _numbers(len(basis)) % tuple(basis)),
    ]


def decode(key: bytes | None, value: bytes | None, headers: Iterable[Header], timestamp: int) -> tuple[Message, Metadata]:
    """Decode a record's message and metadata.

    Args:
        key: key of the record; `None` if it has none.
        value: value of the record; `None` is read as empty.
        headers: headers of the record; the last one of a name wins.
        timestamp: append time (milliseconds), used where the record has no time of its own.

    Returns:
        The message and metadata. The message has no type if the record is not an event in binary mode; if the record claims to be
        one,
            `source` has the reason.
    """
    found = dict(headers)
    try:
        return _decode(key, value, found, timestamp)
    except (AttributeError, TypeError):
        # Headers without a value count as absent; filtering them only after an error is cheaper.
        if None not in found.values():
            raise
        return _decode(key, value, {name: held for name, held in found.items() if held is not None}, timestamp)


def _decode(key: bytes | None, value: bytes | None, found: Mapping[str, bytes], timestamp: int) -> tuple[Message, Metadata]:
    data = value or b""
    if _EMPTY[0] in found:
        data = b""
    metadata = _read_metadata(found) if "lahar_shard" in found else _NO_METADATA
    if "ce_specversion" not in found:
        return _without_attributes(key, data, found, timestamp), metadata
    try:
        return _from_headers(key, data, found, timestamp), metadata
    except ValueError as error:
        text, at = _key(key), timestamp * _MILLISECOND
        return Message(text, "", str(error), "", text, at, at, 0, text, "", "", data), metadata


def _read_metadata(found: Mapping[str, bytes]) -> Metadata:
    try:
        basis = found["lahar_basis"]
        vector = tuple(map(int, basis.split(b","))) if basis else ()
        return Metadata(_name(found["lahar_shard"]), int(found["lahar_shardsequence"]), vector)
    except (KeyError, ValueError):
        # Invalid metadata of another producer: not an output of a stage.
        return _NO_METADATA


def _from_headers(key: bytes | None, data: bytes, found: Mapping[str, bytes], timestamp: int) -> Message:
    get = found.get
    kind = _name(get("ce_type", b""))
    ident, source = get("ce_id", b"").decode(), _name(get("ce_source", b""))
    if found["ce_specversion"] != b"1.0":
        raise ValueError("not a CloudEvent 1.0: another specversion")
    if not (ident and source and kind):
        absent = next(name for name, text in (("id", ident), ("source", source), ("type", kind)) if not text)
        raise ValueError(f"not a CloudEvent 1.0: {absent} is missing or empty")
    recorded = _micros(get, "ce_recordedtime", "lahar_recordedtime", timestamp * _MILLISECOND)
    # Fast path: both times of many records are equal.
    same = get("ce_time") == get("ce_recordedtime") and "lahar_time" not in found and "lahar_recordedtime" not in found
    text = "" if key is None else _key(key)
    # Key, subject and correlation id of most records are equal, and then share one string.
    named = get("ce_subject", b"")
    subject = text if named == key and named.isascii() else named.decode()
    given = get("ce_correlationid")
    correlation = subject if given is None or given == named else given.decode()
    if "__connect.errors.topic" in found and kind == DeadLettered.TYPE:
        data = dead_letters.pack(text, data, found)
    sequence = get("ce_sequence")
    return new_message(
        (
            get("ce_partitionkey", correlation.encode()).decode() if key is None else text,
            ident,
            source,
            kind,
            subject,
            recorded if same else _micros(get, "ce_time", "lahar_time", recorded),
            recorded,
            0 if sequence is None else _sequence(sequence),
            correlation,
            get("ce_causationid", b"").decode(),
            _name(get("ce_clusterid", b"")),
            data,
        )
    )


def _without_attributes(key: bytes | None, data: bytes, found: Mapping[str, bytes], timestamp: int) -> Message:
    if (opaque := found.get(_OPAQUE)) is not None and (message := _read_opaque(opaque, data)) is not None:
        return message
    text = _key(key)
    at = timestamp * _MILLISECOND
    # A message in structured mode keeps the received bytes; its reader decodes them.
    reason = (
        "" if not found.get("content-type", b"").startswith(_STRUCTURED + b"-batch") else "a batch of CloudEvents in one record"
    )
    return Message(text, "", reason, "", text, at, at, 0, text, "", "", data)


def _read_opaque(attributes: bytes, data: bytes) -> Message | None:
    """Decode an opaque message; `None` if another producer wrote the header."""
    try:
        # `json` would accept lone surrogates, and fail on deep nesting.
        fields = from_json(attributes)
    except ValueError:
        return None
    if not isinstance(fields, list) or [type(value) for value in fields] != _OPAQUE_TYPES:
        return None
    return Message._make([*fields, data])


def _key(key: bytes | None) -> str:
    return "" if key is None else key.decode(errors="backslashreplace")


def _micros(get: Callable[[str], bytes | None], name: str, exactly: str, otherwise: int) -> int:
    if (exact := get(exactly)) is not None:
        return int(exact)
    text = get(name)
    if text is None:
        return otherwise
    if len(text) == _TIME_BYTES and text[19] == _POINT and text[26] == _ZULU and (rest := text[20:26]).isdigit():
        return _micros_of_second(text[:19]) + int(rest)
    return parse_time(text.decode())


@lru_cache(maxsize=4_096)
def _micros_of_second(text: bytes) -> int:
    if text[16:17] != b":":
        raise ValueError(f"{text!r} is no time in seconds")
    return parse_time(f"{text.decode()}Z")


def _sequence(text: bytes) -> int:
    if len(text) <= _SEQUENCE_DIGITS and text.isdigit() and (number := int(text)) <= _LARGEST_SEQUENCE:
        return number
    raise ValueError(f"sequence {text[:40]!r} is not a whole number below 2**63")


def _time(micros: int) -> bytes:
    if not EARLIEST <= micros <= LATEST:
        return format_time(micros).encode()
    second, rest = divmod(micros, _SECOND)
    return b"%b%06dZ" % (_until_seconds(second), rest)


@lru_cache(maxsize=4_096)
def _until_seconds(second: int) -> bytes:
    # Cached, because many records share a second: formatting takes 1.5 µs.
    return format_time(second * _SECOND)[: -len("000000Z")].encode()


@lru_cache(maxsize=1_024)
def _numbers(count: int) -> bytes:
    return b",".join([b"%d"] * count)


@lru_cache(maxsize=1_024)
def _text(name: str) -> bytes:
    return name.encode()


def _name(text: bytes) -> str:
    # A long name is not one of Lahar's, and would fill the cache.
    return interned(text) if len(text) <= _LONGEST_NAME else text.decode()


@lru_cache(maxsize=1_024)
def interned(text: bytes) -> str:
    """Return a short text; the last thousand of them are kept."""
    return text.decode()
