"""What msgspec reads of an event's data is what pydantic reads, and it refuses whatever pydantic refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from events_strategies import names_of
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from engine.events.attempts import AttemptEvent
from engine.events.bounds import INT32, NAME_CHARACTERS, TEXT_CHARACTERS
from engine.events.envelope import decode, encode
from engine.events.errors import UndecodableError
from engine.events.examples import example
from engine.events.fast_decoder import REFUSED, fast_decoder
from engine.events.times import EARLIEST, LATEST
from engine.events.vocabulary import TYPES, adapter
from statemachines.spec import RESOURCE
from statemachines.value import Value

FAST = {cls.__name__: (cls, decoder) for cls in TYPES.values() if (decoder := fast_decoder(cls)) is not None}

edges = st.sampled_from([0, INT32, RESOURCE, EARLIEST, LATEST]).flatmap(lambda edge: st.integers(edge - 1, edge + 1))
lengths = st.sampled_from([NAME_CHARACTERS, TEXT_CHARACTERS]).flatmap(lambda most: st.integers(most, most + 1))
values: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    edges,
    st.integers(),
    st.sampled_from([1.0, -0.0, 1e300]),
    lengths.map(lambda length: "ä" * length),
    st.text(max_size=3),
    st.sampled_from(["Running", "node", "AbortJob", "failed"]),
    st.lists(st.integers(), max_size=1),
    st.dictionaries(st.sampled_from(["cpu_milli", "gpu", "gpu_share_milli", "more"]), edges, max_size=3),
)


VALIDATORS = {name: adapter(cls).validator for name, (cls, _) in FAST.items()}


def by_pydantic(name: str, content: bytes) -> str:
    try:
        return repr(VALIDATORS[name].validate_json(content, strict=True))
    except ValidationError:
        return "refused"


def by_msgspec(name: str, content: bytes) -> str:
    """Return what is read, so that `1` and `true` differ, which are equal in Python."""
    try:
        return repr(FAST[name][1](content))
    except REFUSED:
        return "refused"


def by_decode(name: str, content: bytes) -> str:
    message = encode(example(FAST[name][0].TYPE))
    try:
        return repr(decode(message._replace(data=content), bounded=False).data)
    except UndecodableError:
        return "refused"


def test_what_there_is_most_of_is_read_so():
    attempts = {cls.__name__ for cls in TYPES.values() if issubclass(cls, AttemptEvent)}
    assert {"PodObserved", "CommandIssued", *attempts} <= FAST.keys()


@given(st.sampled_from(sorted(FAST)), st.data())
def test_fields_are_read_and_refused_as_pydantic_does(name, data):
    cls = FAST[name][0]
    fields = json.loads(encode(example(cls.TYPE)).data)
    names = st.sampled_from([*names_of(cls), "unknown"])
    for field in data.draw(st.lists(names, max_size=3)):
        fields[field] = data.draw(values)
    for field in data.draw(st.lists(names, max_size=1)):
        fields.pop(field, None)
    content = json.dumps(fields).encode()
    expected = by_pydantic(name, content)
    assert by_decode(name, content) == expected
    assert by_msgspec(name, content) == ("refused" if "unknown" in fields else expected)


DIGITS = b"1" * 4_301
PIECES = [
    b"\xff",
    b"\xc3",
    b"\\ud800",
    b"\\u0000",
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b",",
    b":",
    b"\0",
    b"\t",
    b"null",
    b"1e5",
    DIGITS,
]
FIELDS = [b'"x":' + value for value in (b"[" * 300 + b"]" * 300, DIGITS, b'"\xff"', b"{}", b"NaN")]
FIELDS += [b'"\xff":1', b'"exit_c\xffode":1', b'"name":"n","name":"m"', b'"u\\u0069d":"u"', b'"index":' + DIGITS]


@given(st.sampled_from(sorted(FAST)), st.data())
def test_whatever_bytes_come_are_read_and_refused_as_pydantic_does(name, data):
    content = encode(example(FAST[name][0].TYPE)).data
    for field in data.draw(st.lists(st.sampled_from(FIELDS), max_size=2)):
        content = data.draw(st.sampled_from([b"{" + field + b"," + content[1:], content[:-1] + b"," + field + b"}"]))
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(content)))
        piece = data.draw(st.one_of(st.sampled_from(PIECES), st.binary(max_size=1)))
        content = content[:at] + piece + content[at + data.draw(st.integers(0, 2)) :]
    expected = by_pydantic(name, content)
    assert by_decode(name, content) == expected
    assert by_msgspec(name, content) in {expected, "refused"}


class Inner(Value):
    number: int = 1


class Outer(Value):
    missing: Inner | None = Inner()
    absent: Inner | None = None


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"{}", Outer(Inner(1), None)),
        (b'{"missing":null,"absent":{"number":2}}', Outer(None, Inner(2))),
        (b'{"missing":{},"absent":null}', Outer(Inner(1), None)),
    ],
)
def test_a_part_that_may_be_absent_has_its_own_default(content, expected):
    decoder = fast_decoder(Outer)
    assert decoder is not None
    assert decoder(content) == expected


NO_OBSERVATIONS = [b"", b"[1]", b"{", b'{"uid":"\xff"}', b'{"uid":"\\ud800"}', b"[" * 100_000, b'{"index":1e999}', b'{"x":NaN}']


@pytest.mark.parametrize("content", NO_OBSERVATIONS)
def test_what_is_no_object_of_json_is_refused(content):
    assert by_msgspec("PodObserved", content) == by_pydantic("PodObserved", content) == "refused"


@pytest.mark.parametrize("frames", [0, 300, 600, 850])
@pytest.mark.parametrize("name", ["PodObserved", "NodeDeleted"])
def test_how_deep_an_unknown_field_may_be_does_not_depend_on_the_stack(name, frames):
    fields = encode(example(FAST[name][0].TYPE)).data

    def at(frames: int, content: bytes) -> str:
        return at(frames - 1, content) if frames else by_decode(name, content)

    for opened, closed in ((b"[", b"]"), (b'{"a":', b"}")):
        for depth in (1, 150, 198, 199, 200, 201, 250, 500, 800, 950, 100_000):
            content = fields[:-1] + b',"x":' + opened * depth + b"1" + closed * depth + b"}"
            assert at(frames, content) == by_pydantic(name, content)
            assert (by_pydantic(name, content) == "refused") == (depth > 199)
