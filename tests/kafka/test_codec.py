"""Every message comes back from Kafka as it was; other producers' records are read as CloudEvents says, or set aside untouched."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from asyncapi import asyncapi
from cloudevents.core.bindings import kafka
from cloudevents.core.v1.event import CloudEvent
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from on_kafka import HEADERS, LETTER_HEADERS
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from engine.events import TYPES, Event, Message, UndecodableError, raw_message, to_cloudevent
from engine.events import decode as decode_event
from engine.events import encode as encode_event
from engine.events.examples import example as example_of
from engine.events.inputs import NodeObserved
from engine.events.outcomes import DeadLettered
from engine.events.schema import SCHEMA_BASE, json_schemas
from engine.events.times import EARLIEST, LATEST
from engine.events.vocabulary import INPUT_TOPICS
from engine.log.port import Partition, Record, ShardId
from engine.processor.dead_letters import dead_letter, too_large
from streams import codec
from streams.codec import Fields, Metadata, decode, encode

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
names = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=20)
times = st.integers(min_value=-(2**62), max_value=2**62)
messages = st.builds(
    Message, texts, texts, texts, texts, texts, times, times, st.integers(0, 2**63 - 1), texts, texts, texts, st.binary(max_size=60)
)
events = st.builds(
    Message,
    texts,
    names,
    names,
    names,
    texts,
    st.integers(EARLIEST, LATEST),
    st.integers(EARLIEST, LATEST),
    st.integers(0, 2**63 - 1),
    texts,
    texts,
    texts,
    st.just(b'{"a":1}'),
)
NODE = encode_event(
    Event("i", "s", NodeObserved.TYPE, "n", 1_500_000, 2_500_000, 0, "", "", "c1", NodeObserved("n", cpu_milli=1)), "c1"
)
BINARY = {"ce_specversion": b"1.0", "ce_id": b"i", "ce_source": b"s", "ce_type": b"t"}
AT = 1_700_000_000_000


def back(fields: Fields) -> Message:
    return decode(*fields, AT)[0]


@given(messages | events)
@example(NODE._replace(time=LATEST + 1, recordedtime=LATEST + 2))
@example(NODE._replace(time=LATEST, recordedtime=LATEST + 1))
@example(NODE._replace(time=LATEST + 1, recordedtime=LATEST))
def test_a_message_comes_back_as_it_was(message: Message) -> None:
    assert back(encode(message)) == message


@given(events, names, st.integers(1, 2**40), st.lists(st.integers(0, 2**40), max_size=5))
def test_metadata_come_back_and_are_no_part_of_the_message(message: Message, shard: str, sequence: int, basis: list[int]) -> None:
    assert decode(*encode(message, shard, sequence, basis), AT) == (message, Metadata(shard, sequence, tuple(basis)))


@given(messages)
def test_a_value_is_never_empty(message: Message) -> None:
    assert encode(message).value


def test_the_headers_of_an_event() -> None:
    message = NODE._replace(sequence=17, correlationid="job", causationid="before", subject="job", key="job")
    key, value, headers = encode(message, "lifecycle/3", 9, (4, 0, 7))
    assert (key, value) == (b"job", message.data)
    assert dict(headers) == {
        "content-type": b"application/json",
        "ce_specversion": b"1.0",
        "ce_id": b"i",
        "ce_source": b"s",
        "ce_type": NodeObserved.TYPE.encode(),
        "ce_subject": b"job",
        "ce_time": b"1970-01-01T00:00:01.500000Z",
        "ce_recordedtime": b"1970-01-01T00:00:02.500000Z",
        "ce_sequence": b"00000000000000000017",
        "ce_correlationid": b"job",
        "ce_causationid": b"before",
        "ce_clusterid": b"c1",
        "ce_partitionkey": b"job",
        "lahar_shard": b"lifecycle/3",
        "lahar_shardsequence": b"9",
        "lahar_basis": b"4,0,7",
    }


def test_an_unwritable_time_stands_beside_the_nearest_writable_one() -> None:
    headers = dict(encode(NODE._replace(time=EARLIEST - 1, recordedtime=LATEST + 5)).headers)
    assert (headers["ce_time"], headers["lahar_time"]) == (b"0001-01-01T00:00:00.000000Z", b"%d" % (EARLIEST - 1))
    assert (headers["ce_recordedtime"], headers["lahar_recordedtime"]) == (b"9999-12-31T23:59:59.999999Z", b"%d" % (LATEST + 5))


def test_the_headers_of_what_is_no_event() -> None:
    """Records stay; what they are called must, too."""
    message = raw_message("ü", b"", 7)
    fields = encode(message, "lifecycle/3", 9, (4, 0))
    assert fields == Fields(
        "ü".encode(),
        b"null",
        [
            ("content-type", b"application/octet-stream"),
            ("lahar_message", '["ü","","","","ü",7,7,0,"ü","",""]'.encode()),
            ("lahar_empty", b"1"),
            ("lahar_shard", b"lifecycle/3"),
            ("lahar_shardsequence", b"9"),
            ("lahar_basis", b"4,0"),
        ],
    )
    assert decode(*fields, AT) == (message, Metadata("lifecycle/3", 9, (4, 0)))


@pytest.mark.parametrize(
    ("message", "opaque"),
    [
        (NODE, False),
        (NODE._replace(id=""), True),
        (NODE._replace(source=""), True),
        (NODE._replace(type=""), True),
        (NODE._replace(sequence=-1), True),
    ],
)
def test_what_cloudevents_cannot_express_comes_back_too(message: Message, opaque: bool) -> None:
    fields = encode(message)
    assert ("lahar_message" in dict(fields.headers)) == opaque
    assert ("ce_specversion" in dict(fields.headers)) != opaque
    assert back(fields) == message


def test_a_text_that_is_no_unicode_is_refused() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        encode(NODE._replace(subject="\ud800"))


# --- against the cloudevents package -----------------------------------------------------------------------------------------


def test_the_cloudevents_package_reads_what_we_write() -> None:
    message = NODE._replace(sequence=17, correlationid="job", causationid="before")
    fields = encode(message, "lifecycle/0", 1, (1,))
    event = kafka.from_binary_event(kafka.KafkaMessage(dict(fields.headers), fields.key, fields.value))
    assert (event.get_id(), event.get_source(), event.get_type(), event.get_subject()) == ("i", "s", NodeObserved.TYPE, "n")
    assert event.get_time().isoformat() == "1970-01-01T00:00:01.500000+00:00"
    assert event.get_data() == json.loads(message.data)
    found = {name: event.get_extension(name) for name in ("partitionkey", "correlationid", "causationid", "clusterid", "sequence")}
    assert found == {
        "partitionkey": "c1",
        "correlationid": "job",
        "causationid": "before",
        "clusterid": "c1",
        "sequence": "00000000000000000017",
    }


def test_the_cloudevents_package_reads_what_we_export_in_structured_mode() -> None:
    message = NODE._replace(sequence=17, correlationid="job", causationid="before")
    event = kafka.from_structured_event(
        kafka.KafkaMessage({"content-type": b"application/cloudevents+json"}, None, to_cloudevent(message))
    )
    assert (event.get_id(), event.get_source(), event.get_type(), event.get_subject()) == ("i", "s", NodeObserved.TYPE, "n")
    assert event.get_data() == json.loads(message.data)
    found = {name: event.get_extension(name) for name in ("correlationid", "causationid", "clusterid", "sequence", "recordedtime")}
    assert found == {
        "correlationid": "job",
        "causationid": "before",
        "clusterid": "c1",
        "sequence": "00000000000000000017",
        "recordedtime": "1970-01-01T00:00:02.500000Z",
    }


def _foreign() -> CloudEvent:
    attributes: dict[str, Any] = {
        "id": "i",
        "source": "s",
        "type": NodeObserved.TYPE,
        "subject": "n",
        "specversion": "1.0",
        "datacontenttype": "application/json",
        "partitionkey": "c1",
        "correlationid": "",
        "clusterid": "c1",
        "time": datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC),
        "recordedtime": "1970-01-01T00:00:02.5Z",
    }
    return CloudEvent(attributes, json.loads(NODE.data))


def test_we_read_the_binary_mode_of_the_cloudevents_package() -> None:
    made = kafka.to_binary_event(_foreign())
    found, metadata = decode(str(made.key).encode(), made.value, list(made.headers.items()), AT)
    assert decode_event(found) == decode_event(NODE)
    assert (found._replace(data=b""), metadata) == (NODE._replace(data=b""), Metadata())


def test_we_read_the_structured_mode_of_the_cloudevents_package() -> None:
    made = kafka.to_structured_event(_foreign())
    found, _ = decode(str(made.key).encode(), made.value, list(made.headers.items()), AT)
    assert (found.type, found.data) == ("", made.value)
    assert decode_event(found) == decode_event(NODE)


# --- other producers ---------------------------------------------------------------------------------------------------------


def test_what_a_binary_record_does_not_say_follows_from_the_record() -> None:
    headers = list((BINARY | {"ce_subject": b"job"}).items())
    at = AT * 1000
    assert decode(None, b"{}", headers, AT)[0] == Message("job", "i", "s", "t", "job", at, at, 0, "job", "", "", b"{}")
    assert decode(b"key", b"{}", headers, AT)[0].key == "key"


def test_a_time_without_a_recorded_time_is_recorded_when_it_was_appended() -> None:
    found, _ = decode(b"k", b"{}", list((BINARY | {"ce_time": b"2017-08-07T10:00:00Z"}).items()), AT)
    assert (found.time, found.recordedtime) == (1_502_100_000_000_000, AT * 1000)


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ({"ce_specversion": b"0.3"}, "another specversion"),
        ({"ce_id": b""}, "id is missing or empty"),
        ({"ce_type": b""}, "type is missing or empty"),
        ({"ce_time": b"yesterday"}, "yesterday"),
        ({"ce_sequence": b"-1"}, "not a whole number"),
        ({"ce_sequence": b"9" * 20}, "not a whole number"),
        ({"ce_sequence": b"%d" % (2**63)}, "not a whole number"),
        ({"ce_sequence": b"0" * 21}, "not a whole number"),
        ({"ce_subject": b"\xff"}, "utf-8"),
    ],
)
def test_a_broken_attribute_sets_the_record_aside_with_bytes_and_reason(broken: dict[str, bytes], reason: str) -> None:
    found, _ = decode(b"k", b"\x00data", list((BINARY | broken).items()), AT)
    assert (found.key, found.type, found.data, found.recordedtime) == ("k", "", b"\x00data", AT * 1000)
    with pytest.raises(UndecodableError, match=reason):
        decode_event(found)


@pytest.mark.parametrize("value", [None, b"", b"\xff\xfe", b"[]"])
def test_garbage_without_headers_is_kept_as_it_came(value: bytes | None) -> None:
    found, metadata = decode(b"\xff", value, [], AT)
    assert (found, metadata) == (raw_message("\\xff", value or b"", AT * 1000), Metadata())


def test_a_batch_in_one_record_is_no_event() -> None:
    found, _ = decode(b"k", b"[]", [("content-type", b"application/cloudevents-batch+json; charset=utf-8")], AT)
    with pytest.raises(UndecodableError, match="a batch of CloudEvents"):
        decode_event(found)


def test_a_structured_event_without_headers_is_found_too() -> None:
    assert decode_event(decode(b"c1", to_cloudevent(NODE), [], AT)[0]) == decode_event(NODE)


LONE = b'["\\ud800", "", "", "", "", 0, 0, 0, "", "", ""]'
NESTED = b"[" * 200_000


@pytest.mark.parametrize("opaque", [b"{", b"{}", b"[]", b"5", b'["a"]', json.dumps(["a"] * 11).encode(), LONE, NESTED])
def test_a_foreign_opaque_header_makes_garbage(opaque: bytes) -> None:
    assert decode(b"k", b"x", [("lahar_message", opaque)], AT)[0] == raw_message("k", b"x", AT * 1000)


def test_a_foreign_dead_letter_with_endless_attributes_is_garbage() -> None:
    headers = {**BINARY, "ce_type": DeadLettered.TYPE.encode(), "lahar_attributes": NESTED}
    for name in ("topic", "partition", "offset", "exception.message"):
        headers[f"__connect.errors.{name}"] = b"1"
    found, _ = decode(b"k", b"x", list(headers.items()), AT)
    assert (found.type, found.data) == ("", b"x")


def test_long_names_are_read_and_not_kept() -> None:
    source, kept = "s" * 4_000, codec.interned.cache_info().currsize
    for number in range(10):
        found, _ = decode(b"k", b"{}", [*(BINARY | {"ce_source": f"{source}{number}".encode()}).items()], AT)
        assert found.source == f"{source}{number}"
    assert codec.interned.cache_info().currsize < kept + 10


@pytest.mark.parametrize("headers", [{"lahar_shardsequence": b"1"}, {"lahar_shardsequence": b"x", "lahar_basis": b""}])
def test_foreign_metadata_that_make_no_sense_are_none(headers: dict[str, bytes]) -> None:
    assert decode(b"k", b"x", list((headers | {"lahar_shard": b"lifecycle/0"}).items()), AT)[1] == Metadata()


# --- dead letters ------------------------------------------------------------------------------------------------------------


def _letter(content: bytes, key: str = "job") -> Message:
    record = Record(Partition("pods", 3), 42, raw_message(key, content, 5, fault="not JSON"))
    return encode_event(dead_letter(ShardId("lifecycle", 3), record, "not JSON: line 1 — ü", 7, 1), key)


def test_a_dead_letter_holds_the_original_bytes_and_says_where_they_stood() -> None:
    letter = _letter(b"\x00garbage")
    fields = encode(letter, "lifecycle/3", 8, (43, 0))
    headers = dict(fields.headers)
    assert (fields.key, fields.value) == (b"job", b"\x00garbage")
    errors = {name: value for name, value in headers.items() if name.startswith("__connect.errors.")}
    assert errors == {
        "__connect.errors.topic": b"pods",
        "__connect.errors.partition": b"3",
        "__connect.errors.offset": b"42",
        "__connect.errors.stage": b"VALUE_CONVERTER",
        "__connect.errors.exception.message": "not JSON: line 1 — ü".encode(),
    }
    assert back(fields) == letter


@given(st.binary(max_size=40), texts)
def test_a_dead_letter_comes_back_as_it_was(content: bytes, key: str) -> None:
    letter = _letter(content, key)
    fields = encode(letter)
    assert back(fields) == letter
    assert fields.value == (content or letter.data)


def test_a_dead_letter_in_another_form_is_written_as_all_events_are() -> None:
    letter = _letter(b"x")
    spaced = letter._replace(data=json.dumps(json.loads(letter.data)).encode())
    broken = letter._replace(data=letter.data.replace(base64.b64encode(b"x"), b"?"))
    for message in (spaced, broken, letter._replace(key="another")):
        fields = encode(message)
        assert fields.value == message.data
        assert back(fields) == message


def test_a_foreign_dead_letter_without_its_origin_is_set_aside() -> None:
    fields = encode(_letter(b"x"))
    headers = [(name, value) for name, value in fields.headers if name != "__connect.errors.offset"]
    found, _ = decode(fields.key, fields.value, headers, AT)
    assert (found.type, found.data) == ("", b"x")
    assert "__connect.errors.offset" in found.source


ABSENT = [
    *(name for name in BINARY if name != "ce_specversion"),
    "content-type",
    "ce_time",
    "ce_sequence",
    "lahar_shard",
    "lahar_message",
]


@pytest.mark.parametrize("name", ABSENT)
def test_a_header_without_a_value_is_read_as_one_that_is_absent(name: str) -> None:
    without = [header for header in BINARY.items() if header[0] != name]
    absent: Any = (name, None)
    assert decode(b"k", b"{}", [*without, absent], AT) == decode(b"k", b"{}", without, AT)


def test_a_version_without_a_value_sets_the_record_aside() -> None:
    absent: Any = ("ce_specversion", None)
    assert decode(b"k", b"{}", [*BINARY.items(), absent], AT)[0].type == ""


def test_a_subject_that_is_not_text_sets_the_record_aside_though_it_is_key() -> None:
    headers = [*((name, value) for name, value in BINARY.items() if name != "ce_subject"), ("ce_subject", b"\xff")]
    assert decode(b"\xff", b"{}", headers, AT)[0].type == ""


@pytest.mark.parametrize(
    "time",
    [
        b"20260102T030405.123.456789Z",
        b"2026-01-02T03:04+01.123456Z",
        b"2026-01-02T03:04:05.00000\xb2Z",
        b"2026-01-02T03:04:05x000006Z",
    ],
)
def test_a_time_that_only_looks_like_ours_is_none(time: bytes) -> None:
    headers = [*((name, value) for name, value in BINARY.items() if name != "ce_time"), ("ce_time", time)]
    assert decode(b"k", b"{}", headers, AT)[0].type == ""


# --- against the documents that subscribers read -----------------------------------------------------------------------------

DOCUMENT = asyncapi()
SCHEMAS: Registry[Any] = Registry().with_resources(
    [
        ("urn:asyncapi", DRAFT202012.create_resource(DOCUMENT)),
        *((schema["$id"], DRAFT202012.create_resource(schema)) for schema in json_schemas().values()),
    ]
)


def faults(fields: Fields, name: str) -> list[str]:
    """What a client made from the AsyncAPI document would have against a record as the message of that name."""
    told = DOCUMENT["components"]["messages"][name]
    headers = {header: value.decode() for header, value in fields.headers}
    # No other headers than those that are told of.
    schema: dict[str, Any] = {"$ref": f"urn:asyncapi#/components/messages/{name}/headers", "unevaluatedProperties": False}
    found = [error.message for error in Draft202012Validator(schema, registry=SCHEMAS).iter_errors(headers)]
    if headers["content-type"] != told["contentType"]:
        return [*found, f"content type {headers['content-type']}"]
    if told["contentType"] == DOCUMENT["defaultContentType"]:
        schema = {"$ref": told["payload"]["schema"]["$ref"].replace("./schemas/", SCHEMA_BASE)}
        found += [error.message for error in Draft202012Validator(schema, registry=SCHEMAS).iter_errors(json.loads(fields.value))]
    return found


def record_of(name: str) -> Fields:
    event = example_of(name)
    message = encode_event(event, event.correlationid or event.subject)
    return encode(message) if TYPES[name].TOPIC in INPUT_TOPICS else encode(message, "lifecycle/0", 9, (4, 0, 7))


@pytest.mark.parametrize("name", sorted(TYPES))
def test_a_client_made_from_the_asyncapi_document_reads_every_type(name: str) -> None:
    assert faults(record_of(name), name) == []


def test_a_client_made_from_the_asyncapi_document_refuses_other_records() -> None:
    opened = record_of("lahar.job.opened.v1")
    assert faults(opened, "lahar.job.forgotten.v1")
    assert faults(opened._replace(value=b"{}"), "lahar.job.opened.v1")
    assert faults(opened._replace(headers=[header for header in opened.headers if header[0] != "ce_id"]), "lahar.job.opened.v1")
    assert faults(opened._replace(headers=[*opened.headers, ("ce_new", b"")]), "lahar.job.opened.v1")


def test_both_forms_of_a_dead_letter_are_told_of() -> None:
    record = Record(Partition("pods", 3), 42, raw_message("job", b"much", 5))
    huge = encode_event(too_large(ShardId("lifecycle", 3), record, "too large", 7, 2), "job")
    of_bytes, *of_json = (encode(letter, "lifecycle/3", 8, (43, 0, 0)) for letter in (_letter(b"\x00"), _letter(b""), huge))
    assert faults(of_bytes, "lahar.shard.dead_lettered.v1") == []
    assert [faults(fields, "lahar.shard.dead_lettered.v1.json") for fields in of_json] == [[], []]
    assert faults(of_bytes, "lahar.shard.dead_lettered.v1.json")
    assert faults(of_json[0], "lahar.shard.dead_lettered.v1")


def test_every_header_that_is_told_of_is_written() -> None:
    far = NODE._replace(time=2**62, recordedtime=2**62, sequence=1, correlationid="job", causationid="before", data=b"")
    written = {name for fields in (encode(far, "lifecycle/0", 1, (1,)), encode(_letter(b"x"))) for name, _ in fields.headers}
    assert written == {header.name for header in (*HEADERS, *LETTER_HEADERS)}
