"""What msgspec reads of an event's data is what pydantic reads, and it refuses whatever pydantic refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from engine.events.bounds import INT32, NAME_CHARACTERS, TEXT_CHARACTERS
from engine.events.envelope import encode
from engine.events.examples import example
from engine.events.fast_decoder import REFUSED, fast_decoder
from engine.events.inputs import CommandIssued, PodObserved
from engine.events.times import EARLIEST, LATEST
from engine.events.vocabulary import TYPES, fields_adapter
from statemachines.spec import RESOURCE

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


VALIDATORS = {name: fields_adapter(cls).validator for name, (cls, _) in FAST.items()}


def by_pydantic(name: str, content: bytes) -> str:
    try:
        return shown(VALIDATORS[name].validate_json(content, strict=True))
    except ValidationError:
        return "refused"


def by_msgspec(name: str, content: bytes) -> str:
    try:
        return shown(FAST[name][1](content))
    except REFUSED:
        return "refused"


def shown(fields: dict[str, Any]) -> str:
    """Return fields so that `1` and `true` differ, which are equal in Python."""
    return repr(sorted(fields.items()))


def test_observations_of_pods_and_commands_are_read_so():
    assert {PodObserved.__name__, CommandIssued.__name__} <= FAST.keys()


@given(st.sampled_from(sorted(FAST)), st.data())
def test_fields_are_read_and_refused_as_pydantic_does(name, data):
    cls = FAST[name][0]
    fields = json.loads(encode(example(cls.TYPE)).data)
    names = st.sampled_from([*cls.__slots__, "unknown"])
    for field in data.draw(st.lists(names, max_size=3)):
        fields[field] = data.draw(values)
    for field in data.draw(st.lists(names, max_size=1)):
        fields.pop(field, None)
    content = json.dumps(fields).encode()
    assert by_msgspec(name, content) == by_pydantic(name, content)


NO_OBSERVATIONS = [b"", b"[1]", b"{", b'{"uid":"\xff"}', b'{"uid":"\\ud800"}', b"[" * 100_000, b'{"index":1e999}', b'{"x":NaN}']


@pytest.mark.parametrize("content", NO_OBSERVATIONS)
def test_what_is_no_object_of_json_is_refused(content):
    assert by_msgspec("PodObserved", content) == by_pydantic("PodObserved", content) == "refused"


@given(st.integers(1, 100_000))
def test_however_deep_unknown_fields_are_nested_nobody_is_stopped(depth):
    fields = encode(example(PodObserved.TYPE)).data[:-1]
    assert by_msgspec("PodObserved", fields + b',"x":' + b"[" * depth + b"]" * depth + b"}") != ""
