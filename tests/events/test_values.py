"""Structs are written as dataclasses are: without what equals the default, whichever object holds it."""

from dataclasses import MISSING
from typing import Any

import pytest
from events_strategies import instances
from hypothesis import given
from hypothesis import strategies as st
from msgspec.json import decode, encode
from msgspec.structs import replace
from pydantic_core import to_json

from engine.events.examples import EXAMPLES
from engine.events.vocabulary import TYPES, default_of, fields_of
from statemachines.value import Value


def below(cls: type[Any]) -> list[type[Any]]:
    return [found for one in cls.__subclasses__() for found in (one, *below(one))]


STRUCTS = {cls.__name__: cls for cls in below(Value)}


def written(value: Any) -> Any:
    """What is written of a value: of a struct the fields that differ from their defaults, in their order."""
    if isinstance(value, list):
        return [written(item) for item in value]
    if not isinstance(value, Value):
        return value
    known = {field.name: getattr(value, field.name) for field in fields_of(type(value))}
    defaults = {field.name: default_of(field) for field in fields_of(type(value))}
    return {name: written(item) for name, item in known.items() if item != defaults[name]}


def test_uses_and_their_charges_are_structs():
    assert {"UsageRecorded", "UsageWithdrawn", "UsageFailed", "Charge"} <= STRUCTS.keys()
    assert {name for name, cls in STRUCTS.items() if cls in TYPES.values()} <= {type(data).__name__ for data in EXAMPLES.values()}


@given(st.sampled_from(sorted(STRUCTS)).flatmap(lambda name: instances(STRUCTS[name])))
def test_what_differs_from_the_defaults_is_written_as_pydantic_writes_it(made):
    assert encode(made) == to_json(written(made))


@pytest.mark.parametrize("name", sorted(STRUCTS))
@given(data=st.data())
def test_what_equals_a_default_is_not_written(name, data):
    cls = STRUCTS[name]
    defaults = {field.name: default_of(field) for field in fields_of(cls)}
    read = {key: decode(encode(value)) for key, value in defaults.items() if value is not MISSING}  # other objects
    made = replace(data.draw(instances(cls)), **read)
    assert encode(made) == to_json(written(made))
    assert not written(made).keys() & read.keys()
