"""What is written can be read again, and nothing that is read can do harm."""

import contextlib
import json
from dataclasses import replace

import pytest
from events_strategies import JSON, JSON_OBJECTS, MOMENTS, TEXT, events, names_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from engine.events import (
    SMALL,
    TYPES,
    EventError,
    Message,
    UndecodableError,
    UnknownTypeError,
    decode,
    encode,
    from_cloudevent,
    inputs,
    raw_message,
    to_cloudevent,
)
from engine.events.examples import example
from engine.events.values import DEEPEST
from engine.events.vocabulary import INPUT_TOPICS, adapter

SOME = settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
FEW = settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])

ATTRIBUTES = [*(name for name in Message._fields if name not in {"key", "type", "data"}), "partitionkey", "specversion"]


def cloud_event(**changes: object) -> bytes:
    """A command as a client sends it, with some attributes changed; `...` takes one away."""
    fields: dict[str, object] = {
        "specversion": "1.0",
        "id": "c1",
        "source": "command/ada",
        "type": "lahar.command.issued.v2",
        "subject": "job-1",
        "data": {"action": "AbortJob"},
    }
    fields |= changes
    return json.dumps({name: value for name, value in fields.items() if value is not ...}).encode()


@pytest.mark.parametrize("name", sorted(TYPES))
def test_every_type_survives_round_trips_through_log_and_structured_mode(name: str) -> None:
    @FEW
    @given(event=events(name))
    def check(event):
        message = encode(event)
        assert decode(message) == event
        assert encode(decode(message)) == message
        assert from_cloudevent(to_cloudevent(message), 0) == message

    check()


@SOME
@given(key=TEXT, data=st.binary(max_size=40) | JSON.map(json.dumps).map(str.encode), event=events())
def test_structured_mode_keeps_any_data_under_any_key_byte_for_byte(key, data, event):
    message = encode(event, key)._replace(data=data)
    line = to_cloudevent(message)
    assert b"\n" not in line
    assert from_cloudevent(line, 0) == message
    json.loads(line, parse_constant=pytest.fail)


@SOME
@given(content=st.binary(max_size=200) | JSON.map(json.dumps).map(str.encode))
def test_arbitrary_bytes_are_refused_with_an_event_error(content):
    with pytest.raises(EventError):
        decode(raw_message("key", content, 0))


@SOME
@given(
    name=st.sampled_from([*sorted(TYPES), "lahar.command.issued.v1", "lahar.unheard.of.v1"]),
    attributes=st.dictionaries(st.sampled_from(ATTRIBUTES), JSON | TEXT | MOMENTS.map(str), max_size=2),
    data=JSON_OBJECTS | JSON,
)
def test_almost_valid_events_decode_or_are_refused_with_an_event_error(name, attributes, data):
    content = cloud_event(type=name, data=data, **attributes)
    try:
        event = decode(raw_message("key", content, 0))
    except EventError:
        return
    assert decode(encode(event)) == event


@SOME
@given(event=events(), place=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_one_damaged_byte_in_a_record_is_refused_or_leaves_an_event(event, place, byte):
    message = encode(event)
    data = bytearray(message.data)
    data[place % len(data)] = byte
    with contextlib.suppress(EventError):
        decode(message._replace(data=bytes(data)))


@pytest.mark.parametrize("name", sorted(TYPES))
def test_data_are_read_as_pydantic_reads_the_class_itself(name: str) -> None:
    """`decode` gives the class its fields; what is taken, what it is and what is wrong with it are the class's own."""
    cls = TYPES[name]

    @FEW
    @given(
        event=events(name), changes=st.dictionaries(st.sampled_from([*names_of(cls), "unknown"]), JSON, max_size=2), gone=st.data()
    )
    def check(event, changes, gone):
        message = encode(event)
        data = json.loads(message.data) | changes
        data.pop(gone.draw(st.sampled_from([*data, "nothing"])), None)
        message = message._replace(data=json.dumps(data).encode())
        try:
            wanted = adapter(cls).validate_json(message.data, strict=True)
        except ValidationError as error:
            faults = error.errors()
        else:
            assert decode(message).data == wanted
            return
        with pytest.raises(UndecodableError) as refused:
            decode(message)
        told = str(refused.value)
        assert any(one["msg"] in told and all(str(part) in told for part in one["loc"]) for one in faults)

    check()


@pytest.mark.parametrize("content", [b"null", b"[]", b"7", b'"x"', b"", b"{", b"\xff", b'{"a":1}x'])
def test_data_that_are_no_object_are_refused(content: bytes) -> None:
    with pytest.raises(UndecodableError, match=r"^lahar.command.issued.v2: data: "):
        decode(encode(example("lahar.command.issued.v2"))._replace(data=content))


def test_defaults_are_left_out_of_the_bytes():
    event = replace(example("lahar.command.issued.v2"), data=inputs.CommandIssued("AbortJob"))
    assert encode(event).data == b'{"action":"AbortJob"}'


def test_structured_mode_has_a_fixed_order_and_leaves_out_what_is_empty():
    event = replace(example("lahar.command.issued.v2"), id="c1", subject="job-1", correlationid="job-1", clusterid="")
    event = replace(event, time=0, recordedtime=1, data=inputs.CommandIssued("AbortJob"))
    assert to_cloudevent(encode(event)).decode() == (
        '{"specversion":"1.0","id":"c1","source":"command/ada","type":"lahar.command.issued.v2","subject":"job-1",'
        '"time":"1970-01-01T00:00:00.000000Z","recordedtime":"1970-01-01T00:00:00.000001Z","correlationid":"job-1",'
        '"datacontenttype":"application/json","data":{"action":"AbortJob"}}'
    )


def test_an_input_without_times_gets_the_given_time_and_subject_as_key():
    message = from_cloudevent(cloud_event(), 77)
    assert message == Message(
        "job-1", "c1", "command/ada", "lahar.command.issued.v2", "job-1", 77, 77, 0, "job-1", "", "", b'{"action":"AbortJob"}'
    )


def test_unknown_attributes_and_fields_are_ignored():
    content = cloud_event(traceparent="00-1-2-01", data={"action": "AbortJob", "new_in_a_later_release": 1})
    assert decode(raw_message("k", content, 0)).data == inputs.CommandIssued("AbortJob")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"specversion": "0.3"}, "specversion"),
        ({"id": ...}, "id is missing"),
        ({"source": ""}, "source is missing or empty"),
        ({"type": 5}, "type is missing"),
        ({"subject": 5}, "subject is not a string"),
        ({"time": "yesterday"}, "yesterday"),
        ({"time": "0001-01-01T00:00:00+14:00"}, "outside the years 1 to 9999"),
        ({"sequence": "-1"}, "sequence"),
        ({"sequence": "9223372036854775808"}, "sequence"),
        ({"data_base64": "%"}, "c1"),
        ({"data": {}}, "action: "),
        ({"data": {"action": "Explode"}}, "action: Input should be 'AbortJob'"),
        ({"data": {"action": "AbortJob", "index": "1"}}, "index"),
        ({"type": "lahar.job.submitted.v1", "data": {"manifest": {"a": 1e999}}}, "not finite"),
        ({"type": "lahar.pod.deleted.v1", "data": {"last": {"uid": "u"}}}, "last.job: "),
    ],
)
def test_what_breaks_an_event_is_named(changes, text):
    """A producer learns which attribute or field is wrong."""
    with pytest.raises(UndecodableError, match=text):
        decode(raw_message("k", cloud_event(**changes).replace(b"Infinity", b"1e999"), 0))


def test_moments_that_cannot_be_written_are_refused():
    pod = {"uid": "u", "job": "j", "name": "n", "phase": "Running", "created": 10**30}
    with pytest.raises(UndecodableError, match="created"):
        decode(raw_message("k", cloud_event(type="lahar.pod.observed.v1", data=pod), 0))


def test_data_may_nest_to_the_limit_and_no_deeper():
    def nested(levels: int) -> bytes:
        text = '{"a":' * levels + "1" + "}" * levels
        return cloud_event(type="lahar.job.submitted.v1", data="@").replace(b'"@"', b'{"manifest":' + text.encode() + b"}")

    assert decode(raw_message("k", nested(DEEPEST), 0))
    with pytest.raises(UndecodableError, match="nested"):
        decode(raw_message("k", nested(DEEPEST + 1), 0))


def test_an_unknown_type_is_named():
    with pytest.raises(UnknownTypeError, match=r"lahar\.job\.exploded\.v9") as caught:
        decode(raw_message("k", cloud_event(type="lahar.job.exploded.v9"), 0))
    assert caught.value.name == "lahar.job.exploded.v9"


def test_bytes_that_came_without_attributes_are_exported_as_they_came():
    line = json.loads(to_cloudevent(raw_message("k", b"<html>\xff", 5)))
    assert line == {"specversion": "1.0", "recordedtime": "1970-01-01T00:00:00.000005Z", "data_base64": "PGh0bWw+/w=="}


@pytest.mark.parametrize("cls", [cls for cls in TYPES.values() if cls.TOPIC in INPUT_TOPICS], ids=lambda cls: cls.TYPE)
def test_a_small_input_is_within_every_bound(cls):
    """Shards look at the bounds of larger ones alone."""
    assert cls.LARGEST >= SMALL
