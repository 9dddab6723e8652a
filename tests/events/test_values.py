"""Values are written without what equals the default, whichever object holds it, and their fields in order of declaration."""

from dataclasses import MISSING, fields, is_dataclass, replace
from typing import Any

from events_strategies import instances
from hypothesis import given
from hypothesis import strategies as st
from msgspec.json import decode
from msgspec.json import encode as encode_part
from pydantic_core import to_json

from engine.events.envelope import encode
from engine.events.examples import example
from engine.events.fast_decoder import has_any
from engine.events.values import OddlyWritten
from engine.events.vocabulary import TYPES, Data, adapter
from statemachines.value import Value


def below(cls: type[Any]) -> list[type[Any]]:
    return [found for one in cls.__subclasses__() for found in (one, *below(one))]


PARTS = [cls for cls in below(Value) if not issubclass(cls, Data) and cls.__module__.startswith(("engine.events", "statemachines"))]
VALUES = {cls.__name__: cls for cls in [*TYPES.values(), *(part for part in PARTS if not has_any(part))]}


def default_of(field: Any) -> object:
    return field.default if field.default_factory is MISSING else field.default_factory()


def expected(value: Any) -> Any:
    """What is written of a value: of a struct the fields that differ from their defaults, in their order."""
    if isinstance(value, list | tuple):
        return [expected(item) for item in value]
    if isinstance(value, dict):
        return {key: expected(item) for key, item in value.items()}
    if not isinstance(value, Value):
        return value
    known = {field.name: (getattr(value, field.name), default_of(field)) for field in fields(value)}
    return {name: expected(item) for name, (item, default) in known.items() if item != default}


def written(value: Any) -> bytes:
    return encode(replace(example(value.TYPE), data=value)).data if isinstance(value, Data) else encode_part(value)


class Text(str):
    """Text of a library, as NumPy has one."""


def test_inputs_hold_subclasses_of_texts_and_numbers():
    command: Any = example("lahar.command.issued.v2").data
    row: Any = example("lahar.pod.observed.v1").data
    assert written(replace(command, by=Text("ann"))) == written(replace(command, by="ann"))
    assert written(replace(row, exit_code=OddlyWritten(0x89))) == written(replace(row, exit_code=137))


def test_a_deletion_keeps_the_order_of_a_pod_with_its_arrival():
    deletion: Any = example("lahar.pod.deleted.v1").data
    deletion = replace(deletion, last=replace(deletion.last, arrived=1))
    assert written(deletion) == to_json(expected(deletion))


def test_data_of_events_are_values():
    assert all(issubclass(cls, Value) and is_dataclass(cls) for cls in TYPES.values())
    assert {"Charge", "Requests", "Taint"} <= VALUES.keys()


@given(name=st.sampled_from(sorted(VALUES)), data=st.data())
def test_what_differs_from_the_defaults_is_written_as_pydantic_writes_it(name, data):
    made = data.draw(instances(VALUES[name]))
    assert written(made) == to_json(expected(made)) == adapter(VALUES[name]).dump_json(made, exclude_defaults=True)


@given(name=st.sampled_from(sorted(VALUES)), data=st.data())
def test_what_equals_a_default_is_not_written(name, data):
    cls = VALUES[name]
    defaults = {field.name: default_of(field) for field in fields(cls)}
    other = {  # other objects
        key: decode(encode_part(value), type=type(value)) for key, value in defaults.items() if value is not MISSING
    }
    made = replace(data.draw(instances(cls)), **other)
    assert written(made) == to_json(expected(made))
    assert not expected(made).keys() & other.keys()
